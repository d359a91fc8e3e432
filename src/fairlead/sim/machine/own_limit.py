"""When a container exceeds its own memory limit, and what the kernel kills then (S0-64, S4-08 to S4-10).

Page cache counts against the limit as well, but the kernel drops it first, so it kills nobody. Where one process is
killed at a time (cgroup v1, or `singleProcessOOMKill`) a larger child dies alone, and the container lives on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.pods import Container, Pod
from fairlead.api.quantity import units
from fairlead.sim.usage.crossing import first_above
from fairlead.sim.usage.declarations import PodUsageModels
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.models import Constant, Sum, UsageModel

_NOTHING = Constant(0.0)


class LimitKills(NamedTuple):
    """Moments; None is never."""

    container_at: float | None = None
    child_at: float | None = None


def limit_kills(
    usage: PodUsageModels, container: str, limit: int, started_at: float, after: float, *, is_single: bool
) -> LimitKills:
    """What becomes of a container that started then and has had the limit since `after`, if nothing else ends it."""
    main = usage.model(container, Measure.MEMORY) or _NOTHING
    child = usage.model(container, Measure.CHILD_MEMORY)
    shared = usage.in_memory(container)
    at = first_above(_sum([main, *shared, *([child] if child else [])]), limit, started_at, after)
    if at is None or child is None or not is_single or child.at(at, started_at) < main.at(at, started_at):
        return LimitKills(at)
    return LimitKills(first_above(_sum([main, *shared]), limit, started_at, at), at)


def _sum(models: Sequence[UsageModel]) -> UsageModel:
    return models[0] if len(models) == 1 else Sum(tuple(models))


def memory_limit(pod: Pod, container: Container) -> int | None:
    """In bytes: of the container, or else of the pod as a whole (S0-56)."""
    limits = (container.resources or {}).get("limits") or {}
    if "memory" not in limits and pod.spec.raw_resources:
        limits = msgspec.json.decode(pod.spec.raw_resources).get("limits") or {}
    return units(limits["memory"]) if "memory" in limits else None
