"""From which NUMA nodes containers have their memory, and what a kubelet keeps of that."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.node.configuration.load import configure
from fairlead.node.cpus.policy import StaticPolicy
from fairlead.node.cpus.state import CpuState
from fairlead.node.cpus.topology import Shape
from fairlead.node.numa_hints import HintPolicy, NumaNodes
from fairlead.node.numa_memory.policy import StaticMemory, memory_policy, numa_nodes_of
from fairlead.node.numa_memory.state import Block, NodeMemory, Table, decoded, encoded
from fairlead.node.placement import Held, Placement, Policies, placed
from tests.work import growth

GI = 2**30
#: Of a machine of 8 cores.
CORE = frozenset({0, 8})
#: Ten on each of two nodes, of which one is kept from pods.
TWO = StaticMemory({0: {"memory": 10 * GI}, 1: {"memory": 10 * GI}}, {0: {"memory": GI}, 1: {"memory": GI}})


def container(name: str, memory: str, **more: Any) -> Obj:
    amounts = {"cpu": "500m", "memory": memory}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}, **more}


def pod(uid: str, *containers: Obj, init: list[Obj] | None = None) -> Obj:
    return {"metadata": {"uid": uid}, "spec": {"containers": list(containers), "initContainers": init or []}}


def admitted(held: Held, manifest: Obj, hints: HintPolicy = HintPolicy(), by: StaticMemory = TWO) -> Placement:
    return placed(Policies(NumaNodes(frozenset(by.total)), hints, memory=by), held, manifest)


def after(*manifests: Obj, hints: HintPolicy = HintPolicy()) -> Held:
    held = Held()
    for manifest in manifests:
        result = admitted(held, manifest, hints)
        assert result.refusal is None, result.refusal
        held = result.held
    return held


def nodes(held: Held, uid: str, name: str = "c") -> list[int]:
    return numa_nodes_of(held.memory, uid, name)


def test_memory_is_of_one_node_as_long_as_one_has_it() -> None:
    held = after(pod("a", container("c", "5Gi")), pod("b", container("c", "5Gi")), pod("c", container("c", "3Gi")))
    assert [nodes(held, uid) for uid in "abc"] == [[0], [1], [0]]
    assert [memory.memory_map["memory"].free for memory in TWO.nodes(held.memory).values()] == [GI, 4 * GI]
    assert nodes(held, "nobody") == []


def test_nodes_that_serve_together_do_not_serve_alone() -> None:
    wide, small = pod("wide", container("c", "12Gi")), pod("small", container("c", "1Gi"))
    held = after(wide, small)
    assert (nodes(held, "wide"), nodes(held, "small")) == ([0, 1], [0, 1])
    refused = admitted(after(wide), small, HintPolicy("restricted")).refusal  # one node could have it
    assert refused is not None and refused.reason == "TopologyAffinityError"
    refused = admitted(after(small), wide).refusal
    text = "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
    assert refused is not None and refused.reason == "UnexpectedAdmissionError"
    assert refused.message == f"Allocate failed due to {text}, which is unexpected"


def test_a_burstable_pod_has_none() -> None:
    burstable = pod("a", container("c", "5Gi"))
    del burstable["spec"]["containers"][0]["resources"]["limits"]
    assert after(burstable).memory == {}


def test_what_init_containers_had_is_used_again() -> None:
    init = [container("first", "4Gi"), container("sidecar", "1Gi", restartPolicy="Always"), container("second", "6Gi")]
    held = after(pod("a", container("c", "5Gi"), init=init))
    assert 10 * GI - TWO.nodes(held.memory)[0].memory_map["memory"].free == GI + 7 * GI
    assert held.without_pod("a") == Held()


@pytest.mark.parametrize(
    ("name", "memory", "is_taken"),
    [("single-numa-node", "10Gi", False), ("restricted", "10Gi", True), ("single-numa-node", "8Gi", True)],
)
@pytest.mark.parametrize("is_for_pods", [False, True])
def test_policies_of_numa_nodes(name: str, memory: str, is_taken: bool, is_for_pods: bool) -> None:
    result = admitted(Held(), pod("a", container("c", memory)), HintPolicy(name, is_for_pods))
    assert (result.refusal is None) is is_taken
    if result.refusal is not None:
        assert result.refusal.reason == "TopologyAffinityError"


def test_the_file_is_a_kubelets() -> None:
    """With the checksum that a kubelet writes."""
    table = Table(2048, 512, 1536, 512, 1024)
    assigned = {"pod": {"container1": (Block((0,), "memory", 512),)}}
    text = encoded("static", {0: NodeMemory(0, {"memory": table}, ())}, assigned)
    assert text == (
        b'{"policyName":"static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":2048,'
        b'"systemReserved":512,"allocatable":1536,"reserved":512,"free":1024}},"cells":[]}},'
        b'"entries":{"pod":{"container1":[{"numaAffinity":[0],"type":"memory","size":512}]}},"checksum":4215593881}'
    )
    assert decoded("static", text) == ({0: NodeMemory(0, {"memory": table}, ())}, assigned)
    with pytest.raises(ValueError, match='configured policy "None" differs from state checkpoint policy "static"'):
        decoded("None", text)
    with pytest.raises(ValueError, match="checkpoint is corrupted"):
        decoded("static", text.replace(b"2048", b"2049"))


def test_a_state_of_another_machine_is_refused() -> None:
    held = after(pod("a", container("c", "5Gi")))
    kept = decoded("Static", encoded("Static", TWO.nodes(held.memory), held.memory))
    assert TWO.started(*kept) == held.memory
    smaller = StaticMemory({0: {"memory": 9 * GI}, 1: {"memory": 10 * GI}}, TWO.reserved)
    with pytest.raises(ValueError, match="the expected machine state is different from the real one"):
        smaller.started(*kept)
    with pytest.raises(ValueError, match="machine state can not be empty when it has memory assignments"):
        TWO.started({}, held.memory)


@pytest.mark.parametrize(
    ("reserved", "problem"),
    [
        ([], 'the total amount "0" of type "memory" is not equal to the value "2Gi" determined by Node Allocatable'),
        (
            [{"numaNode": 2, "limits": {"memory": "2Gi"}}],
            "the reserved memory configuration references a NUMA node 2 that does not exist on this machine",
        ),
        (
            [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
            'the total amount "1Gi" of type "memory" is not equal to the value "2Gi" determined by Node Allocatable',
        ),
    ],
)
def test_what_is_reserved_has_to_be_what_the_node_reserves(reserved: list[Obj], problem: str) -> None:
    config = configure({"memoryManagerPolicy": "Static", "reservedMemory": reserved}).configuration
    with pytest.raises(ValueError, match=re.escape(problem)):
        memory_policy(config, TWO.total, {"memory": parse("2Gi")})


def test_a_reservation_over_two_nodes() -> None:
    reserved = [{"numaNode": node, "limits": {"memory": "1Gi"}} for node in (0, 1)]
    config = configure({"memoryManagerPolicy": "Static", "reservedMemory": reserved}).configuration
    assert memory_policy(config, TWO.total, {"memory": parse("2Gi")}) == TWO
    assert memory_policy(configure({}).configuration, TWO.total, {}) is None
    with pytest.raises(ValueError, match='unknown policy: "Dynamic"'):
        memory_policy(configure({"memoryManagerPolicy": "Dynamic"}).configuration, TWO.total, {})


sizes = st.sampled_from(["512Mi", "1Gi", "3Gi", "7Gi", "12Gi"])


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    apps = [container(f"c{n}", draw(sizes)) for n in range(draw(st.integers(1, 2)))]
    sidecars = [container("s", draw(sizes), restartPolicy="Always")] if draw(st.booleans()) else []
    init = [container(f"i{n}", draw(sizes)) for n in range(draw(st.integers(0, 2)))]
    return pod(draw(st.uuids()).hex, *apps, init=[*sidecars, *init])


@given(
    st.lists(pods(), max_size=5),
    st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
    st.booleans(),
)
def test_no_more_is_set_aside_than_there_is_and_all_of_it_comes_back(
    manifests: list[Obj], name: str, is_for_pods: bool
) -> None:
    held = Held()
    for manifest in manifests:
        result = admitted(held, manifest, HintPolicy(name, is_for_pods))
        if result.refusal is not None:
            assert result.held == held
            continue
        held = result.held
        again = decoded("Static", encoded("Static", TWO.nodes(held.memory), held.memory))
        assert TWO.started(*again) == held.memory
    found = TWO.nodes(held.memory)
    for memory in found.values():
        table = memory.memory_map["memory"]
        assert table.free >= 0 and table.free + table.reserved == table.allocatable
    blocks = [block for of in held.memory.values() for blocks in of.values() for block in blocks]
    assert sum(block.size for block in blocks) == sum(each.memory_map["memory"].reserved for each in found.values())
    wide = {block.numa_affinity for block in blocks if block.size}
    assert not ({(0, 1)} < wide)  # nodes serve together or alone
    for manifest in manifests:
        held = held.without_pod(manifest["metadata"]["uid"])
    assert held == Held()


@pytest.mark.parametrize("hints", [HintPolicy(), HintPolicy("restricted"), HintPolicy("restricted", is_for_pods=True)])
def test_none_may_be_asked_for_of_pages_that_a_machine_does_not_have(hints: HintPolicy) -> None:
    """A node whose state had that would end, and not start again."""
    wanting = pod("p", container("c", "1Gi"))
    for amounts in wanting["spec"]["containers"][0]["resources"].values():
        amounts["hugepages-3Mi"] = "0"
    held = after(wanting, hints=hints)
    assert held.memory == {"p": {"c": (Block((0,), "memory", GI),)}}
    kept = decoded("Static", encoded("Static", TWO.nodes(held.memory), held.memory))
    assert TWO.started(*kept) == held.memory


@pytest.mark.parametrize(("is_init", "cpu"), [(False, "100m"), (True, "100m"), (True, "1")])
def test_a_pod_may_have_many_containers(is_init: bool, cpu: str) -> None:
    """What each asks for is found out once, though it depends on all of them; and so is what it may use again."""
    four = StaticMemory({node: {"memory": 100 * GI} for node in range(4)}, {0: {"memory": GI}})
    machine = Shape(numa=4, threads=2).topology(16)
    policies = Policies(NumaNodes(frozenset(range(4))), HintPolicy("best-effort"), StaticPolicy(machine, CORE), four)
    amounts = {"cpu": cpu, "memory": "1Mi"}
    last = {"name": "last", "resources": {"requests": amounts, "limits": amounts}}

    def place(size: int) -> None:
        many = [{**last, "name": f"c{number}"} for number in range(size)]
        manifest = pod("p", *(() if is_init else many), last, init=many if is_init else [])
        assert placed(policies, Held(CpuState(machine.cpus)), manifest).refusal is None

    assert growth(place, 100) <= 2.2
