"""What a capture of a cluster keeps of it, and what it does not."""

from __future__ import annotations

import asyncio
import json

import pytest

from fairlead.api.objects import Obj
from fairlead.compose import restored
from fairlead.study.capture import captured
from tests.study.clusters import deployment, node

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def annotations_of_deployment(last: str) -> dict[str, str]:
    (web, *others) = deployment("web", ["a"])
    web["metadata"]["annotations"] = {APPLIED: last}

    async def main() -> Obj:
        async with restored([node("a"), web, *others]) as api:
            (found,) = [obj async for obj in captured(api, lambda kind, why: None, {}) if obj["kind"] == "Deployment"]
            return found

    found: dict[str, str] = asyncio.run(main())["metadata"].get("annotations") or {}
    return found


def test_what_kubectl_applied_is_kept_without_what_may_be_private() -> None:
    """A change that applies less takes the rest away."""
    container = {"name": "c", "image": "i", "command": ["serve", "--password=x"], "env": [{"name": "A", "value": "x"}]}
    spec = {"replicas": 1, "template": {"spec": {"nodeSelector": {"pool": "p"}, "containers": [container]}}}
    kept = annotations_of_deployment(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}))[APPLIED]
    template = {"spec": {"nodeSelector": {"pool": "p"}, "containers": [{"name": "c", "image": "i"}]}}
    assert json.loads(kept)["spec"] == {"replicas": 1, "template": template}


@pytest.mark.parametrize("last", ["{", "", "[" * 100_000, '{"a":' * 3000 + "1" + "}" * 3000])
def test_what_is_no_configuration_is_left_out(last: str) -> None:
    assert APPLIED not in annotations_of_deployment(last)
