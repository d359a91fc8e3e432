"""How many pods each replica set of a deployment may have: arithmetic only.

pkg/controller/deployment/util and rolling.go. Surge is rounded up and unavailability down, so that a rollout can
always go on; while several sets live, a change of the deployment's size is shared in proportion to theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.workloads import Deployment, ReplicaSet, RollingUpdate
from fairlead.controllers.rounding import rounded_down, rounded_up
from fairlead.golang.numbers import known_int

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


class Sized(msgspec.Struct):
    """A replica set and the size that it has by now, which this turn may have changed."""

    set: ReplicaSet
    replicas: int

    @property
    def name(self) -> str:
        return self.set.metadata.name

    @property
    def available(self) -> int:
        return self.set.status.available_replicas

    @property
    def age_key(self) -> tuple[str, str]:
        return self.set.metadata.creation_timestamp, self.name


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def surge_and_unavailable(deployment: Deployment) -> tuple[int, int]:
    """How many pods more, and how many available ones less, a rollout may have; never both zero."""
    if not is_rolling(deployment):
        return 0, 0
    limits = deployment.spec.strategy.rolling_update or RollingUpdate(max_surge="25%", max_unavailable="25%")
    surge = rounded_up(limits.max_surge, deployment.spec.replicas)
    unavailable = rounded_down(limits.max_unavailable, deployment.spec.replicas)
    return (0, 1) if surge == unavailable == 0 else (surge, unavailable)


def max_replicas(deployment: Deployment) -> int:
    return deployment.spec.replicas + surge_and_unavailable(deployment)[0]


def min_available(deployment: Deployment) -> int:
    _, unavailable = surge_and_unavailable(deployment)
    return deployment.spec.replicas - min(unavailable, deployment.spec.replicas)


def total(sets: Sequence[Sized]) -> int:
    return sum(sized.replicas for sized in sets)


def new_set_size(deployment: Deployment, new_replicas: int, all_replicas: int) -> int:
    """How large the new set may be now, given what all sets have together."""
    if not is_rolling(deployment):
        return deployment.spec.replicas
    room = max_replicas(deployment) - all_replicas
    if room <= 0:
        return new_replicas
    return new_replicas + min(room, deployment.spec.replicas - new_replicas)


def is_saturated(deployment: Deployment, new: Sized | None) -> bool:
    """The new set is as large as the deployment, knows it, and all of it is available."""
    wanted = deployment.spec.replicas
    return new is not None and wanted == new.replicas == new.available == annotated(new.set, DESIRED)


def annotated(replica_set: ReplicaSet, annotation: str) -> int | None:
    """The number in an annotation, if there is one."""
    return known_int(replica_set.metadata.annotations.get(annotation, ""))


def is_resized(deployment: Deployment, sets: Sequence[Sized]) -> bool:
    """Whether the deployment's size was changed since some living set was last told of it."""
    wanted = (annotated(sized.set, DESIRED) for sized in sets if sized.replicas > 0)
    return any(desired is not None and desired != deployment.spec.replicas for desired in wanted)


def in_proportion(deployment: Deployment, active: Sequence[Sized]) -> list[tuple[Sized, int]]:
    """The new size of each living set when the deployment was resized in the middle of a rollout."""
    allowed = max_replicas(deployment) if deployment.spec.replicas > 0 else 0
    to_add = allowed - total(active)
    if to_add == 0 or not active:
        return [(sized, sized.replicas) for sized in active]
    # The largest set takes the leftovers: the newest of the largest to grow, the oldest to shrink.
    ordered = sorted(active, key=lambda sized: sized.age_key, reverse=to_add > 0)
    ordered.sort(key=lambda sized: -sized.replicas)
    added, sizes = 0, []
    for sized in ordered:
        share = _share(deployment, sized, to_add, added)
        sizes.append(sized.replicas + share)
        added += share
    sizes[0] = max(sizes[0] + to_add - added, 0)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: Deployment, sized: Sized, to_add: int, added: int) -> int:
    """What this set gets of the replicas to add (or, negative, to remove)."""
    if sized.replicas == 0 or to_add == added:
        return 0
    fraction = _fraction(deployment, sized)
    left = to_add - added
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _fraction(deployment: Deployment, sized: Sized) -> int:
    if deployment.spec.replicas == 0:
        return -sized.replicas
    before = annotated(sized.set, MAXIMUM) or deployment.status.replicas
    if before == 0:
        return 0
    return int(sized.replicas * max_replicas(deployment) / before + 0.5) - sized.replicas
