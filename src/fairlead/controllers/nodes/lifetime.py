"""For how long a node agent may use the secrets and config maps that it has read: the longer, the more nodes there are.

It is told by an annotation of every node. Upstream has a controller for this alone (pkg/controller/ttl); here the
annotation goes along with what else is written to a node that registers, since starting thousands of them would notice
one more write for each. As upstream, the nodes that are there already follow when they change next.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.nodes import Node

ANNOTATION: Final = "node.alpha.kubernetes.io/ttl"

#: Fewest and most nodes of a size of cluster, and the seconds; sizes overlap, lest one node more or less change all.
_SIZES: Final = (
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, 2**31 - 1, 300),
)


class Lifetimes(msgspec.Struct):
    """The size of the cluster, kept current by every change of a node."""

    _nodes: int = 0
    _size: int = 0

    def change(self, old: Node | None, new: Node | None) -> None:
        self._nodes += (new is not None) - (old is not None)
        fewest, most, _ = _SIZES[self._size]
        self._size += (self._nodes > most) - (self._nodes < fewest)

    def annotations(self, node: Node) -> dict[str, str]:
        """What the node does not say yet."""
        seconds = str(_SIZES[self._size][2])
        return {} if node.metadata.annotations.get(ANNOTATION) == seconds else {ANNOTATION: seconds}
