"""How many pods their owners want: what a percentage in a budget is a percentage of.

A Deployment stands for its replica sets, so that a rollout does not count twice. Any other owner, a custom resource for
instance, is asked through its `scale`. Source: the finders of pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeAlias

import msgspec

from fairlead.api import builtin
from fairlead.api.autoscaling import Scale
from fairlead.api.errors import NotFound
from fairlead.api.meta import OwnerReference
from fairlead.api.pods import Pod
from fairlead.controllers.actions import Action, Kind, Read
from fairlead.controllers.base import World
from fairlead.controllers.dynamic_informers import resource_of
from fairlead.controllers.kinds import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS

#: The owner that counts, by uid, and how many pods it wants.
Wanted: TypeAlias = tuple[str, int]


class Uncountable(Exception):
    """The number of expected pods cannot be told; the text is the event's."""


class Expected(msgspec.Struct, frozen=True):
    """The sum of all owners, and whether there were pods without any."""

    pods: int
    has_unmanaged: bool


def expected_scale(pods: Iterable[Pod], world: World) -> Generator[Action, Any, Expected]:
    """What the owners of these pods want together."""
    scales: dict[str, int] = {}
    has_unmanaged = False
    for pod in pods:
        owner = pod.metadata.controller
        if owner is None:
            has_unmanaged = True
        elif owner.uid not in scales:
            wanted = _known(owner, pod.metadata.namespace, world)
            if wanted is None:
                wanted = yield from _asked(owner, pod, world)
            scales[wanted[0]] = wanted[1]
    return Expected(sum(scales.values()), has_unmanaged)


def _known(owner: OwnerReference, namespace: str, world: World) -> Wanted | None:
    key = f"{namespace}/{owner.name}"
    kind = _KINDS.get((owner.api_version.rpartition("/")[0], owner.kind))
    found: Any = world.get(kind, key) if kind is not None else None
    if found is None or found.metadata.uid != owner.uid:
        return None
    above = found.metadata.controller
    if kind is REPLICA_SETS and above is not None and above.kind == builtin.DEPLOYMENTS.kind:
        found = world.get(DEPLOYMENTS, f"{namespace}/{above.name}")
        if found is None or found.metadata.uid != above.uid:
            return None
    return found.metadata.uid, found.spec.replicas


_KINDS: dict[tuple[str, str], Kind[Any]] = {
    (kind.resource.group, kind.resource.kind): kind for kind in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
}


def _asked(owner: OwnerReference, pod: Pod, world: World) -> Generator[Action, Any, Wanted]:
    resource = resource_of(world, owner.api_version, owner.kind)
    if resource is None:
        raise Uncountable(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
    if "scale" not in resource.subresources:
        raise Uncountable(f"{resource.qualified} does not implement the scale subresource")
    try:
        scale: Scale = yield Read(Kind(resource, Scale), owner.name, pod.metadata.namespace, "scale")
    except NotFound:
        raise Uncountable(f'found no controllers for pod "{pod.metadata.name}"') from None
    if scale.metadata.uid != owner.uid:
        raise Uncountable(f'found no controllers for pod "{pod.metadata.name}"')
    return scale.metadata.uid, scale.spec.replicas
