"""What there is of devices: work that is done once for all nodes, work that is counted, and what is left of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fairlead.api.scheduling import Node
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.devices import node_answers, pools
from fairlead.scheduler.devices.allocator import Allocator, ClaimDevices, Taken
from fairlead.scheduler.devices.effort import Effort, TooMuchEffort
from fairlead.scheduler.devices.results import allocation_of
from fairlead.scheduler.devices.selectors import Selectors
from fairlead.scheduler.facts.device_claims import DeviceClaims
from fairlead.scheduler.facts.device_offers import DeviceOffers
from tests.scheduler.devices_world import (
    DRIVER,
    Obj,
    asked,
    claim,
    claim_obj,
    class_obj,
    of_class,
    published,
    slice_obj,
)
from tests.scheduler.scheduler_world import Cluster, node, pod
from tests.work import growth

NODES = [node(f"n{number}", labels={"rack": str(number)}) for number in range(20)]
NOBODY = Taken(frozenset(), {})


def offered(*slices: Obj) -> DeviceOffers:
    offers = DeviceOffers()
    offers.set_class(None, of_class(class_obj()))
    for slice_ in slices:
        offers.set_slice(None, published(slice_))
    return offers


def searched(
    offers: DeviceOffers, taken: Taken = NOBODY, most: int = 1_000_000, wanted: str = "true"
) -> ClaimDevices | None:
    """What the last of the nodes has, after all others were asked in one decision."""
    effort, found = Effort(most), None
    for each in NODES:
        allocator = Allocator(each, offers.pools_of(each, effort), taken, offers.classes, Selectors(), effort)
        found = allocator.allocate([claim(claim_obj("a", asked("gpu", 1, wanted)))])
    return None if found is None else found[0]


def by_rack(number: int) -> Obj:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": [str(number)]}]}
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


@pytest.mark.parametrize("is_everywhere", [True, False])
def test_where_a_slice_can_be_reached_is_found_out_once_for_a_node(
    monkeypatch: pytest.MonkeyPatch, is_everywhere: bool
) -> None:
    looked, reached = Counter[str](), pools.is_reached
    monkeypatch.setattr(pools, "is_reached", lambda *args: (looked.update(["once"]), reached(*args))[1])
    places = [{"allNodes": True} if is_everywhere else by_rack(number) for number in range(20)]
    offers = offered(
        *(slice_obj("far", f"d{number}", called=f"s{number}", of=20, **place) for number, place in enumerate(places))
    )
    for _ in range(3):
        assert searched(offers)
    assert looked["once"] == (0 if is_everywhere else 20 * 20)


def test_devices_that_are_in_use_count_as_work() -> None:
    names = [f"d{number}" for number in range(1_000)]
    taken = Taken({(DRIVER, "far", name) for name in names}, {})
    with pytest.raises(TooMuchEffort):
        searched(offered(slice_obj("far", *names, allNodes=True)), taken, most=10_000)


def test_answers_that_are_known_count_as_work() -> None:
    offers = offered(slice_obj("far", *(f"d{number}" for number in range(1_000)), allNodes=True))
    other = "device.driver == 'other'"
    assert searched(offers, wanted=other) is None
    with pytest.raises(TooMuchEffort):
        searched(offers, most=10_000, wanted=other)


def test_nothing_is_left_of_what_is_gone() -> None:
    slices = [
        slice_obj("far", "d0", "d1", allNodes=True),
        slice_obj("racks", "d0", **by_rack(1)),
        *(slice_obj(f"n{number}", "d0", node=f"n{number}") for number in range(5)),
    ]
    offers = offered(*slices)
    claims = DeviceClaims(offers)
    for number in range(10):
        made = claim(claim_obj(f"c{number}"))
        claims.set(None, made)
        claims.wanted(made)
        if (devices := searched(offers, claims.taken)) is not None:
            claims.reserve(f"pod-{number}", [(made, allocation_of(made, devices, "n1"))])
    for number in range(10):
        claims.set(claim(claim_obj(f"c{number}")), None)
        claims.pod_gone(f"pod-{number}")
    for slice_ in slices:
        offers.set_slice(published(slice_), None)
    offers.set_class(of_class(class_obj()), None)
    for facts in (offers, claims):
        kept = {name: value for name, value in vars(facts).items() if hasattr(value, "__len__") and len(value)}
        assert not kept


def test_nodes_that_see_the_same_devices_are_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_about = Counter[str]()

    class Counting(Allocator):
        def __init__(self, node: Node, *args: Any) -> None:
            asked_about[node.metadata.name] += 1
            super().__init__(node, *args)

    monkeypatch.setattr(node_answers, "Allocator", Counting)
    cluster = Cluster(*NODES)
    offers = cluster.snapshot.device_offers
    offers.set_class(None, of_class(class_obj()))
    offers.set_slice(None, published(slice_obj("far", "d0", allNodes=True)))
    offers.set_slice(None, published(slice_obj("n3", "d0", node="n3")))
    cluster.snapshot.device_claims.set(None, claim(claim_obj("a", asked(count=2))))
    request = cluster.request(pod("w", resourceClaims=[{"name": "a", "resourceClaimName": "a"}]))
    chosen = cluster.decider.decide(request)
    assert isinstance(chosen, Chosen)
    assert chosen.node == "n3"
    assert asked_about.total() == 2
    assert asked_about["n3"] == 1


def test_classes_that_come_cost_what_they_are_and_not_what_there_is() -> None:
    def came(size: int) -> None:
        offers = DeviceOffers()
        for number in range(size):
            offers.set_class(None, of_class(class_obj(f"gpu-{number}", extendedResourceName=f"example.com/{number}")))
        assert all(offers.class_of(f"example.com/{number}") == f"gpu-{number}" for number in range(size))

    assert growth(came, 30) <= 2.2


def test_what_a_node_sees_moves_with_its_slices_and_its_pools_and_with_nothing_else() -> None:
    mine, newer, theirs = (
        published(slice_obj("p", called="a", node="n0", of=2)),
        published(slice_obj("q", called="b", node="n0")),
        published(slice_obj("p", called="c", node="n1", of=2)),
    )
    offers = offered()
    stamps = [offers.stamp("n0")]
    for old, new in ((None, mine), (None, newer), (None, theirs), (mine, None), (newer, None)):
        offers.set_slice(old, new)
        stamps.append(offers.stamp("n0"))
    assert stamps[-1] == stamps[0]  # it has none again
    assert len(set(stamps)) == len(stamps) - 1
    before = offers.stamp("n0")
    offers.touch((DRIVER, "p"))
    assert offers.stamp("n0") == before
