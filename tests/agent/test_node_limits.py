"""What a real node keeps from its pods: limits of all of them, of their classes and of daemons, and quotas."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from fairlead.agent import agent as agents
from fairlead.agent.agent import KEEPERS
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.usage import memory_limit
from fairlead.api.builtin import EVENTS, NODES
from fairlead.api.objects import Obj
from fairlead.node.cgroups.files import files
from fairlead.node.cgroups.values import CgroupValues
from fairlead.node.configuration.errors import StartupError
from tests.agent.machine import in_loop, own_cgroup, real_containers, until
from tests.agent.oci_node import NODE, RealNode, is_running, manifest, real_node, state

pytestmark = real_containers

MIB = 1 << 20
#: Holds so many MiB: tail keeps what might be the last lines.
HOLD = "(head -c {} /dev/zero; sleep 1000) | tail"


def _limits(node: RealNode) -> tuple[int | None, int | None]:
    """Of Burstable and of BestEffort pods, in MiB."""
    cgroups = Cgroups(hierarchies())
    of = [memory_limit(cgroups, f"{node.cgroup}/kubepods/{name}") for name in ("burstable", "besteffort")]
    burstable, best_effort = (None if limit is None else limit // MIB for limit in of)
    return burstable, best_effort


def _reserving(percent: int) -> Obj:
    reserved = {"kubeReserved": {"memory": "100Mi"}, "systemReserved": {"memory": "100Mi"}}
    return reserved | {"featureGates": {"QOSReserved": True}, "qosReserved": {"memory": f"{percent}%"}}


@in_loop
async def test_what_higher_classes_request_is_kept_from_lower_ones(tmp_path: Path) -> None:
    """SC-29, S1-02 to S1-07."""
    async with real_node(tmp_path, _reserving(50), memory_bytes=1000 * MIB) as node:
        await until(lambda: _limits(node) == (800, 800))
        for name in ("g1", "g2"):
            sure = {"limits": {"cpu": "100m", "memory": "100Mi"}}
            await node.create(manifest(name, "sleep", "1000", resources=sure))
        await node.create(manifest("b", "sleep", "1000", resources={"requests": {"memory": "100Mi"}}))
        await until(lambda: _limits(node) == (700, 650))
        await node.delete("g1", grace=0)
        await until(lambda: _limits(node) == (750, 700))


@in_loop
async def test_a_class_that_uses_more_than_is_left_for_it_loses_nobody(tmp_path: Path) -> None:
    """S1-09: its limit is what it uses, and grows no further."""
    async with real_node(tmp_path, _reserving(100), memory_bytes=400 * MIB) as node:
        await node.create(manifest("holds", "sh", "-c", HOLD.format(60 * MIB)))
        await node.until("holds", is_running)
        await node.measured(lambda now: any(pod.memory.working_set >= 60 * MIB for pod in now.pods))
        sure = {"limits": {"cpu": "100m", "memory": "180Mi"}}
        await node.create(manifest("sure", "sleep", "1000", resources=sure))
        await node.until("sure", is_running)
        await until(lambda: 60 <= (_limits(node)[1] or 0) < 100)
        assert is_running(await node.pod("holds"))
        assert state(await node.pod("holds"))["restartCount"] == 0


@in_loop
async def test_all_pods_get_their_limit_as_soon_as_they_use_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-23."""
    monkeypatch.setattr(agents, "CORRECTION_SECONDS", 0.5)
    document: Obj = {}
    async with real_node(tmp_path, document, memory_bytes=400 * MIB) as node:
        await node.create(manifest("holds", "sh", "-c", HOLD.format(100 * MIB)))
        await node.until("holds", is_running)
        await node.measured(lambda now: any(pod.memory.working_set >= 100 * MIB for pod in now.pods))
        await node.stop()
        node.document["systemReserved"] = {"memory": "350Mi"}
        await node.start()

        async def told() -> list[str]:
            events = [event.obj() for event in (await node.api.list(EVENTS, "default")).items]
            return [
                each["reason"] for each in events if each["message"].startswith("Failed to update Node Allocatable")
            ]

        while "FailedNodeAllocatableEnforcement" not in await told():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert state(await node.pod("holds"))["restartCount"] == 0
        await node.delete("holds", grace=0)
        pods = f"{node.cgroup}/kubepods"
        await until(lambda: memory_limit(Cgroups(hierarchies()), pods) == 50 * MIB)


