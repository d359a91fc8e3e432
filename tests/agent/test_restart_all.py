"""One container of a pod ends so that all of them run anew (KEP-5532)."""

from __future__ import annotations

from pathlib import Path

from fairlead.api.objects import Obj
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_running, manifest, real_node, state
from tests.agent.runtime_place import IMAGE

ONCE = "[ -e /data/seen ] || { touch /data/seen; exit 42; }; sleep 1000"


def _runs_anew(pod: Obj) -> bool:
    trigger = state(pod, "trigger")
    return is_running(pod) and trigger["restartCount"] == 1 and "running" in trigger["state"]


@real_containers
@in_loop
async def test_a_pod_runs_anew_where_it_is(tmp_path: Path) -> None:
    """At once, without hooks; it keeps its address and its volumes."""
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    trigger = {"name": "trigger", "image": IMAGE, "command": ["sh", "-c", ONCE], "restartPolicy": "Never"}
    hook = {"preStop": {"exec": {"command": ["touch", "/data/hook"]}}}
    spec = {
        "initContainers": [{"name": "first", "image": IMAGE, "command": ["sh", "-c", "echo >> /data/runs"], **mounts}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "restartPolicy": "Never",
    }
    own = manifest("again", "sh", "-c", "[ ! -e /data/hook ] && sleep 1000", spec=spec, lifecycle=hook, **mounts)
    own["spec"]["containers"].append({**trigger, "restartPolicyRules": rules, **mounts})
    async with real_node(tmp_path) as node:
        await node.create(own)
        again = await node.until("again", _runs_anew, 40)
        for name in ("first", "c", "trigger"):
            ended = state(again, name)["lastState"]["terminated"]
            assert (state(again, name)["restartCount"], ended["reason"]) == (1, "RestartingAllContainers")
        await node.told("again", "Killing", "killing")
        conditions = {each["type"]: each["status"] for each in again["status"]["conditions"]}
        assert conditions["AllContainersRestarting"] == "False"
