"""What came of it that room was made for pods, event by event."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.scheduling import Pod
from fairlead.arbitrator.accounting import requested
from fairlead.arbitrator.objects import BackOffStatus
from fairlead.arbitrator.trials import FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, Trials
from fairlead.runtime import clock
from fairlead.runtime.loops import run_virtual


class Journal:
    """Trials, and the results in their order."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.trials = Trials(requested, lambda _, result: self.results.append(result))


def pod(name: str, *, node: str = "", cpu: str = "1", phase: str = "Pending") -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "a", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"containers": [container], "nodeName": node}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def play(act: Callable[[Journal], None]) -> None:
    async def run() -> None:
        act(Journal())

    run_virtual(run())


def test_a_pod_that_starts_and_stays_was_helped() -> None:
    def act(journal: Journal) -> None:
        journal.trials.evicted(pod("p"), 1)
        assert journal.trials.is_lost(pod("p"), 1, 0)
        journal.trials.pod_event(pod("p"), pod("p", node="n"))
        journal.trials.tidy(lambda _: True)
        assert journal.results == []
        journal.trials.pod_event(pod("p", node="n"), pod("p", node="n", phase="Succeeded"))
        assert journal.results == ["helped"]

    play(act)


def test_another_of_its_size_may_start_in_its_place_but_none_that_is_smaller() -> None:
    def act(journal: Journal) -> None:
        journal.trials.evicted(pod("p"), 1)
        journal.trials.pod_event(None, pod("small", node="n", cpu="500m"))
        assert journal.trials.of("a") == ["p"]
        journal.trials.pod_event(None, pod("other", node="n"))
        assert journal.trials.of("a") == []
        journal.trials.pod_event(pod("other", node="n"), None)  # driven away at once
        assert journal.trials.of("a") == ["other"]
        assert journal.trials.is_lost(pod("third"), 1, 0)
        assert not journal.trials.is_lost(pod("third"), 1, 1)

    play(act)


def test_those_who_were_planned_may_still_go() -> None:
    def act(journal: Journal) -> None:
        journal.trials.evicted(pod("p"), 3)
        assert not journal.trials.is_lost(pod("p"), 2, 0)
        assert journal.trials.is_lost(pod("p"), 3, 0)

    play(act)


def test_the_delay_grows_up_to_a_bound_and_ends_with_a_pod_that_is_helped() -> None:
    def act(journal: Journal) -> None:
        delays = []
        for _ in range(12):
            journal.trials.evicted(pod("p"), 1)
            delays.append(journal.trials.failed("a", "a/p", ["p"]).until - clock.now())
        assert delays[:3] == [FIRST_DELAY_SECONDS, 2 * FIRST_DELAY_SECONDS, 4 * FIRST_DELAY_SECONDS]
        assert delays[-1] == LONGEST_DELAY_SECONDS
        assert journal.results == ["futile"] * 12
        journal.trials.evicted(pod("p"), 1)
        journal.trials.pod_event(pod("p"), pod("p", node="n"))
        journal.trials.pod_event(pod("p", node="n"), pod("p", node="n", phase="Succeeded"))
        back_off = journal.trials.back_off("a")
        assert back_off is not None
        assert (back_off.failures, back_off.until, back_off.max_pods) == (0, 0.0, 2)

    play(act)


def test_the_next_arbitrator_goes_on_from_there() -> None:
    def act(journal: Journal) -> None:
        until = clock.timestamp(clock.now() + 100)
        journal.trials.recall("a", BackOffStatus(failures=4, until=until, beneficiary="a/p"))
        back_off = journal.trials.failed("a", "a/p", [])
        assert back_off.until == clock.now() + 16 * FIRST_DELAY_SECONDS
        assert back_off.encode()["failures"] == 5

    play(act)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4000), st.sampled_from(["a/p", "a/q"])), min_size=2))
def test_arbitrators_that_tell_each_other_come_to_say_the_same(known: list[tuple[int, int, str]]) -> None:
    """In whatever order they hear of each other, and however far in the future one of them says it is."""

    def act(journal: Journal) -> None:
        now = clock.now()
        backoffs = [
            BackOffStatus(failures=failures, until=clock.timestamp(now + seconds), beneficiary=pod)
            for failures, seconds, pod in known
        ]
        encoded = []
        for order in (backoffs, backoffs[::-1]):
            trials = Journal().trials
            for back_off in order:
                trials.recall("a", back_off)
            final = trials.back_off("a")
            assert final is not None and final.until <= now + LONGEST_DELAY_SECONDS
            encoded.append(final.encode())
        assert encoded[0] == encoded[1]

    play(act)
