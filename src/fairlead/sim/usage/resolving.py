"""Which declaration counts, of all that may be there for a container and a measure: the nearest that makes sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.pods import Container, Pod
from fairlead.api.quantity import QuantityError, parse
from fairlead.node.status import is_sidecar
from fairlead.node.volume_media import Medium, medium_of
from fairlead.sim.usage.declarations import Declaration, VolumeDeclaration
from fairlead.sim.usage.expressions import Scale, parse_usage
from fairlead.sim.usage.images import IMAGES, repository
from fairlead.sim.usage.measures import VOLUME, Measure, NodeMeasure, Unit
from fairlead.sim.usage.models import Capped, Constant, UsageModel
from fairlead.sim.usage.profiles import Profile

#: Annotations of ours begin with this, or with `CONTAINER.` and this.
PREFIX: Final = "sim.fairlead.dev/usage-"
#: KWOK's, for all containers of the pod.
KWOK_PREFIX: Final = "kwok.x-k8s.io/usage-"
_KWOK_MEASURES: Final = (Measure.CPU, Measure.MEMORY)

#: What a container uses of which nothing is declared: a share of its request, or else a little.
DEFAULT_SHARE: Final = "50%"
DEFAULTS: Final[Mapping[Measure, str]] = {Measure.CPU: "1m", Measure.MEMORY: "8Mi", Measure.PIDS: "1"}
#: The resource whose request and limit percentages refer to.
_RESOURCES: Final[Mapping[Measure, str]] = {
    Measure.CPU: "cpu",
    **dict.fromkeys((Measure.MEMORY, Measure.CHILD_MEMORY, Measure.ACTIVE_FILE, Measure.INACTIVE_FILE), "memory"),
    **dict.fromkeys((Measure.ROOTFS, Measure.LOGS), "ephemeral-storage"),
}

#: The source of what nobody declared.
DEFAULT: Final = "default"

_Candidate = tuple[str, str]  # a source and a text
_Name = TypeVar("_Name", Measure, NodeMeasure)


class Resolver:
    """Finds for each measure the first declaration that makes sense, and keeps what is wrong with those before it."""

    def __init__(self, pod: Pod, annotations: Mapping[str, str], profile: Profile | None) -> None:
        self._annotations = annotations
        self._profile = profile
        self._traces = profile.traces if profile else {}
        resources = pod.spec.raw_resources
        self._pod_resources: Mapping[str, Any] = msgspec.json.decode(resources) if resources else {}
        names = [container.name for container in (*pod.spec.init_containers, *pod.spec.containers)]
        self._known_prefixes = ("", *(f"{name}." for name in names))
        self._problems: dict[str, None] = {}  # a problem of all containers is one problem

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(self._problems)

    def unknown(self) -> Iterator[str]:
        """Annotations that name no measure, or no container."""
        for key in self._annotations:
            if key.startswith(KWOK_PREFIX):
                continue
            prefix, _, name = key.partition(PREFIX)
            if prefix not in self._known_prefixes:
                yield f"annotation {key}: the pod has no container {prefix.removesuffix('.')!r}"
            elif not name.startswith(VOLUME):
                try:
                    measure_named(Measure, name)
                except ValueError as error:
                    yield f"annotation {key}: {error}"

    def container(self, container: Container, *, is_init: bool) -> dict[Measure, Declaration]:
        is_named_only = is_init and not is_sidecar(container)
        found = {}
        for measure in Measure:
            scale = self._scale(container, measure)
            candidates = self._candidates(container, measure, is_named_only=is_named_only)
            declaration = self._first(candidates, measure.unit, scale) or _default(container, measure)
            if declaration is not None:
                found[measure] = declaration
        return found

    def volumes(self, pod: Pod) -> dict[str, VolumeDeclaration]:
        """What is kept in volumes; not by container, since they share them."""
        texts: dict[str, list[_Candidate]] = {}
        for key, text in self._annotations.items():
            if key.startswith(PREFIX + VOLUME):
                name = key.removeprefix(PREFIX + VOLUME)
                texts.setdefault(name, []).append((f"annotation {key}", text))
        if self._profile:
            for measure, text in self._profile.usage.items():
                if measure.startswith(VOLUME):
                    name = measure.removeprefix(VOLUME)
                    texts.setdefault(name, []).append((_source(self._profile), text))
        if not texts:
            return {}
        known = {volume["name"]: volume for volume in _decoded(pod.spec.raw_volumes)}
        users = _users(pod)
        found = {}
        for name, candidates in texts.items():
            if name not in known:
                for source, _ in candidates:
                    self._problems[f"{source}: the pod has no volume {name!r}"] = None
            elif declared := self._first(candidates, Unit.BYTES, Scale()):
                medium, container = medium_of(known[name]), users.get(name, pod.spec.containers[0].name)
                model = declared.model if medium is not Medium.MEMORY else _within(declared.model, known[name])
                found[name] = VolumeDeclaration(
                    model, declared.text, declared.source, medium=medium, container=container
                )
        return found

    def _candidates(self, container: Container, measure: Measure, *, is_named_only: bool) -> Iterator[_Candidate]:
        keys = [f"{container.name}.{PREFIX}{measure}"]
        if not is_named_only:
            keys.append(f"{PREFIX}{measure}")
            if measure in _KWOK_MEASURES:
                keys.append(f"{KWOK_PREFIX}{measure}")
        for key in keys:
            if (text := self._annotations.get(key)) is not None:
                yield f"annotation {key}", text
        profile, image = self._profile, repository(container.image)
        is_concerned = profile and (
            image in profile.images
            if profile.images
            else container.name in profile.containers or not (profile.containers or is_named_only)
        )
        if profile and is_concerned and (text := profile.usage.get(measure)) is not None:
            yield _source(profile), text
        if (text := IMAGES.get(image, {}).get(measure)) is not None:
            yield f"image {image}", text

    def _first(
        self, candidates: Iterator[_Candidate] | Sequence[_Candidate], unit: Unit, scale: Scale
    ) -> Declaration | None:
        for source, text in candidates:
            try:
                return Declaration(parse_usage(text, unit, scale, self._traces), text, source)
            except ValueError as error:
                self._problems[f"{source}: {error}"] = None
        return None

    def _scale(self, container: Container, measure: Measure) -> Scale:
        resource = _RESOURCES.get(measure)
        if resource is None:
            return Scale()
        return Scale(self._bound(container, "requests", resource), self._bound(container, "limits", resource))

    def _bound(self, container: Container, kind: str, resource: str) -> float | None:
        """The container's own request or limit, or else that of the pod as a whole."""
        own = _amount_of(container.resources, kind, resource)
        return _amount_of(self._pod_resources, kind, resource) if own is None else own


