"""What only a machine with cgroup v2 shows, and what kills. `test_cgroup_v2.py` runs this in a virtual machine.

One cluster for all of it: to start one takes most of the time in there.
"""

from __future__ import annotations

import asyncio
import math
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from fairlead.agent import agent as agents
from fairlead.agent.agent import NodeAgent
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.machine import machine as this_machine
from fairlead.api.builtin import EVENTS, LEASES, NODES
from fairlead.api.objects import Obj
from fairlead.node.cgroups.tree import cgroup_tree
from fairlead.node.configuration.load import configure
from fairlead.node.plan import node_plan
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.clock import parse_timestamp
from fairlead.runtime.loops import run
from tests.agent.machine import NO_RECLAIM
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import IMAGE

T = TypeVar("T")

MIB: Final = 1 << 20
#: Software emulation takes its time.
SECONDS: Final = 120.0
#: Below so many the node is short of process IDs.
_LEAST_PIDS: Final = 50
_DOCUMENT: Final[Obj] = {
    "featureGates": {"MemoryQoS": True},
    "memoryReservationPolicy": "TieredReservation",
    "systemReserved": {"memory": "100Mi"},
    "evictionHard": {"memory.available": "0%", "pid.available": str(_LEAST_PIDS)},
    "evictionPressureTransitionPeriod": "10s",
}
#: Takes 200 MiB, or dies of it; and holds so many, for its output goes nowhere.
_TAKE: Final = "dd if=/dev/zero of=/dev/null bs=200M count=1"
_HOLD: Final = "dd if=/dev/zero bs={}M count=1 | sleep 10000"
#: Takes memory until the kernel has killed something of the pods; nobody kills itself.
_HOG: Final = """
import sys
open("/proc/self/oom_score_adj", "w").write("-1000")
held, events = [], sys.argv[1]
before = open(events).read().splitlines()[-2:]
while open(events).read().splitlines()[-2:] == before:
    held.append(b"x" * (8 << 20))
"""


class Machine:
    """This machine as a node, in a loop of its own: `do` waits for what is asked of it there."""

    def __init__(self, folder: Path) -> None:
        self._node: Future[RealNode] = Future()
        self._done: asyncio.Event
        self._thread = threading.Thread(target=lambda: run(self._be(folder)))
        self._thread.start()
        self.node = self._node.result()

    async def _be(self, folder: Path) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with real_node(folder, _DOCUMENT) as node:
                _agent(node).be_spared()
                self._node.set_result(node)
                await self._done.wait()
        except BaseException as error:
            if not self._node.done():
                self._node.set_exception(error)
            raise

    def do(self, asked: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(SECONDS * 2)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    def start(self, *pods: Obj) -> dict[str, Obj]:
        """The pods, once they run."""
        for pod in pods:
            self.do(self.node.create(pod))
        names = [pod["metadata"]["name"] for pod in pods]
        return {name: self.do(self.node.until(name, is_running, SECONDS)) for name in names}

    def start_again(self, document: Obj) -> None:
        """An agent with another configuration takes up what runs."""
        self.do(self.node.stop())
        self.node.document = document
        self.do(self.node.start())

    def until(self, is_so: Callable[[], bool]) -> None:
        """Return once it is so, of the machine or of the cluster."""
        end = time.monotonic() + SECONDS
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.05)

    def object(self) -> Obj:
        """The node, as the cluster knows it."""
        found: Obj = self.do(self.node.api.get(NODES, NODE)).obj()
        return found

    def lease(self) -> Obj:
        found: Obj = self.do(self.node.api.get(LEASES, NODE, "kube-node-lease")).obj()
        return found

    def told(self) -> set[str]:
        """Why events were told of the node."""
        events = [event.obj() for event in self.do(self.node.api.list(EVENTS, "default")).items]
        return {each["reason"] for each in events if each["involvedObject"]["kind"] == "Node"}

    def remove(self, *names: str) -> None:
        for name in names:
            self.do(self.node.delete(name, grace=0))
        for name in names:
            self.do(self.node.gone(name, SECONDS))

    def file(self, path: str, name: str) -> str:
        return Path(f"/sys/fs/cgroup/{path.strip('/')}/{name}").read_text().strip()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("node"))
    try:
        yield made
    finally:
        made.stop()


