"""From the usage that a pod declares to what the player plays: amounts at moments, and not what comes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.pods import Container, Pod
from fairlead.sim.behaviour import behaviour_of
from fairlead.sim.usage.declarations import PodUsageModels
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.models import Capped, Constant, Noise, UsageModel, Wave

#: Where a played container may write.
FOLDER: Final = "/played"
#: How finely a model is read.
STEP_SECONDS: Final = 0.1
_WORDS: Final = {
    Measure.CPU: "cpu",
    Measure.MEMORY: "memory",
    Measure.CHILD_MEMORY: "child",
    Measure.ACTIVE_FILE: "active",
    Measure.INACTIVE_FILE: "inactive",
    Measure.ROOTFS: "file",
    Measure.LOGS: "logs",
    Measure.INODES: "inodes",
    Measure.PIDS: "pids",
}


class Stretch(NamedTuple):
    """The virtual time that is played."""

    begins: float
    seconds: float


class Played(NamedTuple):
    """What one container does; the moment of the real clock at which it begins is not known yet."""

    lines: tuple[str, ...]
    pull_error: str = ""

    def text(self, origin: float) -> str:
        return "\n".join((f"origin {origin!r}", *self.lines)) + "\n"


def plan(pod: Pod, container: Container, usage: PodUsageModels, stretch: Stretch, *, is_init: bool) -> Played:
    """The plan of one container, of which player.c has the grammar."""
    behaviour = behaviour_of(pod, container, is_init=is_init)
    lines = [f"stop {behaviour.stop} {behaviour.stop_exit_code & 0xFF}"]
    if behaviour.lifetime is not None:
        lines.append(f"end {behaviour.lifetime} {behaviour.exit_code & 0xFF}")
    for measure, word in _WORDS.items():
        if (model := usage.model(container.name, measure)) is not None:
            lines.append(_line(word, FOLDER, model, stretch))
    lines += _volumes(pod, container, usage, stretch)
    return Played(tuple(lines), behaviour.pull_error)


def _volumes(pod: Pod, container: Container, usage: PodUsageModels, stretch: Stretch) -> Iterator[str]:
    """Each is filled by one container: the one whose memory it counts as, where it is memory.

    What would be too much is tried: that it is refused is for the kernel to say.
    """
    paths = {mount["name"]: mount["mountPath"] for mount in _mounts(pod, container)}
    for name, declaration in usage.volumes.items():
        if declaration.container == container.name and name in paths:
            model = declaration.model
            yield _line("file", paths[name], model.model if isinstance(model, Capped) else model, stretch)


def _mounts(pod: Pod, container: Container) -> list[Obj]:
    for raw in (pod.spec.raw_containers, pod.spec.raw_init_containers):
        for found in (msgspec.json.decode(raw) or []) if raw else []:
            if found["name"] == container.name:
                return list(found.get("volumeMounts") or ())
    return []


def _line(word: str, folder: str, model: UsageModel, stretch: Stretch) -> str:
    """Waves and noise go by the clock, everything else by the age of the container."""
    is_by_clock = isinstance(model, Wave | Noise)
    rows = " ".join(f"{at:.1f} {amount:.3f}" for at, amount in _rows(model, stretch))
    return f"{'clock' if is_by_clock else 'age'} {word} {folder} {rows}"


def _rows(model: UsageModel, stretch: Stretch) -> Iterator[tuple[float, float]]:
    """Those at which the amount is another than before."""
    last: float | None = None
    steps = 1 if isinstance(model, Constant) else int(stretch.seconds / STEP_SECONDS) + 1
    for step in range(steps):
        at = step * STEP_SECONDS
        amount = model.at(stretch.begins + at, stretch.begins)
        if amount != last:
            yield at, amount
        last = amount
