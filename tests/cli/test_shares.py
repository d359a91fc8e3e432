"""`fairlead shares`: what its rows say, of Consumers and Allocations as they may be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.arbitrator.objects import Allocation, Consumer, ConsumerGroup
from fairlead.cli.failures import WrongUsage
from fairlead.cli.shares import ShareRow, rows

Obj = dict[str, Any]


def consumer(namespace: str, **spec: Any) -> Consumer:
    return msgspec.convert({"metadata": {"name": "defaults", "namespace": namespace}, "spec": spec}, Consumer)


def allocation(namespace: str, asked: str, granted: str, used: str, **status: Any) -> Allocation:
    amounts = {"request": asked, "deserved": asked, "granted": granted, "used": used}
    full_status: Obj = {key: {"requests.cpu": amount, "requests.memory": "1Gi"} for key, amount in amounts.items()}
    return msgspec.convert({"metadata": {"namespace": namespace}, "status": full_status | status}, Allocation)


def row(asked: str, granted: str, used: str, **status: Any) -> ShareRow:
    (found,) = rows([consumer("a")], [], [allocation("a", asked, granted, used, bottleneck="demand", **status)], "cpu")
    return found


def test_a_namespace_whose_pods_wait_does_not_have_what_it_asks_for() -> None:
    assert row("4", "4", "4").why == "has what it asks for"
    assert row("4", "1", "1").why == "waits for cpu that is not free yet"
    assert row("4", "4", "1").why == "is granted what it asks for; its pods wait for a node (fairlead why POD)"
    futile = {"type": "ReclaimFutile", "status": "True"}
    known = {"failures": 1, "until": "2026-01-01T00:00:00Z", "beneficiary": "a/p"}
    assert "before 2026-01-01T00:00:00Z" in row("4", "1", "1", backOff=known, conditions=[futile]).why


def test_shares_are_of_the_cluster_in_every_row_whatever_the_weight() -> None:
    allocations = [
        allocation("app", "4", "4", "4", clusterShare="0.4000"),
        allocation("kube-system", "1", "1", "1", clusterShare="0.1000"),
        allocation("spark", "6", "6", "6", clusterShare="0.6000"),
        allocation("none", "0", "0", "0"),
    ]
    consumers = [
        consumer("app", weight=4),
        consumer("kube-system", unlimited=True),
        consumer("spark", weight=2, parent="zone"),
        consumer("none", weight=0),
    ]
    group = msgspec.convert({"metadata": {"name": "zone"}, "spec": {"weight": 6}}, ConsumerGroup)
    found = [(row.consumer, row.cells()[6]) for row in rows(consumers, [group], allocations, "cpu")]
    assert found == [("app", "40.0%"), ("kube-system", "10.0%"), ("none", "-"), ("zone", ""), ("spark", "60.0%")]


@pytest.mark.parametrize("resource", ["memory", "requests.memory"])
def test_resources_by_either_name(resource: str) -> None:
    (found,) = rows([consumer("a")], [], [allocation("a", "4", "4", "4")], resource)
    assert (found.reserved, found.deserved, found.used) == (None, "1Gi", "1Gi")


def test_limits_are_shown_where_limits_are_divided() -> None:
    status: Obj = {"deserved": {"limits.cpu": "3"}, "bottleneck": "cpu"}
    shown_allocation = msgspec.convert({"metadata": {"namespace": "a"}, "status": status}, Allocation)
    (found,) = rows([consumer("a")], [], [shown_allocation], "cpu")
    assert (found.deserved, found.used) == ("3", "0")


def test_an_unknown_resource_is_refused_with_those_there_are() -> None:
    with pytest.raises(WrongUsage, match="nobody divides 'gpu' here: --resource is one of cpu, memory"):
        rows([consumer("a")], [], [allocation("a", "4", "4", "4")], "gpu")


def test_a_namespace_that_was_not_looked_at_yet() -> None:
    (found,) = rows([consumer("a")], [], [], "cpu")
    assert found.cells() == ("a", "1", "-", "-", "-", "-", "-", "not looked at yet")
