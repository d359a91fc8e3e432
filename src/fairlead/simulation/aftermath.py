"""What a cluster looks like when a test has failed, in a few lines: its pods, and what was told last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from fairlead.api.builtin import EVENTS, PODS
from fairlead.api.event_types import WARNING
from fairlead.api.pods import FINISHED, Pod
from fairlead.api.verbs import Api
from fairlead.runtime.clock import now
from fairlead.simulation.tables import Event, EventRow, event_row, pod_row
from fairlead.simulation.waiting import cut

#: So many pods are told of, those in trouble first, and so many events, the last ones.
_PODS: Final = 20
_EVENTS: Final = 20


async def aftermath(api: Api) -> str:
    """As of now."""
    pods = [item.view(Pod) for item in (await api.list(PODS)).items]
    events = [event_row(item.view(Event)) for item in (await api.list(EVENTS)).items]
    return "\n".join([*_of_pods(pods), *_of_events(events)])


def _of_pods(pods: list[Pod]) -> Iterator[str]:
    yield f"pods ({len(pods)}):"
    for pod in sorted(pods, key=lambda pod: (_is_well(pod), pod.metadata.key))[:_PODS]:
        row = pod_row(pod, now())
        state = "" if row.phase in FINISHED else ", ready" if pod.is_ready else ", not ready"
        going = ", terminating" if pod.metadata.is_terminating else ""
        why = ": ".join(filter(None, (row.reason, row.message)))
        yield f"  {pod.metadata.key}  {row.phase}{state}{going}  {row.node or 'no node'}  {cut(why)}".rstrip()
    if len(pods) > _PODS:
        yield f"  and {len(pods) - _PODS:,} more"


def _is_well(pod: Pod) -> bool:
    return pod.is_ready or pod.status.phase == "Succeeded"


def _of_events(events: list[EventRow]) -> Iterator[str]:
    yield "last events:"
    for event in sorted(events, key=lambda event: event.at)[-_EVENTS:]:
        moment = datetime.fromtimestamp(event.at, UTC).strftime("%H:%M:%S")
        mark = "!" if event.type == WARNING else " "
        often = f" (x{event.count})" if event.count > 1 else ""
        place = f"{event.namespace}/" if event.namespace else ""
        yield f"  {moment} {mark} {place}{event.object}  {event.reason}{often}: {cut(event.message)}"
