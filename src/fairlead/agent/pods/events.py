"""The events of pods, as a kubelet tells them, within its limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.api.builtin import PODS
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.pods import Pod
from fairlead.api.references import reference
from fairlead.client.events import EventRecorder
from fairlead.node.container_sync import Note
from fairlead.node.eviction.messages import EVICTED
from fairlead.runtime.clock import monotonic
from fairlead.runtime.token_bucket import TokenBucket


class PodEvents:
    """All warnings, and normal events as far as `eventRecordQPS` and `eventBurst` allow."""

    def __init__(self, recorder: EventRecorder, per_second: float, burst: float) -> None:
        self._recorder = recorder
        self._limit = TokenBucket(per_second, burst, monotonic()) if per_second > 0 else None

    def tell(self, pod: Pod, notes: Iterable[Note]) -> None:
        for note in notes:
            if note.type == NORMAL and self._limit is not None and not self._limit.take(monotonic()):
                continue
            self._recorder.event(reference(pod, PODS, note.path), note.type, note.reason, note.message)

    def evicted(self, pod: Pod, message: str, annotations: Mapping[str, str]) -> None:
        """Annotations tell what counted."""
        self._recorder.event(reference(pod, PODS), WARNING, EVICTED, message, annotations=annotations)
