"""Which nodes have which images already: the facts behind ImageLocality.

The size of an image is the one that the first node to report it told, until no node has it any more
(pkg/scheduler/backend/cache, addNodeImageStates).
"""

from __future__ import annotations

import msgspec

from fairlead.api.scheduling import Node


class ImageState(msgspec.Struct):
    size_bytes: int
    rows: set[int] = msgspec.field(default_factory=set)


class Images:
    """Every image on any node, by each of its names."""

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def get(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def add(self, row: int, node: Node) -> None:
        for image in node.status.images or ():
            for name in image.names or ():
                self._states.setdefault(name, ImageState(image.size_bytes)).rows.add(row)

    def remove(self, row: int, node: Node) -> None:
        for image in node.status.images or ():
            for name in image.names or ():
                state = self._states.get(name)
                if state is not None:
                    state.rows.discard(row)
                    if not state.rows:
                        del self._states[name]
