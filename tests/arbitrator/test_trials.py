"""What came of it that room was made for pods, event by event."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.books import requested
from fairlead.arbitrator.objects import BackOff
from fairlead.arbitrator.trials import FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, Trials
from fairlead.runtime import clock
from fairlead.runtime.loops import run_virtual


class Told:
    """Trials, and the results in their order."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.trials = Trials(requested, lambda _, result: self.results.append(result))


def pod(name: str, *, node: str = "", cpu: str = "1", phase: str = "Pending") -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"containers": [container], "nodeName": node}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def play(act: Callable[[Told], None]) -> None:
    async def run() -> None:
        act(Told())

    run_virtual(run())


def test_a_pod_that_starts_and_stays_was_helped() -> None:
    def act(told: Told) -> None:
        told.trials.evicted(pod("p"), 1)
        assert told.trials.is_lost(pod("p"), 1, 0)
        told.trials.pod_event(pod("p"), pod("p", node="n"))
        told.trials.tidy(lambda _: True)
        assert told.results == []
        told.trials.pod_event(pod("p", node="n"), pod("p", node="n", phase="Succeeded"))
        assert told.results == ["helped"]

    play(act)


def test_another_of_its_size_may_start_in_its_place_but_none_that_is_smaller() -> None:
    def act(told: Told) -> None:
        told.trials.evicted(pod("p"), 1)
        told.trials.pod_event(None, pod("small", node="n", cpu="500m"))
        assert told.trials.of("a") == ["p"]
        told.trials.pod_event(None, pod("other", node="n"))
        assert told.trials.of("a") == []
        told.trials.pod_event(pod("other", node="n"), None)  # driven away at once
        assert told.trials.of("a") == ["other"]
        assert told.trials.is_lost(pod("third"), 1, 0)
        assert not told.trials.is_lost(pod("third"), 1, 1)

    play(act)


def test_those_who_were_planned_may_still_go() -> None:
    def act(told: Told) -> None:
        told.trials.evicted(pod("p"), 3)
        assert not told.trials.is_lost(pod("p"), 2, 0)
        assert told.trials.is_lost(pod("p"), 3, 0)

    play(act)


def test_the_delay_grows_up_to_a_bound_and_ends_with_a_pod_that_is_helped() -> None:
    def act(told: Told) -> None:
        delays = []
        for _ in range(12):
            told.trials.evicted(pod("p"), 1)
            delays.append(told.trials.failed("a", "a/p", ["p"]).until - clock.now())
        assert delays[:3] == [FIRST_DELAY_SECONDS, 2 * FIRST_DELAY_SECONDS, 4 * FIRST_DELAY_SECONDS]
        assert delays[-1] == LONGEST_DELAY_SECONDS
        assert told.results == ["futile"] * 12
        told.trials.evicted(pod("p"), 1)
        told.trials.pod_event(pod("p"), pod("p", node="n"))
        told.trials.pod_event(pod("p", node="n"), pod("p", node="n", phase="Succeeded"))
        caution = told.trials.caution("a")
        assert caution is not None
        assert (caution.failures, caution.until, caution.width) == (0, 0.0, 2)

    play(act)


def test_the_next_arbitrator_goes_on_from_there() -> None:
    def act(told: Told) -> None:
        until = clock.timestamp(clock.now() + 100)
        told.trials.recall("a", BackOff(failures=4, until=until, beneficiary="a/p"))
        caution = told.trials.failed("a", "a/p", [])
        assert caution.until == clock.now() + 16 * FIRST_DELAY_SECONDS
        assert caution.encode()["failures"] == 5

    play(act)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4000), st.sampled_from(["a/p", "a/q"])), min_size=2))
def test_arbitrators_that_tell_each_other_come_to_say_the_same(known: list[tuple[int, int, str]]) -> None:
    """In whatever order they hear of each other, and however far in the future one of them says it is."""

    def act(told: Told) -> None:
        now = clock.now()
        backoffs = [
            BackOff(failures=failures, until=clock.timestamp(now + seconds), beneficiary=pod)
            for failures, seconds, pod in known
        ]
        said = []
        for order in (backoffs, backoffs[::-1]):
            trials = Told().trials
            for one in order:
                trials.recall("a", one)
            caution = trials.caution("a")
            assert caution is not None and caution.until <= now + LONGEST_DELAY_SECONDS
            said.append(caution.encode())
        assert said[0] == said[1]

    play(act)
