"""What holds of the number of replicas whatever the metrics, the history and the numbers of a stranger are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.autoscaling import Behavior, ScalingPolicy, ScalingRules
from fairlead.controllers.horizontal.behavior import Bounds, History, normalized
from fairlead.controllers.horizontal.replicas import (
    MAX_REPLICAS,
    PodGroups,
    Tolerances,
    for_average,
    for_utilization,
)

_NUMBERS = st.integers(-(2**31), 2**31 - 1)
_AMOUNTS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def rules(draw: st.DrawFn) -> ScalingRules:
    policy = st.builds(
        ScalingPolicy,
        type=st.sampled_from(["Pods", "Percent"]),
        value=st.integers(1, 2**31 - 1),
        period_seconds=st.integers(1, 1800),
    )
    return ScalingRules(
        stabilization_window_seconds=draw(st.none() | st.integers(0, 3600)),
        select_policy=draw(st.sampled_from(["Min", "Max", "Disabled"])),
        policies=tuple(draw(st.lists(policy, min_size=1, max_size=3))),
    )


_BEHAVIORS = st.none() | st.builds(Behavior, scale_up=rules(), scale_down=rules())


@given(_BEHAVIORS, st.lists(st.tuples(st.integers(0, 900), st.integers(0, 2**31 - 1)), max_size=20), st.data())
def test_replicas_stay_within_bounds_and_above_what_the_window_proposed(
    behavior: Behavior | None, steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    low = data.draw(st.integers(0, 1000))
    high = data.draw(st.integers(max(low, 1), 2**31 - 1))
    current, now = data.draw(st.integers(low, high)), 0.0
    history, proposals = History(), list[tuple[float, int]]()
    for seconds, proposed in steps:
        now += seconds
        outcome = normalized(behavior, history, proposed, Bounds(current, low, high), now)
        window = 300 if behavior is None else behavior.scale_down.stabilization_window_seconds
        window = 300 if window is None else window
        recent = [count for at, count in proposals if at > now - window]
        assert low <= outcome.replicas <= high
        assert outcome.replicas >= min([current, high, *([max([proposed, *recent])])])
        history.scaled(behavior, current, outcome.replicas, now)
        proposals.append((now, proposed))
        current = outcome.replicas


@given(rules(), rules(), st.integers(1, 1000), st.integers(0, 2000), st.data())
def test_a_disabled_direction_is_never_taken(
    up: ScalingRules, down: ScalingRules, current: int, proposed: int, data: st.DataObject
) -> None:
    behavior = Behavior(
        scale_up=ScalingRules(select_policy="Disabled", policies=up.policies),
        scale_down=ScalingRules(select_policy="Disabled", policies=down.policies),
    )
    assert normalized(behavior, History(), proposed, Bounds(current, 1, 2000), 0.0).replicas == current


@given(rules(), st.integers(1, 1000), st.integers(1, 2000))
def test_the_policy_of_least_change_changes_no_more_than_that_of_most(
    drawn: ScalingRules, current: int, proposed: int
) -> None:
    changes = []
    for select in ("Min", "Max"):
        both = ScalingRules(stabilization_window_seconds=0, select_policy=select, policies=drawn.policies)
        outcome = normalized(Behavior(scale_up=both, scale_down=both), History(), proposed, Bounds(current, 1, 2000), 0)
        changes.append(abs(outcome.replicas - current))
    assert changes[0] <= changes[1]


@given(st.integers(1, 10_000), st.lists(st.integers(91, 109), min_size=1))
def test_usage_within_the_tolerance_changes_nothing(current: int, percents: list[int]) -> None:
    samples = {str(index): percent for index, percent in enumerate(percents)}
    proposal = for_average(current, 100, samples, PodGroups(len(samples)), Tolerances())
    assert proposal.replicas == current


@given(
    _NUMBERS,
    _NUMBERS,
    st.dictionaries(st.sampled_from("abc"), _AMOUNTS, min_size=1),
    st.frozensets(st.sampled_from("xyz")),
)
def test_hostile_numbers_propose_a_number_of_replicas(
    current: int, target: int, samples: dict[str, int], missing: frozenset[str]
) -> None:
    groups = PodGroups(len(samples), missing=missing)
    requests = dict.fromkeys("abcxyz", 100)
    for proposal in (
        for_average(current, target, samples, groups, Tolerances()),
        for_utilization(current, target, samples, requests, groups, Tolerances()),
    ):
        assert proposal.replicas == current or 0 <= proposal.replicas <= MAX_REPLICAS


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1000), min_size=1),
    st.dictionaries(st.sampled_from("wxyz"), st.integers(0, 1000)),
    st.frozensets(st.sampled_from("efg")),
)
def test_samples_of_pods_of_nobody_change_no_utilization(
    samples: dict[str, int], strangers: dict[str, int], unready: frozenset[str]
) -> None:
    groups, requests = PodGroups(len(samples), unready=unready), dict.fromkeys("abcdefg", 100)
    alone, beside = (
        for_utilization(3, 50, known, requests, groups, Tolerances()) for known in (samples, strangers | samples)
    )
    assert (alone.average, alone.utilization) == (beside.average, beside.utilization)
