"""A node whose cpu and memory fill up evenly wastes neither (NodeResourcesBalancedAllocation).

The score is 50 plus half of (50 plus the balance after minus the balance before), about 75 where the pod makes no
difference. A pod without requests is not scored, or many would gather on one node (kubernetes issue 129138).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairlead.scheduler.columns import Ints, Rows
from fairlead.scheduler.framework import MAX_NODE_SCORE, Plugin, Reads
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot

HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    reads = Reads.NODE | Reads.PODS

    def scores(self, shape: Shape) -> bool:
        return "cpu" in shape.requests or "memory" in shape.requests

    def score(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Ints:
        cpu = snapshot.allocatable["cpu"][rows], snapshot.requested["cpu"][rows]
        memory = snapshot.allocatable["memory"][rows], snapshot.requested["memory"][rows]
        has_both = (cpu[0] > 0) & (memory[0] > 0)
        before = _balance(_fraction(*cpu), _fraction(*memory), has_both)
        after = _balance(
            _fraction(cpu[0], cpu[1] + shape.requests.get("cpu", 0)),
            _fraction(memory[0], memory[1] + shape.requests.get("memory", 0)),
            has_both,
        )
        return HALF + (HALF + after - before) // 2


def _fraction(allocatable: Ints, requested: Ints) -> npt.NDArray[np.float64]:
    return np.minimum(requested / np.maximum(allocatable, 1), 1.0)


def _balance(cpu: npt.NDArray[np.float64], memory: npt.NDArray[np.float64], has_both: npt.NDArray[np.bool_]) -> Ints:
    """100 minus the deviation in percent: the rounding is that of upstream's float64 arithmetic."""
    deviation = np.where(has_both, np.abs((cpu - memory) / 2), 0.0)
    return ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
