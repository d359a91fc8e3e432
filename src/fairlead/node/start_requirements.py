"""What a container needs before it can start (ConfigMaps, Secrets, images), and the messages when it is missing.

A missing volume holds up the whole pod, a missing image or variable one container. Sources: makeEnvironmentVariables of
pkg/kubelet/kubelet_pods.go, pkg/volume/{configmap,secret,projected}, pkg/kubelet/images/image_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from fairlead.api.configmaps import ROOT_CERTIFICATES
from fairlead.api.encoded import key_start_bytes
from fairlead.api.meta import View
from fairlead.api.pods import Pod
from fairlead.node.container_runtime import WantedImage

#: Every spec that refers to a ConfigMap or Secret contains one of these; most specs contain none.
_MARKS: Final = (key_start_bytes("configMap"), key_start_bytes("secret"))
_IMAGE: Final = key_start_bytes("image")

#: How CRI lets a runtime begin the error of a pull, and what a kubelet says then.
_PULL_REFUSALS: Final = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


class ConfigSource(msgspec.Struct, frozen=True):
    """A ConfigMap or a Secret of the pod's namespace."""

    kind: str
    name: str

    @property
    def not_found(self) -> str:
        return f'{self.kind.lower()} "{self.name}" not found'


#: The keys of each source; None for one that does not exist.
Found = Mapping[ConfigSource, frozenset[str] | None]
NOTHING: Found = {}


class Need(NamedTuple):
    """What is needed of a source: these keys, or without keys all of it."""

    source: ConfigSource
    keys: tuple[str, ...] = ()
    is_optional: bool = False


class Needs(NamedTuple):
    """What a pod needs to start, by volume name and by container name."""

    volumes: tuple[tuple[str, Need], ...] = ()
    environments: Mapping[str, tuple[Need, ...]] = MappingProxyType({})
    sources: frozenset[ConfigSource] = frozenset()
    #: Of the volumes that are images, by name.
    images: Mapping[str, WantedImage] = MappingProxyType({})

    def keys_of(self, source: ConfigSource) -> frozenset[str]:
        """The keys that are asked of a source."""
        needs = [need for _, need in self.volumes] + [need for part in self.environments.values() for need in part]
        return frozenset(key for need in needs if need.source == source for key in need.keys)


_NONE: Final = Needs()


class _Ref(View):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class _EnvFrom(View):
    config_map_ref: _Ref | None = None
    secret_ref: _Ref | None = None


class _ValueFrom(View):
    config_map_key_ref: _Ref | None = None
    secret_key_ref: _Ref | None = None


class _Env(View):
    value: str | None = None
    value_from: _ValueFrom | None = None


class _Environment(View):
    name: str = ""
    env_from: tuple[_EnvFrom, ...] | None = None
    env: tuple[_Env, ...] | None = None


class _Item(View):
    key: str = ""


class _Projection(View):
    name: str = ""
    secret_name: str = ""
    items: tuple[_Item, ...] | None = None
    optional: bool | None = None

    def need(self, kind: str) -> Need:
        keys = tuple(item.key for item in self.items or ())
        return Need(ConfigSource(kind, self.name or self.secret_name), keys, bool(self.optional))


class _Mounted(View):
    """The content of a volume, or one source of a projected volume."""

    config_map: _Projection | None = None
    secret: _Projection | None = None

    def needs(self) -> Iterator[Need]:
        if self.config_map is not None and self.config_map.name != ROOT_CERTIFICATES:  # pods do not wait for this one
            yield self.config_map.need("ConfigMap")
        if self.secret is not None:
            yield self.secret.need("Secret")


class _Projected(View):
    sources: tuple[_Mounted, ...] | None = None


class _ImageSource(View):
    reference: str = ""
    pull_policy: str = ""


class _Volume(_Mounted):
    name: str = ""
    projected: _Projected | None = None
    image: _ImageSource | None = None


class _VolumeMount(View):
    name: str = ""


class _Mounting(View):
    """A container, as far as it has volumes."""

    name: str = ""
    volume_mounts: tuple[_VolumeMount, ...] | None = None


_mounting = msgspec.json.Decoder(tuple[_Mounting, ...]).decode
_environments = msgspec.json.Decoder(tuple[_Environment, ...]).decode
_volumes = msgspec.json.Decoder(tuple[_Volume, ...]).decode


def _refers(raw: msgspec.Raw) -> bool:
    text = bytes(raw)
    return any(mark in text for mark in _MARKS)


