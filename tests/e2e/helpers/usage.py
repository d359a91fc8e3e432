"""What is used, said with kubectl: `USE pod mem=…` and `SYS mem=…` of the scenarios."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fairlead.api.objects import Obj
from tests.e2e.helpers.terminal import Terminal


def kubelet_config(settings: Mapping[str, object]) -> dict[str, str]:
    """The annotation of a node whose kubelet runs with these settings."""
    document: Obj = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **settings}
    return {"sim.fairlead.dev/kubelet-config": json.dumps(document)}


def using(manifest: str, **usage: str) -> str:
    """That pod, or controller of pods, with what the pods use."""
    document = json.loads(manifest)
    pods = document["spec"].get("template", document)
    pods["metadata"]["annotations"] = _annotations(usage)
    return json.dumps(document)


def use(terminal: Terminal, target: str, **usage: str) -> None:
    """From now on `target` (`pod NAME`, `pods --all`, `node NAME`) uses this, a node outside its pods."""
    given = " ".join(f"'{key}={text}'" for key, text in _annotations(usage).items())
    terminal.output(f"kubectl annotate --overwrite {target} {given}")


def _annotations(usage: Mapping[str, str]) -> dict[str, str]:
    return {f"sim.fairlead.dev/usage-{measure.replace('_', '-')}": text for measure, text in usage.items()}