def _pod(name: str, *argv: str, **resources: Mapping[str, str]) -> Obj:
    return manifest(name, *(argv or ("sleep", "10000")), resources=resources)


def _expected(machine: Machine, pods: list[Obj]) -> dict[str, Mapping[str, str]]:
    """What `node/` says of every cgroup of the node, with these pods."""
    node = machine.node
    document = {"cgroupRoot": node.cgroup, "cgroupDriver": "cgroupfs", **node.document}
    configured, hardware = configure(document, cgroup_version=2), this_machine(node.root)
    return dict(cgroup_tree(configured, hardware, node_plan(configured, hardware), pods))


def _there(machine: Machine, expected: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    return {path: {name: machine.file(path, name) for name in files} for path, files in expected.items()}


def _agent(node: RealNode) -> NodeAgent:
    assert node.agent is not None
    return node.agent


def _has_restarted(pod: Obj) -> bool:
    return bool(state(pod).get("restartCount", 0) >= 1)


def test_the_machine_has_cgroup_v2_alone(machine: Machine) -> None:
    found = hierarchies()
    assert (found.version, found.unified, found.named) == (2, None, ())


def test_every_file_of_the_tree_is_as_node_reckons_it(machine: Machine) -> None:
    """SC-28 with memory.min, low and high: kubepods, classes, pods and containers."""
    pods = machine.start(
        _pod("g", limits={"cpu": "1", "memory": "128Mi"}),
        _pod("b1", requests={"cpu": "500m", "memory": "32Mi"}, limits={"memory": "64Mi"}),
        _pod("b2", requests={"cpu": "1500m"}, limits={"cpu": "2"}),
        _pod("e"),
    )
    expected = _expected(machine, list(pods.values()))
    kubepods = f"{machine.node.cgroup}/kubepods"
    of = {name: f"pod{pod['metadata']['uid']}" for name, pod in pods.items()}
    try:
        machine.until(lambda: _there(machine, expected) == expected)  # classes are corrected in a moment
    except TimeoutError:
        assert _there(machine, expected) == expected
    assert machine.file(f"{kubepods}/burstable", "cpu.weight") == "79"
    assert machine.file(f"{kubepods}/burstable/{of['b1']}", "cpu.weight") == "20"
    assert machine.file(f"{kubepods}/burstable/{of['b2']}", "cpu.weight") == "59"
    assert machine.file(f"{kubepods}/burstable/{of['b2']}", "cpu.max") == "200000 100000"
    assert machine.file(f"{kubepods}/burstable/{of['b1']}", "cpu.max") == "max 100000"
    assert machine.file(f"{kubepods}/besteffort", "cpu.weight") == "1"
    assert machine.file(f"{kubepods}/{of['g']}", "cpu.weight") == "39"
    assert machine.file(f"{kubepods}/{of['g']}", "cpu.max") == "100000 100000"
    assert machine.file(f"{kubepods}/{of['g']}", "memory.max") == str(128 * MIB)
    container = f"{kubepods}/burstable/{of['b1']}/{_id(pods['b1'])}"
    assert machine.file(container, "memory.low") == str(32 * MIB)
    assert 32 * MIB < int(machine.file(container, "memory.high")) < 64 * MIB
    machine.remove("b2")
    machine.until(lambda: machine.file(f"{kubepods}/burstable", "cpu.weight") == "20")
    assert not Path(f"/sys/fs/cgroup{kubepods}/burstable/{of['b2']}").exists()
    machine.remove("g", "b1", "e")


def test_a_guaranteed_pod_has_its_cpu_to_itself(machine: Machine) -> None:
    """The others leave it, and have it back when the pod is gone."""
    usual = machine.node.document
    _start_with_other_cpus(machine, {**usual, "cpuManagerPolicy": "static", "systemReserved": {"cpu": "1"}})
    pods = machine.start(_pod("own", limits={"cpu": "1", "memory": "32Mi"}), _pod("shared"))
    kubepods = f"{machine.node.cgroup}/kubepods"
    own, shared = (f"{pods[name]['metadata']['uid']}/{_id(pods[name])}" for name in ("own", "shared"))
    assert machine.file(f"{kubepods}/pod{own}", "cpuset.cpus") == "1"
    assert machine.file(f"{kubepods}/pod{own}", "cpu.max") == "max 100000"
    machine.until(lambda: machine.file(f"{kubepods}/besteffort/pod{shared}", "cpuset.cpus") == "0,2")
    machine.remove("own")
    machine.until(lambda: machine.file(f"{kubepods}/besteffort/pod{shared}", "cpuset.cpus") == "0-2")
    machine.remove("shared")
    _start_with_other_cpus(machine, usual)


def _start_with_other_cpus(machine: Machine, document: Obj) -> None:
    """With another policy, which takes, as with a kubelet, the removal of what the last one left."""
    machine.do(machine.node.stop())
    (machine.node.root / "cpu_manager_state").unlink()
    machine.node.document = document
    machine.do(machine.node.start())


def test_the_container_dies_as_a_whole(machine: Machine) -> None:
    """SC-56: the one that exceeds its limit, and nothing beside it."""
    pod = _pod("group", "sh", "-c", f"(sleep 1; {_TAKE}) & wait; sleep 10000", limits={"memory": "50Mi"})
    pod["spec"]["containers"].append({"name": "beside", "image": IMAGE, "command": ["sleep", "10000"]})
    machine.do(machine.node.create(pod))
    found = machine.do(machine.node.until("group", _has_restarted, SECONDS))
    ended = state(found)["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    beside = state(found, "beside")
    assert beside["restartCount"] == 0 and "running" in beside["state"]
    machine.remove("group")


def test_pods_are_measured(machine: Machine) -> None:
    machine.start(_pod("measured", "sh", "-c", _HOLD.format(20)))

    def is_full(node: NodeMeasurements) -> bool:
        return any(pod.name == "measured" and pod.memory.working_set >= 20 * MIB for pod in node.pods)

    found = machine.do(machine.node.measured(is_full, SECONDS))
    assert found.memory.working_set >= 20 * MIB
    (pod,) = found.pods
    assert (pod.pressures is not None) == Path("/sys/fs/cgroup/cpu.pressure").exists()
    assert pod.processes >= 3 and pod.cpu.usage_core_nano_seconds > 0
    assert pod.containers[0].memory.rss >= 18 * MIB
    machine.remove("measured")


def test_short_of_memory_the_machine_kills_who_is_furthest_above_its_request(machine: Machine) -> None:
    """SC-55: neither the one below its request, nor the idle one of the lowest class, nor a Guaranteed one."""
    pods = machine.start(
        _pod("above", "sh", "-c", _HOLD.format(150), requests={"memory": "100Mi"}),
        _pod("below", "sh", "-c", _HOLD.format(190), requests={"memory": "200Mi"}),
        _pod("idle"),
        _pod("sure", limits={"cpu": "100m", "memory": "50Mi"}),
    )

    def are_full(node: NodeMeasurements) -> bool:
        used = {pod.name: pod.memory.working_set for pod in node.pods}
        return used.get("above", 0) > 150 * MIB and used.get("below", 0) > 190 * MIB

    machine.do(machine.node.measured(are_full, SECONDS))
    scores = {name: _greatest_score(machine, pod) for name, pod in pods.items()}
    assert scores["above"] > scores["idle"] > scores["below"] > scores["sure"]
    events = f"/sys/fs/cgroup{machine.node.cgroup}/kubepods/memory.events"
    subprocess.run([sys.executable, "-S", "-c", _HOG, events], check=True, timeout=SECONDS * 2)
    found = machine.do(machine.node.until("above", _has_restarted, SECONDS))
    ended = state(found)["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    others = [machine.do(machine.node.pod(name)) for name in ("below", "idle", "sure")]
    assert [state(pod)["restartCount"] for pod in others] == [0, 0, 0]
    told = machine.do(machine.node.told_of_node("SystemOOM", SECONDS))
    assert any(message.startswith("System OOM encountered, victim process: ") for message in told)
    machine.remove(*pods)


def test_the_agent_is_the_last_to_be_killed(machine: Machine) -> None:
    """S1-28: its own score is that of its configuration, the scores of pods and of commands in them are theirs."""
    assert Path("/proc/self/oom_score_adj").read_text() == "-999\n"
    script = "cat /proc/self/oom_score_adj; sleep 10000"
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "cat /proc/self/oom_score_adj > /proc/1/fd/1"]}}}
    pods = {
        "least": _pod("least", "sh", "-c", script),
        "sure": _pod("sure", "sh", "-c", script, limits={"cpu": "100m", "memory": "50Mi"}),
    }
    for pod in pods.values():
        pod["spec"]["containers"][0]["lifecycle"] = hook
    machine.start(*pods.values())
    machine.until(lambda: all(len(machine.node.log(name)) == 2 for name in pods))
    assert machine.node.log("least") == ["1000", "1000"]
    assert machine.node.log("sure") == ["-997", "-997"]
    machine.remove(*pods)


