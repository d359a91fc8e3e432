"""A node that has a pod's images already starts it sooner (ImageLocality).

An image counts by its size times the share of nodes that have it, so that a rare image does not draw every pod to one
node.
"""

from __future__ import annotations

import numpy as np

from fairlead.scheduler.columns import Ints, Rows
from fairlead.scheduler.framework import MAX_NODE_SCORE, Plugin, Reads
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot

_MIB = 1024 * 1024
#: Together smaller than this, images do not matter; larger than this per container, they matter fully.
MIN_BYTES = 23 * _MIB
MAX_BYTES_PER_CONTAINER = 1000 * _MIB


class ImageLocality(Plugin):
    name = "ImageLocality"
    reads = Reads.CLUSTER

    def scores(self, requirements: PodRequirements) -> bool:
        return True

    def score(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Ints:
        total = np.zeros(snapshot.size, dtype=np.int64)
        for name in requirements.images:
            state = snapshot.images.get(name)
            if state is not None:
                total[list(state.rows)] += int(float(state.size_bytes) * (len(state.rows) / snapshot.count))
        most = MAX_BYTES_PER_CONTAINER * requirements.container_count
        return MAX_NODE_SCORE * (np.clip(total[rows], MIN_BYTES, most) - MIN_BYTES) // (most - MIN_BYTES)