def _amount_of(resources: Mapping[str, Any] | None, kind: str, resource: str) -> float | None:
    text = ((resources or {}).get(kind) or {}).get(resource)
    try:
        return None if text is None else parse(text).nanos / 10**9
    except QuantityError:
        return None


def _default(container: Container, measure: Measure) -> Declaration | None:
    text = DEFAULTS.get(measure)
    if text is None:
        return None
    request = _amount_of(container.resources, "requests", _RESOURCES.get(measure, ""))
    if request:
        text = DEFAULT_SHARE
    try:
        return Declaration(parse_usage(text, measure.unit, Scale(request)), text, DEFAULT)
    except ValueError:  # half of what no node has
        return None


def _users(pod: Pod) -> dict[str, str]:
    """By volume, the first container that mounts it: the kernel charges memory to whoever writes first."""
    containers = [*_decoded(pod.spec.raw_containers), *_decoded(pod.spec.raw_init_containers)]
    found: dict[str, str] = {}
    for container in containers:
        for mount in container.get("volumeMounts") or ():
            found.setdefault(mount["name"], container["name"])
    return found


def _within(model: UsageModel, volume: Obj) -> UsageModel:
    """What a volume in memory can hold: more is refused to whoever writes, so that no pod is evicted for it."""
    size = (volume.get("emptyDir") or {}).get("sizeLimit")
    most = parse(size).units if size else 0
    if not most:
        return model
    return Constant(min(model.amount, most)) if isinstance(model, Constant) else Capped(model, most)


def _decoded(raw: msgspec.Raw) -> list[Obj]:
    return (msgspec.json.decode(raw) or []) if raw else []


def _source(profile: Profile) -> str:
    return f"UsageProfile {profile.name}"


def measure_named(names: type[_Name], text: str) -> _Name:
    try:
        return names(text)
    except ValueError:
        raise ValueError(f"there is no measure {text!r}: there are {', '.join(names)}") from None
