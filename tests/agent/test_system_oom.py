"""When the machine as a whole has no memory left, the node has an event."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fairlead.agent.system_oom import KERNEL_LOG, system_oom
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import manifest, real_node, state

_BEGINNING = "6,1234,15713425576,-;oom-kill:constraint="
_SET = "nodemask=(null),cpuset=ca8846,mems_allowed=0"
OF_MACHINE = (
    f"{_BEGINNING}CONSTRAINT_NONE,{_SET},global_oom,task_memcg=/kubepods/podb1/ca8846,task=java,pid=155,uid=0\n"
)
OF_CGROUP = f"{_BEGINNING}CONSTRAINT_MEMCG,{_SET},oom_memcg=/a/b,task_memcg=/a/b/ca8846,task=a,pid=1,x,pid=77,uid=0\n"


def test_the_kernel_tells_whose_memory_is_at_its_end() -> None:
    event = system_oom(OF_MACHINE, "/")
    assert event is not None and (event.type, event.reason) == ("Warning", "SystemOOM")
    assert event.message == "System OOM encountered, victim process: java, pid: 155"
    assert system_oom(OF_CGROUP, "/") is None and system_oom(OF_CGROUP, "/a") is None
    event = system_oom(OF_CGROUP, "/a/b")
    assert event is not None and event.message == "System OOM encountered, victim process: a,pid=1,x, pid: 77"
    assert system_oom("6,1,1,-;Memory cgroup out of memory: Killed process 155 (java)\n", "/") is None


@pytest.mark.skipif(not os.access(KERNEL_LOG, os.R_OK), reason=f"{KERNEL_LOG} cannot be read")
@real_containers
@in_loop
async def test_a_machine_without_memory_is_told_of(tmp_path: Path) -> None:
    """S3-84: the cgroup that stands for the machine has a limit, and its pods have none."""
    everything = {"enforceNodeAllocatable": ["none"]}
    async with real_node(tmp_path, everything, memory_bytes=128 << 20) as node:
        hog = "x=0123456789abcdef; while true; do x=$x$x; done"
        await node.create(manifest("hog", "sh", "-c", hog, spec={"restartPolicy": "Never"}))
        pod = await node.until("hog", lambda pod: "terminated" in state(pod).get("state", {}))
        assert state(pod)["state"]["terminated"]["exitCode"] == 137
        told = await node.told_of_node("SystemOOM")
        assert re.fullmatch(r"System OOM encountered, victim process: sh, pid: \d+", told[0])
