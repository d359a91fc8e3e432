"""Since when the endpoints of a service ought to be as they are now: what a proxy measures its delay by.

The time of the change that the controller answers is written as an annotation with every change of endpoints, and taken
off by one that nothing of the kind brought about. Source: k8s.io/endpointslice/util/trigger_time_tracker.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.api.pods import Pod
from fairlead.api.services import Service

LAST_CHANGE: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class Triggers:
    """When each service was made, and when each of its pods last turned ready or unready, as far as it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, dict[str, str]]] = {}

    def forget(self, key: str) -> None:
        self._seen.pop(key, None)

    def annotation(self, service: Service, pods: Iterable[Pod]) -> dict[str, str | None]:
        """The annotation of what changes now, for the earliest of the changes since the last time; None takes it off.

        Times are texts of whole seconds in UTC, which are in the order of time.
        """
        key, made = service.metadata.key, service.metadata.creation_timestamp
        turned = {pod.metadata.name: at for pod in pods if (at := _turned_at(pod))}
        seen = self._seen.get(key)
        self._seen[key] = made, turned
        if seen is None:
            return {LAST_CHANGE: made}
        was_made, had_turned = seen
        new = [at for name, at in turned.items() if at > had_turned.get(name, "")]
        if made > was_made:
            new.append(made)
        return {LAST_CHANGE: min(new, default=None)}


def _turned_at(pod: Pod) -> str | None:
    condition = pod.ready_condition
    return condition.last_transition_time if condition is not None else None