def test_short_of_process_ids_who_has_most_goes(machine: Machine) -> None:
    """A pod forks within a limit of the node, which is the machine to it."""
    machine.start(_pod("idle"))
    used = int(machine.file(machine.node.cgroup, "pids.current"))
    limit = Path(f"/sys/fs/cgroup{machine.node.cgroup}/pids.max")
    limit.write_text(str(used + 150))
    try:
        fork = "number=0; while [ $number -lt 120 ]; do sleep 10000 & number=$((number + 1)); done; wait"
        machine.do(machine.node.create(_pod("forks", "sh", "-c", fork)))
        found = machine.do(machine.node.until("forks", is_phase("Failed"), SECONDS))["status"]
        said = rf"The node was low on resource: pids\. Threshold quantity: {_LEAST_PIDS}, available: [1234]?\d\. "
        assert found["reason"] == "Evicted" and re.fullmatch(said, found["message"]), found
        machine.until(lambda: ("True", "KubeletHasInsufficientPID") in _conditions(machine.object(), "PIDPressure"))
        machine.until(lambda: "node.kubernetes.io/pid-pressure" in _taints(machine.object()))
        late = _pod("late")
        late["spec"]["nodeName"] = NODE
        machine.do(machine.node.create(late))
        refused = machine.do(machine.node.until("late", is_phase("Failed"), SECONDS))["status"]
        assert refused["message"] == "Pod was rejected: The node had condition: [PIDPressure]. "
        machine.until(lambda: ("False", "KubeletHasSufficientPID") in _conditions(machine.object(), "PIDPressure"))
        machine.until(lambda: not _taints(machine.object()))
        assert is_running(machine.do(machine.node.pod("idle")))
    finally:
        limit.write_text("max")
    machine.remove("idle", "forks", "late")


