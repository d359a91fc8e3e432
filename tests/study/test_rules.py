"""Rules of a study: what they ask, how they are judged, and what is refused; sweeps and bisection."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.sim.histories import Disruption, PodHistory
from fairlead.study.changes.errors import ChangeError
from fairlead.study.outcome import Outcome, notable, quantile, waits_of
from fairlead.study.rules import judge, read_rules, shown
from fairlead.study.sweep import bisect, parse_sweep


def outcome(name: str, *pods: PodHistory, cost: float | None = None) -> Outcome:
    summary = {"digest": name, "utilisation": {"cpu": {"mean": 0.71}}, "nodeTroubles": {}, "nodes": 1, "created": 1}
    waits = waits_of(pods, 1000.0)
    waiting = sum(pod.is_waiting for pod in pods)
    return Outcome(name, 0.0, 1000.0, summary, notable(pods, 1000.0), len(pods), waiting, waits, {}, 0, cost=cost)


def pod(name: str, waited: float, priority: int = 0, *kinds: str) -> PodHistory:
    disruptions = [Disruption(10.0, kind) for kind in kinds]
    return PodHistory(name, name, name, priority, 0.0, bound=waited, disruptions=disruptions)


def rules(folder: Path, text: str) -> Path:
    path = folder / "rules.yaml"
    path.write_text("expect:\n" + text)
    return path


def verdicts(folder: Path, text: str, *outcomes: Outcome) -> list[bool]:
    return [verdict.is_met for verdict in judge(read_rules(rules(folder, text)), outcomes)]


BEFORE = outcome("before", pod("prod/a", 10, 1000), pod("batch/b", 600))
AFTER = outcome("after", pod("prod/a", 400, 1000, "preempted"), pod("batch/b", 600))


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("- longestWait: 10m", True),
        ("- longestWait: 9m", False),
        ("- {of: {namespace: prod}, longestWait: 5m}", False),
        ("- {of: {priority: '<1000'}, preempted: 0}", True),
        ("- {of: {priority: '>=1000'}, preempted: 0}", False),
        ("- preempted: {notMoreThanBefore: true}", False),
        ("- {of: {namespace: batch}, p95Wait: {notMoreThanBefore: true}}", True),
        ("- cpuRequested: {atLeast: 50%, atMost: 0.8}", True),
        ("- cpuRequested: {atLeast: 75%}", False),
    ],
)
def test_rules_are_judged(tmp_path: Path, text: str, is_met: bool) -> None:
    assert verdicts(tmp_path, text, BEFORE, AFTER) == [is_met]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- waiting: nan", "line 2: waiting: 'nan' is not a number"),
        ("- cpuRequested: {atMost: 1e999%}", "line 2: cpuRequested: '1e999%' is not a number"),
        ("- waiting: -1", "line 2: waiting: nothing is at most -1 and at least 0"),
        (
            "- cpuRequested: {atLeast: 90%, atMost: 10%}",
            "line 2: cpuRequested: nothing is at most 10% and at least 90%",
        ),
        ("- longestwait: 5m", "line 2: unknown figure 'longestwait'"),
        ("- longestWait: soon", "line 2: longestWait: 'soon' is not a duration"),
        ("- {of: {team: x}, waiting: 0}", "line 2: of: takes namespace and priority"),
        ("- {of: {priority: high}, waiting: 0}", "line 2: priority: 'high' is no bound"),
        ("- {of: {namespace: prod}, cost: 5}", "line 2: cost is a figure of the whole cluster"),
        ("- name: nothing", "line 2: a rule without a figure"),
        ("- waiting: {below: 5}", "line 2: waiting: bounds are atMost"),
        ("- waiting: 0\n- {of: {namespace: nowhere}, waiting: 0}", "line 3: no pod is in namespace 'nowhere'"),
        ("- {of: {namespace: prod, priority: 5}, waiting: 0}", "line 2: no pod in namespace 'prod' has the priority 5"),
        ("- {of: {priority: '>1000'}, waiting: 0}", "line 2: no pod has the priority >1000"),
        ("- {of: {priority: 0}, refusedByQuota: 0}", "line 2: refusedByQuota is a figure of namespaces"),
        ("- waiting: {notMoreThanBefore: false}", "line 2: waiting: notMoreThanBefore is true, or left out"),
        ("- cpuRequested: {atMost: 90}", "line 2: cpuRequested: 90 is more than everything: write 90%"),
        ("- waiting: 9\n---\nexpect:\n- wating: 0", "line 5: unknown figure 'wating'"),
        ("- {variant: b, waiting: 0}", "line 2: there is no variant 'b'"),
        ("- cost: 10", "line 2: no node has a price"),
        ("  nothing: 1", "line 1: rules are a list under expect:"),
    ],
)
def test_rules_that_cannot_be_judged_are_refused_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ChangeError, match=r"rules\.yaml") as refused:
        verdicts(tmp_path, text, BEFORE, AFTER)
    assert problem in str(refused.value)


def test_rules_of_every_document_count(tmp_path: Path) -> None:
    assert verdicts(tmp_path, "- longestWait: 10m\n---\nexpect:\n- preempted: 0\n", BEFORE, AFTER) == [True, False]


@given(st.lists(st.integers(0, 500), min_size=1, max_size=40), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_quantile_is_a_wait_that_so_many_pods_did_not_exceed(waits: list[int], part: float) -> None:
    pods = [pod(f"n{number % 3}/p{number}", float(wait), number % 2) for number, wait in enumerate(waits)]
    found = quantile(waits_of(pods, 1000.0), part)
    assert found in (0.0, *map(float, waits))
    assert sum(wait <= found for wait in waits) >= part * len(waits)
    assert sum(wait < found for wait in waits) < part * len(waits) or found == 0


@given(st.integers(1, 200), st.integers(-5, 205), st.booleans())
def test_bisection_finds_the_best_value_that_meets(count: int, bound: int, smallest: bool) -> None:
    values = [str(value) for value in range(count)]
    meets = {value for value in values if (int(value) >= bound if smallest else int(value) <= bound)}
    found = bisect(values, meets.__contains__, smallest=smallest)
    best = (min if smallest else max)(map(int, meets), default=None)
    assert found == (None if best is None else str(best))


def test_a_sweep_has_a_value_for_each_step() -> None:
    assert parse_sweep("nodes=9..11").values == ("9", "10", "11")
    assert parse_sweep("quota/a/requests.memory=10..30:10Gi").values == ("10Gi", "20Gi", "30Gi")
    for text in ("nodes", "nodes=5", "nodes=9..1", "nodes=1..9999999", "nodes=1..2:0"):
        with pytest.raises(ValueError, match="--sweep"):
            parse_sweep(text)


def test_hours_of_nodes_are_shown_where_they_differ_by_less_than_one() -> None:
    assert [shown("nodeHours", hours) for hours in (24.0, 23.5)] == ["24.0", "23.5"]
