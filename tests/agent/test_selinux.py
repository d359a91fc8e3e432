"""Labels of SELinux: nothing where the kernel knows none, a promise that is not made elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent.pods.selinux import is_enabled, selinux_refusal
from fairlead.api.objects import Obj
from tests.agent.machine import in_loop
from tests.agent.oci_node import is_phase, manifest, real_node
from tests.agent.runtime_place import on_each

LABELS: Obj = {"seLinuxOptions": {"level": "s0"}}


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"containers": [{"name": "c"}]}, ""),
        ({"containers": [], "securityContext": {"seLinuxOptions": {}}}, ""),
        ({"containers": [], "securityContext": LABELS}, "spec.securityContext.seLinuxOptions"),
        (
            {"containers": [{"name": "c"}, {"name": "d", "securityContext": LABELS}]},
            "spec.containers[1].securityContext.seLinuxOptions",
        ),
        (
            {"containers": [], "securityContext": {"seLinuxChangePolicy": "Recursive"}},
            "spec.securityContext.seLinuxChangePolicy",
        ),
    ],
)
def test_labels_are_refused_where_they_would_mean_something(spec: Obj, where: str) -> None:
    refused = selinux_refusal({"spec": spec}, is_enabled=True)
    assert (refused.message if refused else "") == (f"{where} is not supported by this node" if where else "")
    assert selinux_refusal({"spec": spec}, is_enabled=False) is None


@pytest.mark.skipif(is_enabled(), reason="the kernel of this machine has SELinux")
@on_each
@in_loop
async def test_a_pod_that_names_labels_runs_where_there_are_none(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        spec = {"restartPolicy": "Never", "securityContext": LABELS}
        await node.create(manifest("labelled", "true", spec=spec, securityContext=LABELS))
        await node.until("labelled", is_phase("Succeeded"))