def test_nobody_is_killed_when_the_clock_is_set(machine: Machine) -> None:
    """Probes, grace periods, back-off and leases go on, whether it is set on or back; logs tell the time that is."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 2, "timeoutSeconds": 60}
    probed = _pod("probed")
    probed["spec"]["containers"][0] |= {"livenessProbe": probe, "readinessProbe": probe}
    machine.start(probed, _pod("crashing", "sh", "-c", "sleep 1; false"))
    for hours in (8, -8):
        _set_the_clock(machine, hours)
        found = machine.do(machine.node.pod("probed"))
        assert state(found)["ready"] and state(found)["restartCount"] == 0
        assert _taints(machine.object()) == set() and ("True", "KubeletReady") in _conditions(machine.object(), "Ready")
    machine.remove("probed", "crashing")


def _set_the_clock(machine: Machine, hours: int) -> None:
    """While one container waits to run again, and another to be killed; return when all goes on."""
    before = state(machine.do(machine.node.until("crashing", _is_backing_off, SECONDS)))["restartCount"]
    stubborn, later = f"stubborn{hours}", f"later{hours}"
    machine.start(_pod(stubborn, "sh", "-c", "trap '' TERM; while true; do sleep 1; done"))
    machine.do(machine.node.delete(stubborn, grace=10))
    time.clock_settime(time.CLOCK_REALTIME, time.time() + hours * 3600)
    machine.do(machine.node.until("crashing", lambda pod: state(pod)["restartCount"] > before, SECONDS))
    machine.do(machine.node.gone(stubborn, SECONDS))
    machine.start(_pod(later, "sh", "-c", "echo here; sleep 10000"))
    machine.until(lambda: machine.node.log(later) == ["here"])
    (log,) = machine.node.root.glob(f"logs/default_{later}_*/c/0.log")
    assert abs(parse_timestamp(log.read_text().split()[0][:26] + "Z") - time.time()) < SECONDS
    renewed = machine.lease()["spec"]["renewTime"]
    machine.until(lambda: machine.lease()["spec"]["renewTime"] != renewed)
    machine.remove(later)


def test_no_limit_is_set_for_which_somebody_would_be_killed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1-09, S1-23: the kernel takes a limit below what is used, and kills. The agent starts anew twice for it."""
    kubepods, limit = f"{machine.node.cgroup}/kubepods", Path(f"/sys/fs/cgroup{machine.node.cgroup}/memory.max")
    monkeypatch.setattr(agents, "CORRECTION_SECONDS", 1.0)
    machine.start(_pod("holds", "sh", "-c", _HOLD.format(60)))

    def is_full(node: NodeMeasurements) -> bool:
        return any(pod.name == "holds" and pod.memory.working_set >= 60 * MIB for pod in node.pods)

    machine.do(machine.node.measured(is_full, SECONDS))
    before = machine.node.document
    limit.write_text(str(400 * MIB))
    try:
        reserved: Obj = {"kubeReserved": {"memory": "100Mi"}, "systemReserved": {"memory": "100Mi"}}
        reserved |= {"featureGates": {"QOSReserved": True}, "qosReserved": {"memory": "100%"}}
        machine.start_again({**NO_RECLAIM, **reserved})
        machine.start(_pod("sure", limits={"cpu": "100m", "memory": "180Mi"}))
        machine.until(lambda: 60 * MIB <= _limit(machine, f"{kubepods}/besteffort") < 100 * MIB)
        machine.remove("sure")
        machine.start_again({**NO_RECLAIM, "systemReserved": {"memory": "350Mi"}})
        machine.until(lambda: "FailedNodeAllocatableEnforcement" in machine.told())
        assert _limit(machine, kubepods) > 60 * MIB
        assert state(machine.do(machine.node.pod("holds")))["restartCount"] == 0
        machine.remove("holds")
        machine.until(lambda: _limit(machine, kubepods) == 50 * MIB)
    finally:
        limit.write_text("max")
        machine.node.document = before


