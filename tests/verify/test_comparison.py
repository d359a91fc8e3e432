"""What counts as the same, and what as another course of things."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.verify.comparison import Comparison, compare, longer
from fairlead.verify.happenings import Course, Happening


def _course(*happenings: tuple[float, str, str], **cpu: float) -> Course:
    return Course([Happening(at, kind, who) for at, kind, who in happenings], cpu)


def _compared(predicted: Course, real: Course, seconds: float = 100.0) -> Comparison:
    return compare(predicted, real, seconds, predicted.cpu_seconds)


def test_the_same_at_about_the_same_time_agrees() -> None:
    predicted = _course((10, "evicted", "a"), (50, "OOM-killed", "b"), app=30.0)
    real = _course((11.9, "evicted", "a"), (54.9, "OOM-killed", "b"), app=27.5)
    assert _compared(predicted, real).agrees


def test_a_time_is_off_if_it_is_by_more_than_two_seconds_and_a_tenth() -> None:
    def problem(predicted: float, real: float) -> str:
        return _compared(_course((predicted, "evicted", "a")), _course((real, "evicted", "a"))).rows[0].problem

    assert problem(10, 12.1) == "at another time"
    assert problem(5, 6.9) == ""  # more than a tenth, and less than two seconds
    assert problem(60, 66) == ""  # the other way round
    assert problem(60, 67) == "at another time"


def test_another_victim_does_not_agree() -> None:
    found = _compared(_course((10, "OOM-killed", "a")), _course((10, "OOM-killed", "b")))
    assert [(row.who, row.problem) for row in found.rows] == [("a", "did not happen"), ("b", "was not predicted")]
    assert not found.agrees


def test_another_order_does_not_agree_though_all_times_are_near() -> None:
    found = _compared(
        _course((50, "evicted", "a"), (52, "evicted", "b")), _course((52.5, "evicted", "a"), (51, "evicted", "b"))
    )
    assert found.problems == ()
    assert found.disorder == ("a evicted was predicted before b evicted, and came after it",)
    assert not found.agrees


def test_what_lies_within_a_moment_has_no_order() -> None:
    predicted = _course((50, "evicted", "a"), (50.5, "evicted", "b"))
    assert _compared(predicted, _course((52, "evicted", "a"), (50, "evicted", "b"))).agrees


def test_throttling_counts_where_cpu_is_declared() -> None:
    """Taking 120 MiB at 50m took a slow machine over three seconds."""
    predicted, real = _course((10, "OOM-killed", "b")), _course((1, "throttled", "app"), (10, "OOM-killed", "b"))
    assert compare(predicted, real, 100, ["other"]).agrees
    assert compare(predicted, real, 100, ["app"]).problems == ("was not predicted",)


def test_the_second_time_is_held_against_the_second_time() -> None:
    predicted = _course((10, "restarted", "a"), (30, "restarted", "a"))
    found = _compared(predicted, _course((10, "restarted", "a")))
    assert [(row.predicted, row.problem) for row in found.rows] == [(10, ""), (30, "did not happen")]


def test_what_is_due_just_before_the_end_may_come_just_after_it() -> None:
    assert longer(10) == 12 and longer(100) > 109
    assert _compared(_course((99, "evicted", "a")), _course((101, "evicted", "a"))).agrees
    assert _compared(_course((101, "evicted", "a")), _course()).rows == ()
    assert not _compared(_course((99, "evicted", "a")), _course()).agrees


def test_cpu_is_compared_where_somebody_said_how_much_is_used() -> None:
    predicted, real = _course(app=20.0, other=0.0), _course(app=10.0, other=50.0)
    found = compare(predicted, real, 60.0, ["app"])
    assert [(row.who, row.problem) for row in found.cpu] == [("app", "another amount")]


_HAPPENINGS = st.lists(
    st.builds(Happening, st.floats(0, 99), st.sampled_from(["evicted", "restarted"]), st.sampled_from("abc")),
    max_size=12,
)


@given(_HAPPENINGS)
def test_every_course_agrees_with_itself(happenings: list[Happening]) -> None:
    course = Course(sorted(happenings, key=lambda it: it.at), {})
    assert _compared(course, course).agrees


@given(_HAPPENINGS, _HAPPENINGS)
def test_whoever_compares_the_other_way_round_finds_as_much(first: list[Happening], second: list[Happening]) -> None:
    one, other = (Course(sorted(each, key=lambda it: it.at), {}) for each in (first, second))
    there, back = _compared(one, other), _compared(other, one)
    assert len(there.problems) == len(back.problems)
    assert there.agrees == back.agrees
