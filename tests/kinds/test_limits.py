"""LimitRange, ResourceQuota and PriorityClass: the objects that bound what others may ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from tests.kinds.kind_world import born, made, status_refusals, strategy_of, updated
from tests.work import Compared, growth

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.integers(1, 64).map(lambda number: f"{number}Mi"), max_size=2
)


def limits(**item: Any) -> tuple[Obj, list[str]]:
    obj, refusals = born("LimitRange", spec={"limits": [{"type": "Container"} | item]})
    return obj["spec"]["limits"][0], refusals


def test_container_limits_cascade_from_max_to_default_to_request() -> None:
    """S0-92, S0-93."""
    item, refusals = limits(max={"cpu": "2", "memory": "2Gi"}, min={"cpu": "100m"}, default={"memory": "1Gi"})
    assert refusals == []
    assert item["default"] == {"cpu": "2", "memory": "1Gi"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_every_resource_with_a_bound_gets_a_default_request(high: Obj, low: Obj, default: Obj) -> None:
    item, _ = limits(max=high, min=low, default=default)
    assert set(item.get("defaultRequest", {})) == {*high, *low, *default}
    assert set(item.get("default", {})) == {*high, *default}


@given(AMOUNTS, AMOUNTS)
def test_bounds_are_refused_exactly_when_they_cross(low: Obj, high: Obj) -> None:
    _, refusals = born("LimitRange", spec={"limits": [{"type": "Pod", "min": low, "max": high}]})
    crossed = [name for name in low if name in high and parse(low[name]) > parse(high[name])]
    assert len(refusals) == len(crossed)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (
            {"min": {"cpu": "1"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "1"}},
            'defaultRequest[cpu]: Invalid value: "1": default request value 1 is greater than default limit value 500m',
        ),
        (
            {"min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}},
            'maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000',
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "0"}},
            'maxLimitRequestRatio[cpu]: Invalid value: "0": ratio 0 is less than 1',
        ),
    ],
)
def test_limits_that_contradict_each_other_are_refused(item: Obj, text: str) -> None:
    _, refusals = limits(**item)
    assert f"spec.limits[0].{text}" in refusals


def quota_refusals(**spec: Any) -> list[str]:
    return born("ResourceQuota", spec=spec)[1]


@pytest.mark.parametrize(
    ("spec", "refusals"),
    [
        ({"hard": {"count/jobs.batch": "1", "requests.example.com/gpu": "1"}}, []),
        ({"hard": {"pods": "-1"}}, ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"hard": {"pods": "1500m"}}, ['spec.hard[pods]: Invalid value: "1500m": must be an integer']),
        (
            {"hard": {"pods": "1"}, "scopes": ["Nope"]},
            ['spec.scopes: Invalid value: ["Nope"]: unsupported scope'],
        ),
        (
            {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]},
            ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'],
        ),
        (
            {
                "hard": {"services": "1"},
                "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
            },
            [
                "spec.scopeSelector.matchExpressions: Invalid value: "
                '{"MatchExpressions":[{"ScopeName":"PriorityClass","Operator":"Exists","Values":null}]}: '
                "unsupported scope applied to resource"
            ],
        ),
    ],
)
def test_quota_only_limits_what_can_be_counted(spec: Obj, refusals: list[str]) -> None:
    assert quota_refusals(**spec) == refusals


def test_scopes_of_a_quota_stay() -> None:
    old = made("ResourceQuota", spec={"hard": {"pods": "1"}, "scopes": ["Terminating"]})
    _, refusals = updated(old, lambda obj: obj["spec"].pop("scopes"))
    assert refusals == ["spec.scopes: Invalid value: null: field is immutable"]


def test_status_of_a_quota_is_checked_like_its_spec() -> None:
    refusals = status_refusals(made("ResourceQuota", spec={"hard": {"pods": "1"}}), {"used": {"pods": "-1"}})
    assert refusals == ['status.used[pods]: Invalid value: "-1": must be greater than or equal to 0']


@pytest.mark.parametrize(
    ("name", "value", "refusals"),
    [
        ("c", 1_000_000_000, []),
        ("c", 1_000_000_001, ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
        ("system-node-critical", 2_000_001_000, []),
        (
            "system-node-critical",
            1,
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only."
                " error: value of system-node-critical PriorityClass must be 2000001000"
            ],
        ),
    ],
)
def test_priorities_of_users_end_below_those_of_the_system(name: str, value: int, refusals: list[str]) -> None:
    """S3-02."""
    assert born("PriorityClass", meta={"name": name}, value=value)[1] == refusals


def test_changes_of_a_priority_class_are_not_counted() -> None:
    old = made("PriorityClass", value=1, meta={"generation": 7})
    new, refusals = updated(old, lambda obj: obj.update(description="more important than it was"))
    assert (refusals, old["metadata"]["generation"], new["metadata"]["generation"]) == ([], 1, 1)


def test_value_and_policy_of_a_priority_class_stay() -> None:
    _, refusals = updated(made("PriorityClass", value=1), lambda obj: obj.update(value=2, preemptionPolicy="Never"))
    assert refusals == [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "Never": field is immutable',
    ]


def test_thousands_of_actions_of_a_policy_binding_are_looked_at_once() -> None:
    strategy = strategy_of("ValidatingAdmissionPolicyBinding")

    def validate(count: int) -> None:
        actions = [Compared(f"Action{number}") for number in range(count)]
        strategy.validate({"spec": {"policyName": "p", "validationActions": actions}}, Errors())

    assert growth(validate, 200) < 2.5