def test_with_single_process_oom_kill_the_container_goes_on(machine: Machine) -> None:
    """SC-56, the other way; the agent starts anew for it, takes up what runs, and stays as it is: this test is last."""
    before = machine.start(_pod("kept"))["kept"]
    machine.start_again({**machine.node.document, "singleProcessOOMKill": True})
    script = f"sleep 1; {_TAKE}; echo ended with $?; sleep 10000"
    machine.start(_pod("single", "sh", "-c", script, limits={"memory": "50Mi"}))
    machine.until(lambda: "ended with 137" in machine.node.log("single"))
    pod = machine.do(machine.node.pod("single"))
    assert is_running(pod) and state(pod)["restartCount"] == 0
    kept = machine.do(machine.node.pod("kept"))
    assert _id(kept) == _id(before) and is_running(kept)
    machine.remove("single", "kept")


def _id(pod: Obj) -> str:
    return str(state(pod)["containerID"]).rpartition("/")[2]


def _greatest_score(machine: Machine, pod: Obj) -> int:
    """Of the processes of a pod, as the kernel shows it."""
    root = Path("/sys/fs/cgroup")
    folder = next((root / machine.node.cgroup.strip("/") / "kubepods").rglob(f"pod{pod['metadata']['uid']}"))
    processes = Cgroups(hierarchies()).processes(str(folder.relative_to(root)))
    return max(int(Path(f"/proc/{pid}/oom_score").read_text()) for pid in processes)


def _conditions(node: Obj, kind: str) -> list[tuple[str, str]]:
    """Status and reason."""
    return [(each["status"], each["reason"]) for each in node["status"]["conditions"] if each["type"] == kind]


def _taints(node: Obj) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints") or ()}


def _limit(machine: Machine, path: str) -> float:
    text = machine.file(path, "memory.max")
    return math.inf if text == "max" else int(text)


def _is_backing_off(pod: Obj) -> bool:
    return bool((state(pod).get("state", {}).get("waiting") or {}).get("reason") == "CrashLoopBackOff")
