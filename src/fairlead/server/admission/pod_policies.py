"""Three policies about pods that are off by default.

Sources: plugin/pkg/admission/{alwayspullimages,antiaffinity,extendedresourcetoleration}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead.api.errors import Cause, Forbidden, Unknown
from fairlead.api.fields import Errors, aggregated
from fairlead.api.objects import Obj, name_of
from fairlead.api.taints import NO_SCHEDULE
from fairlead.kinds.podspec.visiting import each_container, each_with_path
from fairlead.kinds.resource_names import is_extended
from fairlead.server.admission.base import AdmissionPlugin, Attributes

_PODS: Final = frozenset({"pods"})
_ALWAYS: Final = "Always"
_HOSTNAME: Final = "kubernetes.io/hostname"


class AlwaysPullImages(AdmissionPlugin):
    """Images are always pulled, so that a private one is used by those alone who can pull it."""

    name = "AlwaysPullImages"
    resources = _PODS

    async def admit(self, attributes: Attributes) -> None:
        if _has_new_images(attributes):
            for holder, field, _ in _pulls(attributes.spec):
                holder[field] = _ALWAYS

    async def validate(self, attributes: Attributes) -> None:
        """Nobody has undone it since."""
        if not _has_new_images(attributes):
            return
        errors = Errors()
        for holder, field, path in _pulls(attributes.spec):
            if (policy := holder.get(field, "")) != _ALWAYS:
                errors.not_supported(path, policy, [_ALWAYS])
        if errors:
            refusals = [attributes.forbidden(f"{error.field}: {error.message}").message for error in errors]
            raise Unknown(aggregated(Cause("", text) for text in refusals))


class ExtendedResourceToleration(AdmissionPlugin):
    """A pod that asks for a device tolerates the taint of the nodes that have it, which keeps all others off them."""

    name = "ExtendedResourceToleration"
    resources = _PODS

    async def admit(self, attributes: Attributes) -> None:
        spec = attributes.spec
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        asked = {name for container in containers for name in (container.get("resources") or {}).get("requests") or ()}
        present = spec.get("tolerations") or []
        tolerated = {found.get("key") for found in present if _tolerates_device(found)}
        if missing := [name for name in sorted(asked - tolerated) if is_extended(name)]:
            added = ({"key": name, "operator": "Exists", "effect": NO_SCHEDULE} for name in missing)
            spec["tolerations"] = [*present, *added]


class LimitPodHardAntiAffinityTopology(AdmissionPlugin):
    """Nobody keeps others off a whole zone: required anti-affinity is about single nodes alone."""

    name = "LimitPodHardAntiAffinityTopology"
    resources = _PODS

    async def validate(self, attributes: Attributes) -> None:
        anti_affinity = (attributes.spec.get("affinity") or {}).get("podAntiAffinity") or {}
        for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            if (key := term.get("topologyKey", "")) != _HOSTNAME:
                why = (
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                    f"but only key {_HOSTNAME} is allowed"
                )
                raise Forbidden.of("pods", name_of(attributes.obj), why)


def _tolerates_device(toleration: Obj) -> bool:
    return toleration.get("operator") == "Exists" and toleration.get("effect") == NO_SCHEDULE


def _has_new_images(attributes: Attributes) -> bool:
    """A pod that exists may keep images that were there before the policy was."""
    return attributes.old is None or not _images(attributes.spec) <= _images(attributes.old.get("spec") or {})


def _images(spec: Obj) -> set[str]:
    volumes = (volume["image"].get("reference", "") for volume in spec.get("volumes") or () if "image" in volume)
    return {*(container.get("image", "") for container in each_container(spec)), *volumes}


def _pulls(spec: Obj) -> Iterator[tuple[Obj, str, str]]:
    """Whatever pulls an image: what holds its policy, in which field, and the path of that."""
    for container, path in each_with_path(spec, "spec"):
        yield container, "imagePullPolicy", f"{path}.imagePullPolicy"
    for index, volume in enumerate(spec.get("volumes") or ()):
        if "image" in volume:
            yield volume["image"], "pullPolicy", f"spec.volumes[{index}].image.pullPolicy"
