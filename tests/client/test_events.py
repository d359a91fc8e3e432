"""Events are written in order, and what repeats is counted instead of written again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import Forbidden, NotFound
from fairlead.api.event_types import NORMAL
from fairlead.api.objects import Obj
from fairlead.api.references import Reference
from fairlead.api.resources import Resource
from fairlead.api.verbs import WRITE, Api, PatchType, WriteOptions
from fairlead.client.events import LONGEST_QUEUE, EventRecorder, Recorder, SeriesRecorder, telling_only
from fairlead.runtime.loops import run_virtual

POD = Reference(kind="Pod", api_version="v1", namespace="n", name="p", uid="u")


class Events:
    """The part of a server that keeps events."""

    def __init__(self) -> None:
        self.stored: dict[str, Obj] = {}
        self.refuse = False

    async def create(
        self, resource: Resource, obj: Obj, namespace: str = "", *, options: WriteOptions = WRITE
    ) -> Encoded:
        if self.refuse:
            raise Forbidden("no")
        self.stored[obj["metadata"]["name"]] = obj
        return encoded(obj)

    async def patch(
        self, resource: Resource, name: str, namespace: str, patch: Obj, type_: PatchType, **options: Any
    ) -> Encoded:
        if name not in self.stored:
            raise NotFound.of("events", name)
        self.stored[name] |= patch
        return encoded(self.stored[name])

    @property
    def told(self) -> list[tuple[str, int]]:
        return [(one["message"], one.get("count", 0)) for one in self.stored.values()]


def record(kind: type[Recorder], say: Callable[[Recorder], Awaitable[None]], events: Events | None = None) -> Events:
    """Let `say` use a recorder in virtual time, until all of it is written."""
    events = events or Events()

    async def main() -> None:
        recorder = kind(cast(Api, events), "tester", host="h")
        task = asyncio.create_task(recorder.run())
        await say(recorder)
        await recorder.flushed()
        task.cancel()

    run_virtual(main())
    return events


def test_a_repeated_event_is_counted() -> None:
    async def say(recorder: Recorder) -> None:
        for _ in range(3):
            recorder.event(POD, NORMAL, "Pulled", "image is here")
            await asyncio.sleep(5)

    [event] = record(EventRecorder, say).stored.values()
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:10Z",
    )
    assert event["source"] == {"component": "tester", "host": "h"}
    assert event["involvedObject"] == {"kind": "Pod", "apiVersion": "v1", "namespace": "n", "name": "p", "uid": "u"}
    assert event["metadata"]["name"].startswith("p.")


def test_similar_events_are_combined_from_the_tenth_on() -> None:
    async def say(recorder: Recorder) -> None:
        for number in range(12):
            recorder.event(POD, NORMAL, "Created", f"pod {number}")

    told = record(EventRecorder, say).told
    assert told[:9] == [(f"pod {number}", 1) for number in range(9)]
    assert told[9:] == [("(combined from similar events): pod 11", 3)]


def test_who_says_too_much_about_one_object_is_silenced_and_may_speak_again_later() -> None:
    async def say(recorder: Recorder) -> None:
        for number in range(30):
            recorder.event(POD, NORMAL, f"Reason{number}", "x")
        await recorder.flushed()
        await asyncio.sleep(300)
        recorder.event(POD, NORMAL, "Later", "y")

    told = record(EventRecorder, say).told
    assert len(told) == 26
    assert told[-1] == ("y", 1)


def test_a_refused_event_is_lost_and_the_next_one_is_written() -> None:
    events = Events()

    async def say(recorder: Recorder) -> None:
        events.refuse = True
        recorder.event(POD, NORMAL, "A", "lost")
        await recorder.flushed()
        events.refuse = False
        recorder.event(POD, NORMAL, "B", "kept")

    assert record(EventRecorder, say, events).told == [("kept", 1)]


def test_an_event_about_a_cluster_scoped_object_lives_in_the_default_namespace() -> None:
    async def say(recorder: Recorder) -> None:
        recorder.event(Reference(kind="Node", name="n1"), NORMAL, "NodeReady", "m")

    [event] = record(EventRecorder, say).stored.values()
    assert event["metadata"]["namespace"] == "default"


def test_a_series_names_its_controller_and_counts_no_single_event() -> None:
    async def say(recorder: Recorder) -> None:
        recorder.event(POD, NORMAL, "Scheduled", "to n1", action="Binding")

    [event] = record(SeriesRecorder, say).stored.values()
    assert "count" not in event
    assert (event["reportingComponent"], event["reportingInstance"], event["action"]) == (
        "tester",
        "tester-h",
        "Binding",
    )
    assert event["eventTime"] == "2026-01-01T00:00:00.000000Z"
    assert event["source"] == {}


def test_what_repeats_becomes_a_series_whose_final_count_is_written_when_it_has_ended() -> None:
    async def say(recorder: Recorder) -> None:
        for _ in range(4):
            recorder.event(POD, NORMAL, "FailedScheduling", "no room", action="Scheduling")
        await recorder.flushed()
        await asyncio.sleep(800)

    [event] = record(SeriesRecorder, say).stored.values()
    assert event["series"] == {"count": 4, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}


def test_more_repeats_at_once_than_may_wait_to_be_written_are_all_counted() -> None:
    async def say(recorder: Recorder) -> None:
        for _ in range(2):
            recorder.event(POD, NORMAL, "FailedScheduling", "no room", action="Scheduling")
        await recorder.flushed()
        for _ in range(2 * LONGEST_QUEUE):
            recorder.event(POD, NORMAL, "FailedScheduling", "no room", action="Scheduling")
        recorder.event(POD, NORMAL, "Scheduled", "to n1", action="Binding")
        await recorder.flushed()
        await asyncio.sleep(800)

    first, last = record(SeriesRecorder, say).stored.values()
    assert (first["series"]["count"], last["reason"]) == (2 * LONGEST_QUEUE + 2, "Scheduled")


def test_a_series_that_goes_on_is_written_every_half_hour_also_after_a_long_silence() -> None:
    counts, events = [], Events()

    async def say(recorder: Recorder) -> None:
        await asyncio.sleep(10_000)  # the half hours go on: the next is at 10,800
        for _ in range(20):
            recorder.event(POD, NORMAL, "FailedScheduling", "no room", action="Scheduling")
            await asyncio.sleep(60)
            counts.append(next(iter(events.stored.values())).get("series", {}).get("count", 0))

    record(SeriesRecorder, say, events)
    assert counts[1:] == [2] * 12 + [14] * 7


def test_in_a_run_whose_events_are_read_for_some_reasons_only_those_are_written() -> None:
    async def say(recorder: Recorder) -> None:
        recorder.event(POD, NORMAL, "Pulled", "image is here")
        recorder.event(POD, NORMAL, "Preempted", "by q")

    for kind in (EventRecorder, SeriesRecorder):
        with telling_only({"Preempted"}):
            assert [message for message, _ in record(kind, say).told] == ["by q"]
        assert len(record(kind, say).told) == 2
