"""Waits until an object is as it should be, by a watch; who waits in vain is told how things are instead.

A test that polls is slow or lucky, and one that only says "timed out" is run a second time to learn why.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from fairlead.api.builtin import EVENTS
from fairlead.api.errors import Gone
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, EventType, ListQuery, WatchQuery
from fairlead.simulation.moments import Duration, seconds_of

#: `Ready`, `Ready=False`, `create`, `delete`, or what the object is asked.
Condition: TypeAlias = str | Callable[[Obj], object] | Callable[[Obj], Awaitable[object]]

_CREATE: Final = "create"
_DELETE: Final = "delete"
#: As `kubectl wait --for` spells it.
_PREFIX: Final = "condition="
#: What a function raises that looks for a field which nobody has written yet: the object has no status at first.
_NOT_YET: Final = (LookupError, TypeError, AttributeError)
#: What is told of an object is cut after so many characters.
_LONGEST: Final = 300
#: How many of an object's last events are told.
_MOST_EVENTS: Final = 5


class Wanted(msgspec.Struct, frozen=True):
    """The object that somebody waits for."""

    resource: Resource
    name: str
    namespace: str

    def __str__(self) -> str:
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.kind} {self.name}{place}"


async def wait(api: Api, wanted: Wanted, condition: Condition, timeout: Duration) -> Obj:  # noqa: ASYNC109
    """The object once it is so, empty once it is gone. Raises TimeoutError after so much of the loop's time."""
    seconds = seconds_of(timeout)
    last: Obj | None = None
    missed: Exception | None = None
    try:
        async with asyncio.timeout(seconds):
            async for current in _states(api, wanted):
                last, missed = current, None
                try:
                    if await _is_met(condition, current):
                        return current or {}
                except _NOT_YET as error:
                    missed = error
    except TimeoutError:
        pass
    events = await _events(api, wanted)
    raise TimeoutError(_in_vain(wanted, condition, seconds, last, missed, events)) from missed


async def _is_met(condition: Condition, obj: Obj | None) -> bool:
    if condition == _DELETE:
        return obj is None
    if obj is None:
        return False
    if callable(condition):
        answer = condition(obj)
        return bool(await answer if inspect.isawaitable(answer) else answer)
    type_, _, status = condition.removeprefix(_PREFIX).lower().partition("=")
    return condition == _CREATE or any(
        str(each.get("type")).lower() == type_ and str(each.get("status")).lower() == (status or "true")
        for each in _conditions(obj)
    )


async def _states(api: Api, wanted: Wanted) -> AsyncIterator[Obj | None]:
    """The object as it is, and after each change; None while there is none."""
    fields = f"metadata.name={wanted.name}"
    while True:
        listing = await api.list(wanted.resource, wanted.namespace, ListQuery(fields=fields))
        yield listing.items[0].obj() if listing.items else None
        query = WatchQuery(fields=fields, resource_version=listing.resource_version)
        try:
            async for event in api.watch(wanted.resource, wanted.namespace, query):
                yield None if event.type is EventType.DELETED else event.object.obj()
        except Gone:
            continue


async def _events(api: Api, wanted: Wanted) -> list[Obj]:
    fields = f"involvedObject.kind={wanted.resource.kind},involvedObject.name={wanted.name}"
    found = [item.obj() for item in (await api.list(EVENTS, wanted.namespace, ListQuery(fields=fields))).items]
    return found[-_MOST_EVENTS:]


def _in_vain(
    wanted: Wanted,
    condition: Condition,
    seconds: float,
    last: Obj | None,
    missed: Exception | None,
    events: list[Obj],
) -> str:
    wish = getattr(condition, "__name__", "the condition") if callable(condition) else condition
    lines = [f"{wanted}: {wish!r} did not come to be within {seconds:g} s"]
    if missed is not None:
        lines.append(f"asked about the object as it is, it raised {missed!r}")
    if last is None:
        lines.append("there is no such object")
    else:
        status = last.get("status") or {}
        if status and not _conditions(last):  # of a kind that has its own way to tell how things are
            lines.append(f"status {cut(json.dumps(status))}")
        elif phase := status.get("phase"):
            lines.append(f"phase {phase}")
        for each in _conditions(last):
            why = ": ".join(filter(None, (each.get("reason"), each.get("message"))))
            lines.append(f"{each.get('type')}={each.get('status')}" + (f" ({why})" if why else ""))
    lines += dict.fromkeys(f"event {event.get('reason')}: {event.get('message')}" for event in events)
    return "\n  ".join(lines)


def cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …"


def _conditions(obj: Obj) -> list[Obj]:
    conditions = (obj.get("status") or {}).get("conditions")
    return [each for each in conditions if isinstance(each, dict)] if isinstance(conditions, list) else []
