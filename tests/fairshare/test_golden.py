"""The worked cases of `golden/fairshare.yaml`: shares, trees, whole numbers, victims, hand-over, orders."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
import yaml

from fairlead.fairshare.claims import Claim, Model, Surplus
from fairlead.fairshare.grants import Holding, granted
from fairlead.fairshare.orders import GuaranteeUse, borrowed_share, by_need
from fairlead.fairshare.rounding import Tasks, picks, rounded
from fairlead.fairshare.shares import shares
from fairlead.fairshare.tree import ShareGroup, tree_shares
from fairlead.fairshare.victims import Budget, VictimCandidate, choose_victims
from tests.conftest import GOLDEN

Case = dict[str, Any]
CASES: list[Case] = yaml.safe_load((GOLDEN / "fairshare.yaml").read_text())["cases"]
ONLY = "amount"


def of_kind(*kinds: str) -> pytest.MarkDecorator:
    chosen = [case for case in CASES if case["kind"] in kinds]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case["id"])


def exact(value: Any) -> Fraction:
    return Fraction(str(value))


def amounts(value: Any) -> dict[str, Fraction]:
    """Amounts by resource; a bare number is of the only resource there is."""
    if not isinstance(value, Mapping):
        return {ONLY: exact(value)}
    return {name: exact(amount) for name, amount in value.items()}


def claim_of(row: Case, model: str = "leontief") -> Claim:
    """A namespace of a case: so many tasks of one size, or a demand as a whole."""
    demand = amounts(row.get("demand", row.get("task")))
    if "task" in row:
        demand = {name: amount * row["tasks"] for name, amount in demand.items()}
    return Claim(
        row["name"],
        demand,
        exact(row.get("weight", 1)),
        amounts(row.get("reserved", {})),
        amounts(row.get("hard", {})),
        is_unlimited=row.get("unlimited", False),
        lends=row.get("lend", True),
        model=Model(row.get("model", model)),
    )


def group_of(node: Case) -> ShareGroup:
    members = [group_of(child) if "children" in child else claim_of(child) for child in node["children"]]
    weight = exact(node.get("weight", 1))
    return ShareGroup(
        node["name"],
        members,
        weight,
        amounts(node.get("reserved", {})),
        amounts(node.get("hard", {})),
        node.get("lend", True),
    )


@of_kind("share")
def test_shares(case: Case) -> None:
    surplus = Surplus(case.get("reserved_mode", "floor"))
    claims = [claim_of(row, case.get("model", "leontief")) for row in case["namespaces"]]
    found = shares(claims, amounts(case["capacity"]), surplus)
    for name, deserved in case["expect"]["deserved"].items():
        assert {key: found[name].deserved[key] for key in deserved} == amounts(deserved), name
    for name, share in case["expect"].get("dominant_share", {}).items():
        assert found[name].dominant_share == exact(share)
    if "reserved_satisfiable" in case["expect"]:
        assert all(share.is_reserved_met for share in found.values()) is case["expect"]["reserved_satisfiable"]


@of_kind("tree", "hdrf")
def test_trees(case: Case) -> None:
    found = tree_shares(group_of(case["tree"]), amounts(case["capacity"]))
    tolerance = exact(case.get("tolerance", 0))
    expected = case["expect"].get("shares") or case["expect"]["usage"]
    for name, deserved in expected.items():
        for resource, amount in amounts(deserved).items():
            assert abs(found[name].deserved[resource] - amount) <= tolerance, name


@of_kind("integer")
def test_whole_numbers(case: Case) -> None:
    shares_ = {name: exact(amount) for name, amount in case["shares"].items()}
    assert rounded(shares_, case["total"]) == case["expect"]["integer"]


@of_kind("share")
def test_whole_numbers_of_shares(case: Case) -> None:
    if "integer" not in case["expect"]:
        return
    claims = [claim_of(row, case.get("model", "leontief")) for row in case["namespaces"]]
    found = shares(claims, amounts(case["capacity"]), Surplus(case.get("reserved_mode", "floor")))
    (resource,) = case["capacity"]
    deserved = {name: share.deserved[resource] for name, share in found.items()}
    assert rounded(deserved, int(sum(deserved.values()))) == case["expect"]["integer"]


@of_kind("discrete")
def test_whole_pods(case: Case) -> None:
    order = case.get("tie_order", [row["name"] for row in case["namespaces"]])
    rows = sorted(case["namespaces"], key=lambda row: order.index(row["name"]))
    consumers = [Tasks(row["name"], amounts(row["task"]), row["tasks"], exact(row.get("weight", 1))) for row in rows]
    given = picks(consumers, amounts(case["capacity"]))
    if "picks" in case["expect"]:
        assert given == case["expect"]["picks"]
    assert {name: given.count(name) for name in order} == case["expect"]["tasks"]


@of_kind("victims")
def test_victims(case: Case) -> None:
    row = case["namespace"]
    pods = [
        VictimCandidate(
            pod["name"],
            amounts(pod["req"]),
            pod.get("priority", 0),
            pod.get("age_s", 0),
            pod.get("gang", ""),
            pod.get("terminating", False),
            pod.get("protected", False),
        )
        for pod in row["pods"]
    ]
    chosen = choose_victims(
        pods,
        amounts(row["deserved"]),
        amounts(case["capacity"]),
        reserved=amounts(row.get("reserved", {})),
        budgets=[Budget(frozenset(budget["pods"]), budget["allowed"]) for budget in row.get("pdbs", ())],
        min_runtime_seconds=row.get("min_runtime_s", 0),
    )
    assert list(chosen.victims) in case["expect"]["victims"]
    if "residual" in case["expect"]:
        assert chosen.residual == exact(case["expect"]["residual"])


@of_kind("handoff")
def test_hand_over(case: Case) -> None:
    rows = {name: Holding(row["deserved"], row["used"], row["weight"]) for name, row in case["rows"].items()}
    assert granted(rows, case["capacity"]) == case["expect"]["granted"]


@of_kind("order")
def test_orders(case: Case) -> None:
    for row in case["rows"]:
        assert by_need({name: GuaranteeUse(*row_values) for name, row_values in row["q"].items()}) == row["order"]


@of_kind("borrow_share")
def test_borrowed_shares(case: Case) -> None:
    for row in case["rows"]:
        share = borrowed_share(amounts(row["used"]), amounts(row["nominal"]), amounts(row["lendable"]), row["weight"])
        assert ceil(1000 * share) == row["value"]


def test_no_kind_of_case_is_left_out() -> None:
    known = {"share", "tree", "hdrf", "integer", "discrete", "victims", "handoff", "order", "borrow_share"}
    assert {case["kind"] for case in CASES} <= known
