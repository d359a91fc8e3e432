"""One workload, both ways."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fairlead.verify.comparison import Comparison, compare, longer
from fairlead.verify.happenings import Course
from fairlead.verify.nested import nested
from fairlead.verify.player import player
from fairlead.verify.prediction import predict
from fairlead.verify.reality import happen
from fairlead.verify.workload import Workload


class Verified(msgspec.Struct, frozen=True):
    workload: str
    comparison: Comparison
    predicted: Course
    real: Course


def verify(workload: Workload, folder: Path, images: Path) -> Verified:
    """Works in `folder`, which is this command's own; `images` is the root of the machine's image store."""
    program = player(folder.parent / f"{folder.name}-player")
    seconds = longer(workload.size.seconds)
    with nested(folder, workload.size) as machine:
        prediction = predict(workload, machine, seconds)
        real = happen(workload, machine, prediction.plans, seconds, images, program)
    comparison = compare(prediction.course, real, workload.size.seconds, prediction.with_cpu)
    return Verified(workload.name, comparison, prediction.course, real)