@in_loop
async def test_limits_are_put_right_while_pods_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has written to the cgroup of all pods."""
    monkeypatch.setattr(agents, "CORRECTION_SECONDS", 1.0)
    async with real_node(tmp_path, {}, memory_bytes=400 * MIB) as node:
        cgroups, pods = Cgroups(hierarchies()), f"{node.cgroup}/kubepods"
        await until(lambda: memory_limit(cgroups, pods) == 400 * MIB)
        written = CgroupValues(memory_limit=300 * MIB)
        cgroups.ensure(pods, files(written, cgroups.hierarchies.version))
        for number in range(30):
            if memory_limit(cgroups, pods) == 400 * MIB:
                break
            await node.create(manifest(f"p{number}", "true"))
            await asyncio.sleep(0.2)
        else:
            pytest.fail("it was never put right")


_RESERVED: Obj = {"kubeReserved": {"cpu": "100m", "memory": "100Mi"}}
_ALL_RESERVED: Obj = {
    "kubeReserved": {"cpu": "200m", "memory": "200Mi"},
    "systemReserved": {"cpu": "100m", "memory": "100Mi"},
    "evictionHard": {"memory.available": "25%"},
}


@pytest.mark.parametrize(
    ("document", "cpu", "allocatable", "limit"),
    [
        (_RESERVED | {"evictionHard": {"memory.available": "100Mi"}}, 100, "800Mi", 900),
        pytest.param(_ALL_RESERVED, 300, "450Mi", 700, marks=pytest.mark.slow),
        pytest.param(_ALL_RESERVED | {"enforceNodeAllocatable": ["none"]}, 300, "450Mi", 1000, marks=pytest.mark.slow),
    ],
    ids=["case-1", "cases-2-and-3", "case-6"],
)
@in_loop
async def test_a_node_gives_away_what_is_neither_reserved_nor_a_threshold(
    tmp_path: Path, document: Obj, cpu: int, allocatable: str, limit: int
) -> None:
    """SC-31, S1-15 to S1-27: what pods get together, in their cgroup; the runtime has no limit."""
    async with real_node(tmp_path, document, memory_bytes=1000 * MIB) as node:
        await until(lambda: node.agent is not None and node.agent.registered.is_set())
        status = (await node.api.get(NODES, NODE)).obj()["status"]
        cpus = len(os.sched_getaffinity(0)) * 1000 - cpu
        assert (status["allocatable"]["cpu"], status["allocatable"]["memory"]) == (f"{cpus}m", allocatable)
        cgroups = Cgroups(hierarchies())
        assert memory_limit(cgroups, f"{node.cgroup}/kubepods") == limit * MIB
        await node.create(manifest("p", "sleep", "1000"))
        await node.until("p", is_running)
        found = await node.measured(lambda now: {"runtime", "pods"} <= {each.name for each in now.system_containers})
        assert {each.name for each in found.system_containers} <= {"kubelet", "runtime", "pods"}
        assert memory_limit(cgroups, f"{node.cgroup}/{KEEPERS}") is None


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"kubeReserved": {"memory": "40Gi"}}, "invalid Node Allocatable configuration"),
        ({"enforceNodeAllocatable": ["none", "pods"]}, "none"),
    ],
    ids=["case-4", "case-6"],
)
@in_loop
async def test_a_node_that_cannot_be_so_does_not_start(tmp_path: Path, document: Obj, problem: str) -> None:
    """SC-31."""
    with pytest.raises(StartupError, match=problem):
        async with real_node(tmp_path, document, memory_bytes=1000 * MIB) as node:
            await node.measured(lambda _: False)


@in_loop
async def test_daemons_get_what_is_reserved_in_a_cgroup_that_has_to_be_there(tmp_path: Path) -> None:
    """SC-31 case 5, S1-21."""
    cgroups = Cgroups(hierarchies())
    with own_cgroup(cgroups) as daemons:
        enforced = {"enforceNodeAllocatable": ["pods", "system-reserved"], "systemReservedCgroup": daemons}
        document = enforced | {"systemReserved": {"memory": "64Mi"}}
        with pytest.raises(StartupError, match="could not read controllers for cgroup"):
            async with real_node(tmp_path / "missing", document) as node:
                await node.measured(lambda _: False)
        assert not cgroups.exists(daemons)
        cgroups.ensure(daemons, {})
        async with real_node(tmp_path / "there", document):
            await until(lambda: memory_limit(cgroups, daemons) == 64 * MIB)


@pytest.mark.skipif(hierarchies().version == 2, reason="a cgroup with others in it has no processes of its own")
@in_loop
async def test_who_is_in_no_cgroup_gets_that_of_systemcgroups(tmp_path: Path) -> None:
    """S1-27: what stands for the machine here is the cgroup of the test, so that nobody else is moved."""
    cgroups = Cgroups(hierarchies())
    with own_cgroup(cgroups) as system:
        document: Obj = {"systemCgroups": system}
        async with real_node(tmp_path, document) as node:
            await node.create(manifest("p", "sleep", "1000"))
            await node.until("p", is_running)
            own = {"runtime", "pods", "misc"}
            await node.measured(lambda now: own <= {each.name for each in now.system_containers})
            await node.stop()
            daemon = await asyncio.create_subprocess_exec("sleep", "1000")
            cgroups.move(daemon.pid, node.cgroup)
            assert daemon.pid in cgroups.members(node.cgroup)
            await node.start()
            await until(lambda: cgroups.processes(system) == {daemon.pid})
            assert is_running(await node.pod("p"))
            daemon.kill()
            await daemon.wait()


@in_loop
async def test_the_cgroup_of_the_machine_is_none_for_its_daemons(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r'system container cannot be root \("/"\)'):
        async with real_node(tmp_path, {"systemCgroups": "/"}) as node:
            await node.measured(lambda _: False)


@in_loop
async def test_where_the_kernel_counts_no_swap_nothing_is_said_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that is to write a file which is not there starts no container."""
    read = Cgroups.read
    without = ("memory.memsw.limit_in_bytes", "memory.swap.max")
    monkeypatch.setattr(Cgroups, "read", lambda own, path, file: None if file in without else read(own, path, file))
    async with real_node(tmp_path) as node:
        await node.create(manifest("web", "sleep", "1000", resources={"limits": {"memory": "64Mi"}}))
        await node.until("web", is_running)
        (bundle,) = node.root.glob("containers/*/config.json")
        resources = msgspec.json.decode(bundle.read_bytes())["linux"]["resources"]
        assert "swap" not in resources["memory"] and not resources.get("unified", {}).keys() & set(without)


@in_loop
async def test_a_node_that_enforces_no_quota_leaves_its_pods_the_cpu(tmp_path: Path) -> None:
    """SC-16 (c), S0-61."""
    async with real_node(tmp_path, {"cpuCFSQuota": False}) as node:
        busy = manifest("busy", "sh", "-c", "while true; do true; done", resources={"limits": {"cpu": "100m"}})
        await node.create(busy)
        await node.until("busy", is_running)
        uses = await node.measured(lambda now: any((pod.cpu.usage_nano_cores or 0) > 150_000_000 for pod in now.pods))
        assert uses.pods[0].containers[0].cpu.throttled_periods in (None, 0)
