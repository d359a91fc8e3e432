"""What a pod or a node uses, as annotations, profiles and images declare it. See docs/usage.md for the order.

Nearly all pods declare nothing and share their templates, so what was worked out for a template is kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.caches import LruCache
from fairlead.sim.machine.hardware import hardware_of
from fairlead.sim.usage.declarations import Declaration, NodeUsageModels, PodUsageModels
from fairlead.sim.usage.expressions import Scale, parse_usage
from fairlead.sim.usage.images import IMAGES
from fairlead.sim.usage.measures import VOLUME, NodeMeasure
from fairlead.sim.usage.models import Noise, UsageModel
from fairlead.sim.usage.node_bounds import node_bounds
from fairlead.sim.usage.profiles import Profile, Profiles
from fairlead.sim.usage.resolving import DEFAULT, KWOK_PREFIX, PREFIX, Resolver, measure_named

#: The reason of events about usage that makes no sense.
INVALID_USAGE: Final = "InvalidUsage"
_KNOWN_IMAGES: Final = tuple(image.encode() for image in IMAGES)
#: How many templates without a profile are remembered, and how long their decisive fields may be.
_TEMPLATES: Final[LruCache[bytes, PodUsageModels]] = LruCache(1024)
_LONGEST_TEMPLATE: Final = 16_384


_NO_NODE_USAGE: Final = NodeUsageModels({})
_Declared = TypeVar("_Declared", bound=Declaration)


def declares_usage(pod: Pod, profiles: Profiles | None = None) -> bool:
    """Whether anything but the default may apply to the pod. Asking costs next to nothing."""
    return bool(
        (pod.metadata.annotations and _annotations(pod.metadata.annotations))
        or any(image in bytes(pod.spec.raw_containers) for image in _KNOWN_IMAGES)
        or (profiles and profiles.select(pod) is not None)
    )


def pod_usage(pod: Pod, profiles: Profiles | None = None) -> PodUsageModels:
    """The models of the pod's containers and volumes."""
    profile = profiles.select(pod) if profiles else None
    annotations = _annotations(pod.metadata.annotations) if pod.metadata.annotations else {}
    spec = pod.spec
    parts = [spec.raw_containers, spec.raw_init_containers, spec.raw_resources]
    if any(VOLUME in name for name in (*annotations, *(profile.usage if profile else ()))):
        parts.append(spec.raw_volumes)  # which no two pods share: each has a token of its own
    key = b"\0".join((*map(bytes, parts), msgspec.json.encode(annotations)))  # JSON never contains the separator
    templates = profile.templates if profile else _TEMPLATES
    found = templates.get(key)
    if found is None:
        found = _resolved(pod, annotations, profile)
        if len(key) <= _LONGEST_TEMPLATE:
            templates.put(key, found)
    return _with_own_noise(found, pod.metadata.uid) if found.is_declared else found


def node_usage(node: Node) -> NodeUsageModels:
    """The models of what the node uses outside its pods, by its annotations."""
    problems: list[str] = []
    found: dict[NodeMeasure, Declaration] = {}
    bounds = node_bounds(hardware_of(node)) if node.metadata.annotations else {}
    for key, text in _annotations(node.metadata.annotations).items() if node.metadata.annotations else ():
        name = key.removeprefix(PREFIX)
        try:
            measure = measure_named(NodeMeasure, name)
            model = _seeded(
                parse_usage(text, measure.unit, Scale(most=bounds.get(measure))), f"{node.metadata.name}/{measure}"
            )
            found[measure] = Declaration(model, text, f"annotation {key}")
        except ValueError as error:
            problems.append(f"annotation {key}: {error}")
    return NodeUsageModels(found, tuple(problems)) if found or problems else _NO_NODE_USAGE


def _annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Those about usage."""
    return {key: annotations[key] for key in sorted(annotations) if PREFIX in key or key.startswith(KWOK_PREFIX)}


def _resolved(pod: Pod, annotations: Mapping[str, str], profile: Profile | None) -> PodUsageModels:
    resolver = Resolver(pod, annotations, profile)
    containers = {
        container.name: resolver.container(container, is_init=is_init)
        for group, is_init in ((pod.spec.init_containers, True), (pod.spec.containers, False))
        for container in group
    }
    volumes = resolver.volumes(pod)
    declarations = [*volumes.values(), *(part for parts in containers.values() for part in parts.values())]
    is_declared = bool(resolver.problems) or any(part.source != DEFAULT for part in declarations)
    return PodUsageModels(containers, volumes, is_declared, (*resolver.unknown(), *resolver.problems))


def _with_own_noise(usage: PodUsageModels, uid: str) -> PodUsageModels:
    """The same with noise of the pod's own, so that the pods of a template do not rise and fall together."""
    declarations = (*usage.volumes.values(), *(part for parts in usage.containers.values() for part in parts.values()))
    if not any(isinstance(declaration.model, Noise) for declaration in declarations):
        return usage
    containers = {
        name: {measure: _reseeded(part, f"{uid}/{name}/{measure}") for measure, part in parts.items()}
        for name, parts in usage.containers.items()
    }
    volumes = {name: _reseeded(part, f"{uid}//{VOLUME}{name}") for name, part in usage.volumes.items()}
    return PodUsageModels(containers, volumes, usage.is_declared, usage.problems)


def _reseeded(declaration: _Declared, identity: str) -> _Declared:
    return msgspec.structs.replace(declaration, model=_seeded(declaration.model, identity))


def _seeded(model: UsageModel, identity: str) -> UsageModel:
    return msgspec.structs.replace(model, seed=zlib.crc32(identity.encode())) if isinstance(model, Noise) else model
