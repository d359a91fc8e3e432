"""Each OOM kill of a container is counted once, although it is seen twice: as the run that ended, and as the last run
before the present one.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.pods import ContainerStatus, Pod
from fairlead.node.containers import OOM_KILLED

_MARK: Final = OOM_KILLED.encode()


class OomKills:
    def __init__(self) -> None:
        self._counted: dict[str, dict[str, int]] = {}  # by uid and container: the last run that was counted

    def news(self, pod: Pod) -> list[str]:
        """The containers that were killed since the pod was last looked at."""
        found = []
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            run = _killed_run(container)
            if run is None:
                continue
            counted = self._counted.setdefault(pod.metadata.uid, {})
            if counted.get(container.name, -1) < run:
                counted[container.name] = run
                found.append(container.name)
        return found

    def forget(self, pod: Pod) -> None:
        self._counted.pop(pod.metadata.uid, None)


def _killed_run(container: ContainerStatus) -> int | None:
    """The latest run that was killed, if it is the present or the last one."""
    ended = container.state.terminated
    if ended is not None and ended.reason == OOM_KILLED:
        return container.restart_count
    if _MARK in bytes(container.raw_last_state):
        return container.restart_count - (ended is None and container.state.waiting is None)
    return None
