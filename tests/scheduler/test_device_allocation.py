"""Which devices of a node claims get: a search over pools, against one that tries everything."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.devices import DeviceId
from fairlead.api.quantity import Quantity, parse
from fairlead.scheduler.devices.allocator import AllocationError, Allocator, NodeError, Taken
from fairlead.scheduler.devices.effort import Effort, TooMuchEffort
from fairlead.scheduler.devices.results import allocation_of
from fairlead.scheduler.devices.selectors import Selectors
from fairlead.scheduler.facts.device_offers import DeviceOffers
from tests.scheduler.devices_world import (
    DRIVER,
    Obj,
    asked,
    claim,
    claim_obj,
    class_obj,
    device,
    first_of,
    of_class,
    published,
    slice_obj,
)
from tests.scheduler.scheduler_world import node

NOBODY = Taken(frozenset(), {})


def allocated(
    slices: list[Obj],
    *claims: Obj,
    taken: Taken = NOBODY,
    classes: tuple[Obj, ...] = (class_obj(),),
    labels: dict[str, str] | None = None,
    effort: Effort | None = None,
) -> list[Obj] | None:
    """What is written of each claim, on node n1."""
    offers = DeviceOffers()
    for slice_ in map(published, slices):
        offers.set_slice(None, slice_)
    known = {found.metadata.name: found for found in map(of_class, classes)}
    n1 = node("n1", labels=labels)
    effort = effort or Effort()
    allocator = Allocator(n1, offers.pools_of(n1, effort), taken, known, Selectors(), effort)
    wanted = [claim(each) for each in claims]
    found = allocator.allocate(wanted)
    return None if found is None else [allocation_of(*each, "n1") for each in zip(wanted, found, strict=True)]


def names(found: list[Obj] | None) -> list[list[str]] | None:
    """The devices of each claim."""
    if found is None:
        return None
    return [[result["device"] for result in allocation["devices"]["results"]] for allocation in found]


def test_a_claim_gets_devices_of_its_node_and_stays_there() -> None:
    here, there = slice_obj("n1", "gpu-0", "gpu-1", node="n1"), slice_obj("n2", "gpu-0", node="n2")
    found = allocated([here, there], claim_obj("a", asked(count=2)))
    assert found == [
        {
            "devices": {
                "results": [
                    {"request": "r0", "driver": DRIVER, "pool": "n1", "device": "gpu-0"},
                    {"request": "r0", "driver": DRIVER, "pool": "n1", "device": "gpu-1"},
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            },
        }
    ]
    assert allocated([here, there], claim_obj("a", asked(count=3))) is None


def test_no_device_is_given_twice() -> None:
    slices = [slice_obj("n1", "gpu-0", "gpu-1", "gpu-2", node="n1")]
    taken = Taken({(DRIVER, "n1", "gpu-0")}, {})
    assert names(allocated(slices, claim_obj("a"), claim_obj("b"), taken=taken)) == [["gpu-1"], ["gpu-2"]]
    assert allocated(slices, claim_obj("a"), claim_obj("b", asked(count=2)), taken=taken) is None


def test_selectors_of_class_and_request() -> None:
    model = f'device.attributes["{DRIVER}"].model'
    slices = [slice_obj("n1", device("small", model="a"), device("large", model="b", memory="40Gi"), node="n1")]
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("10Gi")) > 0'
    has_memory = f'"memory" in device.capacity["{DRIVER}"] && {large}'
    assert names(allocated(slices, claim_obj("a", asked("gpu", 1, f"{model} == 'b'")))) == [["large"]]
    assert names(allocated(slices, claim_obj("a", asked("gpu", 1, has_memory)))) == [["large"]]
    only_a = (class_obj("gpu", f"{model} == 'a'"),)
    assert allocated(slices, claim_obj("a", asked("gpu", 1, has_memory)), classes=only_a) is None
    assert names(allocated(slices, claim_obj("a", asked("gpu", 1, "device.driver == 'other'")))) is None
    nothing = 'has(device.attributes["nobody.example.com"].x)'
    assert allocated(slices, claim_obj("a", asked("gpu", 1, nothing))) is None
    with pytest.raises(AllocationError, match="claim default/a: selector #0: CEL runtime error: no such"):
        allocated(slices, claim_obj("a", asked("gpu", 1, f'device.attributes["{DRIVER}"].colour == "red"')))


def test_versions_of_devices_are_compared_as_versions() -> None:
    old = {"name": "old", "attributes": {"driver": {"version": "1.9.0"}}}
    new = {"name": "new", "attributes": {"driver": {"version": "1.10.0"}}}
    newer = f'device.attributes["{DRIVER}"].driver.compareTo(semver("1.9.5")) > 0'
    found = allocated([slice_obj("n1", old, new, node="n1")], claim_obj("a", asked("gpu", 1, newer)))
    assert names(found) == [["new"]]


def test_all_devices_of_a_node_or_none() -> None:
    slices = [slice_obj("n1", "gpu-0", "gpu-1", node="n1")]
    assert names(allocated(slices, claim_obj("a", asked(count=0)))) == [["gpu-0", "gpu-1"]]
    taken = Taken({(DRIVER, "n1", "gpu-1")}, {})
    assert allocated(slices, claim_obj("a", asked(count=0)), taken=taken) is None
    assert allocated([slice_obj("n1", node="n1")], claim_obj("a", asked(count=0))) is None
    apart = claim_obj("a", asked(count=0), constraints=({"matchAttribute": f"{DRIVER}/numa"},))
    with pytest.raises(AllocationError, match=r"cannot add device .*/n1/gpu-0 because a claim constraint would not be"):
        allocated(slices, apart)
    half = [slice_obj("n1", "gpu-0", node="n1", of=2)]
    with pytest.raises(AllocationError, match=f"all devices, but resource pool {DRIVER}/n1 is currently being updated"):
        allocated(half, claim_obj("a", asked(count=0)))


def test_who_administers_devices_gets_those_of_others() -> None:
    slices = [slice_obj("n1", "gpu-0", "gpu-1", node="n1")]
    taken = Taken({(DRIVER, "n1", "gpu-0"), (DRIVER, "n1", "gpu-1")}, {})
    found = allocated(slices, claim_obj("a", asked(count=0, adminAccess=True)), taken=taken)
    assert names(found) == [["gpu-0", "gpu-1"]]
    assert found is not None
    assert [result["adminAccess"] for result in found[0]["devices"]["results"]] == [True, True]


def test_the_first_alternative_that_can_be_had() -> None:
    slices = [slice_obj("n1", device("a", model="a"), device("b0", model="b"), device("b1", model="b"), node="n1")]
    of_model = "device.attributes['{}'].model == '{}'".format
    ways = first_of(asked("gpu", 2, of_model(DRIVER, "a")), asked("gpu", 2, of_model(DRIVER, "b")), asked())
    found = allocated(slices, claim_obj("c", ways))
    assert found is not None
    assert [(result["request"], result["device"]) for result in found[0]["devices"]["results"]] == [
        ("r0/a1", "b0"),
        ("r0/a1", "b1"),
    ]
    assert names(allocated(slices, claim_obj("c", ways), claim_obj("d", asked(count=2)))) == [["a"], ["b0", "b1"]]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"matchAttribute": f"{DRIVER}/numa"}, ["b", "c"]),
        ({"distinctAttribute": f"{DRIVER}/numa"}, ["a", "b"]),
        ({"matchAttribute": f"{DRIVER}/numa", "requests": ["other"]}, ["a", "b"]),
        ({"matchAttribute": f"{DRIVER}/nothing"}, None),
    ],
)
def test_devices_of_a_claim_have_something_in_common_or_not(constraint: Obj, expected: list[str] | None) -> None:
    slices = [slice_obj("n1", device("a", numa=0), device("b", numa=1), device("c", numa=1), node="n1")]
    found = names(allocated(slices, claim_obj("x", asked(), asked(), constraints=(constraint,))))
    assert found == (None if expected is None else [expected])


def test_tainted_devices_go_to_who_tolerates_it() -> None:
    taint = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
    slices = [slice_obj("n1", {"name": "sick", "taints": [taint]}, node="n1")]
    assert allocated(slices, claim_obj("a")) is None
    tolerated = asked(tolerations=[{"key": "broken", "operator": "Exists"}])
    found = allocated(slices, claim_obj("a", tolerated))
    assert names(found) == [["sick"]]
    assert found is not None
    assert found[0]["devices"]["results"][0]["tolerations"] == [{"key": "broken", "operator": "Exists"}]
    harmless = {"name": "sick", "taints": [taint | {"effect": "None"}]}
    assert names(allocated([slice_obj("n1", harmless, node="n1")], claim_obj("a"))) == [["sick"]]


def test_parts_of_a_device_share_its_counters() -> None:
    def part(name: str, memory: str) -> Obj:
        consumed = {"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}
        return {"name": name, "consumesCounters": [consumed]}

    sets = slice_obj("n1", node="n1", of=2, called="counters")
    sets["spec"] |= {"sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]}
    parts = slice_obj("n1", part("whole", "40Gi"), part("half-0", "20Gi"), part("half-1", "20Gi"), node="n1", of=2)
    slices = [sets, parts]
    assert names(allocated(slices, claim_obj("a"))) == [["whole"]]
    assert names(allocated(slices, claim_obj("a"), claim_obj("b"))) == [["half-0"], ["half-1"]]
    taken = Taken({(DRIVER, "n1", "half-1")}, {})
    assert names(allocated(slices, claim_obj("a"), taken=taken)) == [["half-0"]]
    with pytest.raises(NodeError, match="invalid resource pools were encountered"):
        allocated([slice_obj("n1", part("whole", "40Gi"), node="n1")], claim_obj("a"))
    shared = slice_obj(
        "n1", part("net", "20Gi") | {"allowMultipleAllocations": True}, part("whole", "40Gi"), node="n1", of=2
    )
    in_shares = Taken(frozenset(), {(DRIVER, "n1", "net"): {}})
    assert names(allocated([sets, shared], claim_obj("a"), claim_obj("b"), taken=in_shares)) == [["net"], ["net"]]
    whole = asked("gpu", 1, "!device.allowMultipleAllocations")
    assert allocated([sets, shared], claim_obj("a", whole), taken=in_shares) is None


POLICIES: list[tuple[Obj | None, str | None, str | None]] = [
    (None, None, "40Gi"),
    (None, "10Gi", "10Gi"),
    ({"default": "1Gi"}, None, "1Gi"),
    ({"default": "2Gi", "validValues": ["2Gi", "8Gi"]}, "3Gi", "8Gi"),
    ({"default": "2Gi", "validValues": ["2Gi", "8Gi"]}, "9Gi", None),
    ({"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}}, "1Gi", "2Gi"),
    ({"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi", "step": "2Gi"}}, "5Gi", "6Gi"),
    ({"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi"}}, "5Gi", "5Gi"),
    ({"default": "2Gi", "validRange": {"min": "2Gi", "max": "8Gi"}}, "9Gi", None),
    (None, "41Gi", None),
    (None, "9223372036854775807", None),
]


@pytest.mark.parametrize(("policy", "wanted", "consumed"), POLICIES)
def test_a_share_of_a_device(policy: Obj | None, wanted: str | None, consumed: str | None) -> None:
    capacity = {"value": "40Gi"} | ({"requestPolicy": policy} if policy else {})
    shared = {"name": "net", "allowMultipleAllocations": True, "capacity": {"memory": capacity}}
    more = {"capacity": {"requests": {"memory": wanted}}} if wanted else {}
    found = allocated([slice_obj("n1", shared, node="n1")], claim_obj("a", asked("gpu", 1, **more)))
    if consumed is None:
        assert found is None
        return
    assert found is not None
    result = found[0]["devices"]["results"][0]
    assert parse(result["consumedCapacity"]["memory"]) == parse(consumed)
    assert result["shareID"]


def test_shares_add_up() -> None:
    shared = {"name": "net", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    slices = [slice_obj("n1", shared, node="n1")]
    four = asked(capacity={"requests": {"memory": "4Gi"}})
    assert names(allocated(slices, claim_obj("a", four), claim_obj("b", four))) == [["net"], ["net"]]
    assert allocated(slices, *(claim_obj(name, four) for name in "abc")) is None
    taken = Taken(frozenset(), {(DRIVER, "n1", "net"): {"memory": Quantity.of_units(7 << 30)}})
    assert allocated(slices, claim_obj("a", four), taken=taken) is None
    assert allocated(slices, claim_obj("a", asked(capacity={"requests": {"other": "1"}}))) is None


def test_devices_that_several_nodes_reach() -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}
    slices = [slice_obj("net", "port-0", nodeSelector={"nodeSelectorTerms": [term]})]
    assert allocated(slices, claim_obj("a")) is None
    found = allocated(slices, claim_obj("a"), labels={"rack": "1"})
    assert found is not None
    assert found[0]["nodeSelector"] == {"nodeSelectorTerms": [term]}
    found = allocated([slice_obj("net", "port-0", allNodes=True)], claim_obj("a"))
    assert found is not None
    assert "nodeSelector" not in found[0]
    each = slice_obj("net", {"name": "p0", "nodeName": "n2"}, {"name": "p1", "nodeName": "n1"})
    each["spec"]["perDeviceNodeSelection"] = True
    assert names(allocated([each], claim_obj("a"))) == [["p1"]]


def test_of_a_pool_only_the_newest_generation_counts_once_it_is_whole() -> None:
    old = slice_obj("n1", "gone", node="n1", called="a")
    new = slice_obj("n1", "gpu-0", node="n1", generation=2, called="b", of=2)
    rest = slice_obj("n1", "gpu-1", node="n1", generation=2, called="c", of=2)
    assert names(allocated([old], claim_obj("a"))) == [["gone"]]
    assert allocated([old, new], claim_obj("a")) is None
    assert names(allocated([old, new, rest], claim_obj("a", asked(count=2)))) == [["gpu-0", "gpu-1"]]


def test_configuration_of_class_and_claim() -> None:
    def opaque(**parameters: str) -> Obj:
        return {"opaque": {"driver": DRIVER, "parameters": parameters}}

    classes = (class_obj("gpu", config=[opaque(of="class")]), class_obj("nic"))
    mine = [opaque(of="all"), opaque(of="r1") | {"requests": ["r1"]}]
    slices = [slice_obj("n1", "a", "b", node="n1")]
    found = allocated(slices, claim_obj("x", asked(), asked("nic"), config=mine), classes=classes)
    assert found is not None
    assert found[0]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["r0"]} | opaque(of="class"),
        {"source": "FromClaim"} | opaque(of="all"),
        {"source": "FromClaim", "requests": ["r1"]} | opaque(of="r1"),
    ]
    found = allocated(slices, claim_obj("x"), classes=classes)
    assert found is not None
    assert found[0]["devices"]["config"] == [{"source": "FromClass", "requests": ["r0"]} | opaque(of="class")]


def test_what_is_asked_for_and_searched_has_a_bound() -> None:
    slices = [slice_obj(f"n1-{number}", *(f"gpu-{index}" for index in range(60)), node="n1") for number in range(2)]
    with pytest.raises(AllocationError, match="number of requested devices 33 exceeds the claim limit of 32"):
        allocated(slices, claim_obj("a", asked(count=33)))
    pairs = [asked() for _ in range(30)]
    odd = {"distinctAttribute": f"{DRIVER}/nothing", "requests": ["r29"]}
    with pytest.raises(TooMuchEffort):
        allocated(slices, claim_obj("a", *pairs, constraints=(odd,)), effort=Effort(20_000))


# --- against a search that tries everything --------------------------------------------------------------------------


@given(
    values=st.lists(st.integers(0, 2), min_size=1, max_size=5),
    counts=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    wanted=st.lists(st.sampled_from(["", "0", "1"]), min_size=3, max_size=3),
    taken=st.sets(st.integers(0, 4), max_size=2),
    kind=st.sampled_from(["", "matchAttribute", "distinctAttribute"]),
)
def test_devices_are_found_if_and_only_if_there_are_any(
    values: list[int], counts: list[int], wanted: list[str], taken: set[int], kind: str
) -> None:
    devices = [device(f"d{number}", numa=value) for number, value in enumerate(values)]
    expressions = [f'device.attributes["{DRIVER}"].numa == {value}' if value else "true" for value in wanted]
    requests = [asked("gpu", count, text) for count, text in zip(counts, expressions, strict=False)]
    constraints: tuple[Obj, ...] = ({kind: f"{DRIVER}/numa"},) if kind else ()
    used: set[DeviceId] = {(DRIVER, "n1", f"d{number}") for number in taken}
    found = names(
        allocated(
            [slice_obj("n1", *devices, node="n1")],
            claim_obj("a", *requests, constraints=constraints),
            taken=Taken(used, {}),
        )
    )
    slots = [value for count, value in zip(counts, wanted, strict=False) for _ in range(count)]
    free = [number for number in range(len(values)) if number not in taken]

    def is_right(chosen: tuple[int, ...]) -> bool:
        numas = [values[number] for number in chosen]
        if kind == "matchAttribute" and len(set(numas)) > 1:
            return False
        if kind == "distinctAttribute" and len(set(numas)) < len(numas):
            return False
        return all(not value or int(value) == numa for value, numa in zip(slots, numas, strict=True))

    solutions = [chosen for chosen in permutations(free, len(slots)) if is_right(chosen)]
    assert (found is None) == (not solutions)
    if found is not None:
        assert tuple(int(name[1:]) for name in found[0]) in solutions


def test_a_node_sees_its_slices_of_a_pool() -> None:
    """What is wrong with the slices of others, or newer with them, is no matter for it."""
    of_n1 = slice_obj("pool", "gpu-0", node="n1", called="one")
    newer = slice_obj("pool", "gpu-0", node="n2", called="two", generation=2, of=2)
    assert names(allocated([of_n1, newer], claim_obj("a", asked(count=0)))) == [["gpu-0"]]
    half = slice_obj("pool", "gpu-0", node="n1", called="one", of=2)
    assert allocated([half, newer], claim_obj("a", asked(count=0))) is None  # replaced
    elsewhere = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "no", "operator": "Exists"}]}]}
    broken = slice_obj("other", "x", "x", of=2, nodeSelector=elsewhere)
    assert names(allocated([of_n1, broken], claim_obj("a", asked(count=0)))) == [["gpu-0"]]


def test_more_devices_than_a_claim_may_have_are_given_up_at_once() -> None:
    """Whoever chose before in the claim need not go through all its choices: there are some hundred million."""
    slices = [slice_obj("n1", *(f"gpu-{number}" for number in range(40)), node="n1")]
    both = claim_obj("a", first_of(asked(count=20), asked(count=16)), first_of(asked(count=17), asked(count=13)))
    found = allocated(slices, both)
    assert found is not None
    results = found[0]["devices"]["results"]
    assert [result["request"] for result in results] == ["r0/a1"] * 16 + ["r1/a1"] * 13


def test_an_attribute_of_a_type_of_later_versions_is_told() -> None:
    slices = [slice_obj("n1", {"name": "gpu-0", "attributes": {"numa": {"ints": [0, 1]}}}, node="n1")]
    alike = claim_obj("a", asked(), constraints=({"matchAttribute": f"{DRIVER}/numa"},))
    assert allocated(slices, alike) is None
    with pytest.raises(AllocationError, match="CEL runtime error: attribute numa: unsupported attribute value"):
        allocated(slices, claim_obj("a", asked("gpu", 1, "true")))


def test_both_ways_of_writing_an_attribute_are_one() -> None:
    for own, theirs in product(("numa", f"{DRIVER}/numa"), repeat=2):
        left = {"name": "a", "attributes": {own: {"int": 1}}}
        right = {"name": "b", "attributes": {theirs: {"int": 1}}}
        both = claim_obj("x", asked(count=2), constraints=({"matchAttribute": f"{DRIVER}/numa"},))
        assert names(allocated([slice_obj("n1", left, right, node="n1")], both)) == [["a", "b"]]
