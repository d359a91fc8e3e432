"""Which nodes have which images already: the facts behind ImageLocality.

The size of an image is the one that the first node to report it told, until no node has it any more
(pkg/scheduler/backend/cache, addNodeImageStates).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fairlead.api.scheduling import ContainerImage, Node


class ImageState(msgspec.Struct):
    size_bytes: int
    rows: set[int] = msgspec.field(default_factory=set)


class Images:
    """Every image on any node, by each of its names."""

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def get(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def change(self, row: int, old: Node | None, new: Node | None) -> None:
        """What a node has is something else now; mostly it is the same."""
        before, now = _images_of(old), _images_of(new)
        if before == now:
            return
        for name in _names(before):
            state = self._states.get(name)
            if state is not None:
                state.rows.discard(row)
                if not state.rows:
                    del self._states[name]
        for image in now:
            for name in image.names or ():
                if (state := self._states.get(name)) is None:
                    state = self._states[name] = ImageState(image.size_bytes)
                state.rows.add(row)


def _images_of(node: Node | None) -> tuple[ContainerImage, ...]:
    return () if node is None else node.status.images or ()


def _names(images: Iterable[ContainerImage]) -> Iterator[str]:
    return (name for image in images for name in image.names or ())
