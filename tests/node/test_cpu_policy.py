"""Who has CPUs to himself: cases of a kubelet's own tests (policy_static_test.go, policy_options_test.go), and what
holds of all pods that come and go."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity, parse
from fairlead.node.admission import Refusal
from fairlead.node.configuration.cpu_sets import listed, parse_cpu_set
from fairlead.node.configuration.feature_gates import FeatureGates
from fairlead.node.configuration.load import configure
from fairlead.node.cpus.exclusive import containers_of
from fairlead.node.cpus.policy import StaticPolicy, static_policy
from fairlead.node.cpus.state import CpuState, decoded, encoded
from fairlead.node.cpus.topology import Shape, Topology
from fairlead.node.numa_hints import HintPolicy, NumaNodes
from fairlead.node.placement import Held, Placement, Policies, placed
from tests.node.cpu_machines import DUAL_SOCKET_HT, DUAL_SOCKET_NO_HT, MULTI_NUMA_HT, MULTI_SOCKET_HT, SINGLE_SOCKET_HT

ALPHA = {"CPUManagerPolicyAlphaOptions": True}


def cpus(text: str) -> frozenset[int]:
    return parse_cpu_set(text).cpus


def exactly(text: str) -> str:
    return f"^{re.escape(text)}$"


def policy(
    topology: Topology, reserved: int = 1, options: Obj | None = None, gates: Obj | None = None, **settings: Any
) -> StaticPolicy:
    document = {"cpuManagerPolicyOptions": options or {}, "featureGates": gates or {}, **settings}
    found = configure(document)
    return static_policy(found.configuration, found.gates, topology, Quantity.of_units(reserved))


def container(name: str, cpu: str, limit: str = "", **more: Any) -> Obj:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    limits = {"cpu": limit or cpu, "memory": "1Gi"}
    return {"name": name, "resources": {"requests": amounts, "limits": limits}, **more}


def pod(*containers: Obj, init: list[Obj] | None = None, uid: str = "p") -> Obj:
    return {"metadata": {"uid": uid}, "spec": {"containers": list(containers), "initContainers": init or []}}


def held(shared: str, other: str = "") -> CpuState:
    return CpuState(cpus(shared), {"other": {"c": cpus(other)}} if other else {})


def admitted(by: StaticPolicy, state: CpuState, manifest: Obj, hints: HintPolicy = HintPolicy()) -> Placement:
    return placed(Policies(NumaNodes(by.topology.ids("numa")), hints, by), Held(state), manifest)


def taken(result: Placement, name: str = "c", uid: str = "p") -> str:
    assert result.refusal is None
    return listed(result.held.cpus.exclusive.get(uid, {}).get(name, frozenset()))


@pytest.mark.parametrize(
    ("machine", "state", "cpu", "expected"),
    [
        (SINGLE_SOCKET_HT, held("0,1,4,5", "2,3,6,7"), "2", "1,5"),
        (DUAL_SOCKET_HT, held("0,1,3-11", "2"), "6", "1,3,5,7,9,11"),
        (DUAL_SOCKET_HT, held("0,2-4,6-11", "1,5"), "6", "2-4,8-10"),
        (DUAL_SOCKET_NO_HT, held("0,1,3-7"), "4", "4-7"),
        (DUAL_SOCKET_NO_HT, held("0,1,3,6,7", "4,5"), "4", "1,3,6-7"),
        (DUAL_SOCKET_HT, held("0,1,3-11", "2"), "8", "1,3-5,7,9-11"),
        (SINGLE_SOCKET_HT, held("0-7"), "1", "4"),
        (SINGLE_SOCKET_HT, held("0-7"), "977m", ""),
    ],
)
def test_a_container_of_whole_cpus_has_them_to_itself(
    machine: Topology, state: CpuState, cpu: str, expected: str
) -> None:
    result = admitted(policy(machine), state, pod(container("c", cpu)))
    assert taken(result) == expected
    assert result.held.cpus.shared == state.shared - cpus(expected)


def test_a_pod_that_is_not_guaranteed_has_none() -> None:
    burstable = pod(container("c", "1", limit="2"))
    assert taken(admitted(policy(SINGLE_SOCKET_HT), held("0-7"), burstable)) == ""
    of_pod = pod(container("c", "1"))
    of_pod["spec"]["resources"] = container("", "1")["resources"]
    assert taken(admitted(policy(SINGLE_SOCKET_HT), held("0-7"), of_pod)) == ""


def test_a_node_that_is_full_refuses() -> None:
    result = admitted(policy(SINGLE_SOCKET_HT), held("0-7"), pod(container("a", "4"), container("b", "4")))
    text = "Allocate failed due to not enough cpus available to satisfy request: requested=4, available=3"
    assert result.refusal == Refusal("UnexpectedAdmissionError", f"{text}, which is unexpected")
    assert result.held.cpus == held("0-7")  # the first of them has left nothing behind


@pytest.mark.parametrize(
    ("count", "text"),
    [
        ("3", "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"),
        (
            "8",
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, "
            "CPUs per core = 2",
        ),
    ],
)
def test_only_whole_cores_if_the_node_says_so(count: str, text: str) -> None:
    strict = policy(SINGLE_SOCKET_HT, options={"full-pcpus-only": "true"})
    refusal = admitted(strict, held("0-7"), pod(container("c", count))).refusal
    assert refusal == Refusal("SMTAlignmentError", text)
    assert taken(admitted(strict, held("0-7"), pod(container("c", "4")))) == "1-2,5-6"


def test_what_init_containers_had_is_used_again_and_sidecars_keep_theirs() -> None:
    init = [container("first", "2"), container("sidecar", "1", restartPolicy="Always"), container("second", "4")]
    result = admitted(policy(Shape().topology(8)), held("0-7"), pod(container("c", "4"), init=init))
    of = {name: taken(result, name) for name in ("first", "sidecar", "second", "c")}
    assert of == {"first": "1-2", "sidecar": "1", "second": "2-5", "c": "2-5"}
    assert listed(result.held.cpus.shared) == "0,6-7"
    assert result.held.cpus.without_pod("p") == held("0-7")


def test_nobody_runs_on_what_is_strictly_reserved() -> None:
    strict = policy(Shape().topology(4), options={"strict-cpu-reservation": "true"}, reservedSystemCPUs="0")
    state = strict.started(CpuState())
    assert listed(state.shared) == "1-3"
    assert taken(admitted(strict, state, pod(container("c", "1")))) == "1"


@pytest.mark.parametrize(
    ("options", "shared", "other", "problem"),
    [
        ({}, "1-11", "0", 'not all reserved cpus: "0" are present in defaultCpuSet: "1-11"'),
        ({}, "0-10", "", 'current set of available CPUs "0-11" doesn\'t match with CPUs in state "0-10"'),
        ({}, "0,5-12", "1-4", 'current set of available CPUs "0-11" doesn\'t match with CPUs in state "0-12"'),
        ({}, "0,2-11", "0-2", 'pod: other, container: c cpuset: "0-2" overlaps with default cpuset "0,2-11"'),
        ({}, "", "0", "default cpuset cannot be empty"),
        (
            {"strict-cpu-reservation": "true"},
            *("0-1", "", 'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-1"'),
        ),
    ],
)
def test_a_state_that_does_not_fit_the_machine(options: Obj, shared: str, other: str, problem: str) -> None:
    with pytest.raises(ValueError, match=exactly(problem)):
        policy(DUAL_SOCKET_HT, options=options).started(held(shared, other))


@pytest.mark.parametrize(
    ("options", "gates", "problem"),
    [
        ({"fancy": "true"}, {}, 'unknown CPU Manager Policy option: "fancy"'),
        (
            {"align-by-socket": "true"},
            *({}, 'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided'),
        ),
        (
            {"distribute-cpus-across-numa": "true"},
            {"CPUManagerPolicyBetaOptions": False},
            'CPU Manager Policy Beta-level Options not enabled, but option "distribute-cpus-across-numa" provided',
        ),
        (
            {"full-pcpus-only": "perhaps"},
            *({}, 'bad value for option "full-pcpus-only": strconv.ParseBool: parsing "perhaps": invalid syntax'),
        ),
        (
            {"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"},
            ALPHA,
            "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
        ),
    ],
)
def test_options_that_cannot_be(options: Obj, gates: Obj, problem: str) -> None:
    with pytest.raises(ValueError, match=exactly(f"new static policy error: {problem}")):
        policy(SINGLE_SOCKET_HT, options=options, gates=gates)


def test_something_has_to_be_reserved() -> None:
    for reserved in (None, parse("0")):
        with pytest.raises(ValueError, match="unable to determine reserved CPU resources for static policy"):
            static_policy(configure({}).configuration, FeatureGates(), Shape().topology(2), reserved)
    assert listed(policy(SINGLE_SOCKET_HT, 2).reserved) == "0,4"
    assert listed(policy(SINGLE_SOCKET_HT, 2, reservedSystemCPUs="3,5").reserved) == "3,5"
    with pytest.raises(ValueError, match=r"size of  did not equal 9"):
        policy(SINGLE_SOCKET_HT, 9)


def test_sockets_before_numa_nodes_if_that_is_said() -> None:
    with pytest.raises(ValueError, match="number of sockets are more than number of NUMA"):
        policy(MULTI_SOCKET_HT, options={"align-by-socket": "true"}, gates=ALPHA)
    with pytest.raises(ValueError, match="Topolgy manager single-numa-node policy is incompatible"):
        policy(
            MULTI_NUMA_HT, options={"align-by-socket": "true"}, gates=ALPHA, topologyManagerPolicy="single-numa-node"
        )
    by_socket = policy(MULTI_NUMA_HT, options={"align-by-socket": "true"}, gates=ALPHA)
    state = held("0-4,11-14,20-24,30-34,40-44,51-54,60-64,70-74", "5-10,15-19,25-29,35-39,45-50,55-59,65-69,75-79")
    wanted = pod(container("c", "18"))  # one NUMA node could have it, but none has, and the second socket has enough
    result = admitted(by_socket, state, wanted, HintPolicy("restricted"))
    assert cpus(taken(result)) <= MULTI_NUMA_HT.all_of("socket", {1})
    assert admitted(policy(MULTI_NUMA_HT), state, wanted, HintPolicy("restricted")).refusal is not None


@pytest.mark.parametrize(
    ("name", "cpu", "is_taken"),
    [
        ("none", "8", True),
        ("best-effort", "8", True),
        ("restricted", "8", True),  # no one NUMA node could ever have so many
        ("single-numa-node", "8", False),
        ("restricted", "6", False),  # one could, and does not now
        ("best-effort", "6", True),
        ("single-numa-node", "4", True),
        ("single-numa-node", "500m", True),
    ],
)
@pytest.mark.parametrize("is_for_pods", [False, True])
def test_policies_of_numa_nodes(name: str, cpu: str, is_taken: bool, is_for_pods: bool) -> None:
    state = held("0,2-6,8-11", "1,7")
    manifest = pod(container("c", cpu))
    result = admitted(policy(DUAL_SOCKET_HT), state, manifest, HintPolicy(name, is_for_pods))
    assert (result.refusal is None) is is_taken
    if not is_taken:
        text = "Resources cannot be allocated with Topology locality"
        assert result.refusal == Refusal("TopologyAffinityError", text)
        assert result.held.cpus == state


def test_containers_of_a_pod_are_together_if_hints_are_for_pods() -> None:
    apart = pod(container("a", "3"), container("b", "3"))
    by_container = admitted(policy(DUAL_SOCKET_HT), held("0-11"), apart, HintPolicy("single-numa-node"))
    assert by_container.refusal is None
    together = admitted(policy(DUAL_SOCKET_HT), held("0-11"), apart, HintPolicy("single-numa-node", is_for_pods=True))
    both = cpus(taken(together, "a")) | cpus(taken(together, "b"))
    assert DUAL_SOCKET_HT.within("numa", both).keys() == {1}
    too_many = pod(container("a", "4"), container("b", "4"))
    assert admitted(policy(DUAL_SOCKET_HT), held("0-11"), too_many, HintPolicy("single-numa-node", True)).refusal


def test_the_file_is_a_kubelets() -> None:
    """With the checksums that kubelets write."""
    state = CpuState(cpus("0,2-12,14-23"), {"235148fe-393f-47a8-a17d-bd55bc1a836b": {"cgroup1-0": cpus("1,13")}})
    text = (
        b'{"policyName":"static","defaultCpuSet":"0,2-12,14-23",'
        b'"entries":{"235148fe-393f-47a8-a17d-bd55bc1a836b":{"cgroup1-0":"1,13"}},"checksum":1552716370}'
    )
    assert encoded("static", state) == text
    assert decoded("static", text) == state
    assert encoded("none", CpuState()) == b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"{", "unexpected end of JSON input"),
        (b'{"policyName":"static","defaultCpuSet":"0-3","checksum":1}', "checkpoint is corrupted"),
        (b'{"policyName":"static","defaultCpuSet":5}', "checkpoint is corrupted"),
        (
            b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
            'configured policy "static" differs from state checkpoint policy "none"',
        ),
        (
            b'{"policyName":"static","defaultCpuSet":"1.3"}',
            'could not parse default cpu set "1.3": strconv.Atoi: parsing "1.3": invalid syntax',
        ),
        (
            b'{"policyName":"static","defaultCpuSet":"1","entries":{"pod":{"c":"asd"}}}',
            'could not parse cpuset "asd" for container "c" in pod "pod": strconv.Atoi: parsing "asd": invalid syntax',
        ),
    ],
)
def test_a_damaged_file_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=exactly(problem)):
        decoded("static", text)


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    def some(kind: str, most: int, **more: Any) -> list[Obj]:
        counts = draw(st.lists(st.sampled_from(("1", "2", "3", "500m")), min_size=most == 3, max_size=most))
        return [container(f"{kind}{index}", count, **more) for index, count in enumerate(counts)]

    return pod(*some("c", 3), init=[*some("s", 1, restartPolicy="Always"), *some("i", 2)], uid=draw(st.uuids()).hex)


@given(
    st.lists(pods(), max_size=6),
    st.sampled_from([Shape().topology(8), DUAL_SOCKET_HT, MULTI_NUMA_HT]),
    st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
    st.booleans(),
    st.sampled_from(["full-pcpus-only", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache", ""]),
)
def test_nothing_is_given_twice_and_all_of_it_comes_back(
    manifests: list[Obj], machine: Topology, name: str, is_for_pods: bool, option: str
) -> None:
    by = policy(machine, 1, {option: "true"} if option else {})
    before = state = by.started(CpuState())
    there = []
    for manifest in manifests:
        result = admitted(by, state, manifest, HintPolicy(name, is_for_pods))
        if result.refusal is None:
            there.append(manifest)
        else:
            assert result.held.cpus == state
        state = result.held.cpus
        assert by.started(decoded("static", encoded("static", state))) == state
        if result.refusal is None:  # who is asked again, after a restart, finds it so
            assert admitted(by, state, manifest, HintPolicy(name, is_for_pods)) == replace(result, held=Held(state))
        assert by.reserved <= state.shared
    lasting = [state.exclusive.get(each["metadata"]["uid"], {}) for each in there]
    apart = [of[c["name"]] for of, each in zip(lasting, there, strict=True) for c in running(each) if c["name"] in of]
    assert sum(map(len, apart)) == len(frozenset().union(*apart))
    for manifest in there:
        state = state.without_pod(manifest["metadata"]["uid"])
    assert state == before


def running(manifest: Obj) -> list[Obj]:
    """What runs at the same time, once the pod is initialized."""
    every = containers_of(manifest["spec"])
    return [each for each in every if each in manifest["spec"]["containers"] or "restartPolicy" in each]
