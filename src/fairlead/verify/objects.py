"""Which objects a workload may have, in the order in which they are made, and how they come into a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead.api.builtin import CONFIG_MAPS, LIMIT_RANGES, NAMESPACES, PODS, PRIORITY_CLASSES, RESOURCE_QUOTAS, SECRETS
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api
from fairlead.sim.usage.objects import USAGE_PROFILES

POD: Final = "Pod"
#: Its definition comes with simulated nodes; a real machine has no use for it.
USAGE_PROFILE: Final = "UsageProfile"
KINDS: Final[Mapping[str, Resource]] = {
    "Namespace": NAMESPACES,
    "PriorityClass": PRIORITY_CLASSES,
    "LimitRange": LIMIT_RANGES,
    "ResourceQuota": RESOURCE_QUOTAS,
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
    USAGE_PROFILE: USAGE_PROFILES,
    POD: PODS,
}


async def create_all(api: Api, objects: Sequence[Obj]) -> None:
    """ApiError for what the server refuses."""
    for obj in objects:
        resource = KINDS[obj["kind"]]
        await api.create(resource, obj, namespace_of(obj) if resource.namespaced else "")


def namespace_of(obj: Obj) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "default")