def needs_of(pod: Pod) -> Needs:
    """What the pod refers to. It does not change: volumes and environments are immutable."""
    spec = pod.spec
    volumes = _volume_needs(spec.raw_volumes) if _refers(spec.raw_volumes) else ()
    images = _image_volumes(spec.raw_volumes) if _IMAGE in bytes(spec.raw_volumes) else {}
    parts = [raw for raw in (spec.raw_init_containers, spec.raw_containers) if _refers(raw)]
    if not volumes and not parts and not images:
        return _NONE
    environments = {container.name: tuple(_needs_of(container)) for raw in parts for container in _environments(raw)}
    needs = [need for _, need in volumes] + [need for part in environments.values() for need in part]
    return Needs(volumes, environments, frozenset(need.source for need in needs), images)


def images_mounted(pod: Pod, needs: Needs, container: str) -> Iterator[WantedImage]:
    """Those that the container has as volumes."""
    if not needs.images:
        return
    spec = pod.spec
    every = (spec.raw_init_containers, spec.raw_containers, spec.raw_ephemeral_containers)
    for found in (each for raw in every if raw for each in _mounting(raw) if each.name == container):
        names = {mount.name for mount in found.volume_mounts or ()}
        yield from (wanted for name, wanted in needs.images.items() if name in names)


def _image_volumes(raw: msgspec.Raw) -> dict[str, WantedImage]:
    return {
        volume.name: WantedImage(
            f"volume {volume.name}", volume.image.reference, volume.image.pull_policy or "IfNotPresent"
        )
        for volume in _volumes(raw)
        if volume.image is not None
    }


def _volume_needs(raw: msgspec.Raw) -> tuple[tuple[str, Need], ...]:
    needs = []
    for volume in _volumes(raw):
        parts: tuple[_Mounted, ...] = (volume.projected.sources or ()) if volume.projected else (volume,)
        needs += [(volume.name, need) for part in parts for need in part.needs()]
    return tuple(needs)


def _needs_of(container: _Environment) -> Iterator[Need]:
    for whole in container.env_from or ():
        for kind, ref in (("ConfigMap", whole.config_map_ref), ("Secret", whole.secret_ref)):
            if ref is not None:
                yield Need(ConfigSource(kind, ref.name), (), bool(ref.optional))
    for variable in container.env or ():
        if variable.value or variable.value_from is None:
            continue
        origin = variable.value_from
        for kind, ref in (("ConfigMap", origin.config_map_key_ref), ("Secret", origin.secret_key_ref)):
            if ref is not None:
                yield Need(ConfigSource(kind, ref.name), (ref.key,), bool(ref.optional))


def environment_problem(needs: Iterable[Need], namespace: str, found: Found) -> str:
    """Why the environment cannot be created, in the kubelet's words; empty if it can."""

    def missing(source: ConfigSource, key: str) -> str:
        return f"couldn't find key {key} in {source.kind} {namespace}/{source.name}"

    return next(_problems(needs, found, missing), "")


def volume_problem(needs: Iterable[tuple[str, Need]], found: Found) -> str:
    """Why a volume cannot be mounted, in the words of its event; empty if all can."""
    for name, need in needs:
        for problem in _problems([need], found, _missing_in_volume):
            return f'MountVolume.SetUp failed for volume "{name}" : {problem}'
    return ""


def claim_problem(volume: str, claim: str, why: str) -> str:
    """What is wrong with the claim (`namespace/name`) of a volume, as its event tells it."""
    return (
        f"Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], "
        f"failed to process volumes=[{volume}]: error processing PVC {claim}: {why}"
    )


def _missing_in_volume(source: ConfigSource, key: str) -> str:
    if source.kind == "ConfigMap":
        return f"configmap references non-existent config key: {key}"
    return f"references non-existent secret key: {key}"


def _problems(needs: Iterable[Need], found: Found, missing: Callable[[ConfigSource, str], str]) -> Iterator[str]:
    for need in needs:
        if need.is_optional:
            continue
        keys = found.get(need.source)
        if keys is None:
            yield need.source.not_found
            continue
        yield from (missing(need.source, key) for key in need.keys if key not in keys)


def not_found_at_registry(image: str) -> str:
    """containerd's error for an image that its registry does not have."""
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": '
        f'failed to resolve reference "{image}": {image}: not found'
    )


def pull_refusal(image: str, error: str) -> tuple[str, str]:
    """Reason and message of a failed pull: a runtime begins its error with the first word of two that CRI names."""
    for reason, why in _PULL_REFUSALS.items():
        if error.startswith(reason):
            return reason, f"image pull failed for {image} because {why}{error.removeprefix(reason)}"
    return "ErrImagePull", error


def back_off_pulling(image: str) -> str:
    return f'Back-off pulling image "{image}"'


def never_pulled(image: str) -> str:
    return f'Container image "{image}" is not present with pull policy of Never'
