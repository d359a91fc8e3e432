"""Usage profiles: what many pods use, said once. A profile selects pods of its namespace by their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.pods import Pod
from fairlead.api.selectors import Selector
from fairlead.caches import LruCache
from fairlead.sim.usage.declarations import PodUsageModels
from fairlead.sim.usage.images import repository
from fairlead.sim.usage.models import Series

#: How many templates a profile remembers.
_TEMPLATES: Final = 256


class Profile(msgspec.Struct, frozen=True, eq=False):
    """One version of a UsageProfile."""

    namespace: str
    name: str
    selector: Selector
    #: The containers that it is about; none means all of them.
    containers: frozenset[str] = frozenset()
    #: Or those of these images, of pods that have one.
    images: frozenset[str] = frozenset()
    #: By name of a measure: the text of a model.
    usage: Mapping[str, str] = msgspec.field(default_factory=dict)
    traces: Mapping[str, Series] = msgspec.field(default_factory=dict)
    #: What was worked out for templates of pods: goes with the profile, whose traces may be large.
    templates: LruCache[bytes, PodUsageModels] = msgspec.field(default_factory=lambda: LruCache(_TEMPLATES))


def _has_image(pod: Pod, images: frozenset[str]) -> bool:
    """Hardly any profile is about images, and hardly any pod has theirs: most need not be decoded for that."""
    if not images:
        return True
    spec = pod.spec
    written = bytes(spec.raw_containers) + bytes(spec.raw_init_containers)
    if not any(image.encode() in written for image in images):
        return False
    return any(repository(container.image) in images for container in (*spec.containers, *spec.init_containers))


class Profiles:
    """The profiles of a cluster. Of several that select a pod, the first by name counts."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Profile]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def put(self, profile: Profile) -> None:
        self._by_namespace.setdefault(profile.namespace, {})[profile.name] = profile

    def remove(self, namespace: str, name: str) -> None:
        profiles = self._by_namespace.get(namespace, {})
        profiles.pop(name, None)
        if not profiles:
            self._by_namespace.pop(namespace, None)

    def select(self, pod: Pod) -> Profile | None:
        labels = pod.metadata.labels
        profiles = self._by_namespace.get(pod.metadata.namespace, {}).values()
        selected = (it for it in profiles if it.selector.matches(labels) and _has_image(pod, it.images))
        return min(selected, key=lambda profile: profile.name, default=None)
