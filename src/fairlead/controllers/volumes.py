"""Claims that come and go with pods: made for ephemeral volumes, kept while a pod uses them. Volumes, classes likewise.

pkg/controller/volume/ephemeral, pvcprotection, pvprotection and vacprotection. A claim that somebody deletes stays,
terminating, until the last pod that mounts it has gone; a volume until no claim has it; a class of attributes until no
claim or volume names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from fairlead.api.claims import AttributesClass, PersistentVolume, PersistentVolumeClaim
from fairlead.api.errors import ApiError
from fairlead.api.event_types import WARNING
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.pods import ABSENT, Pod, claim_of
from fairlead.controllers.actions import Actions, Create, Emit, Kind, with_finalizer, without_finalizer
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import controller_reference, is_controlled_by, owner_of
from fairlead.controllers.kinds import ATTRIBUTES_CLASSES, CLAIMS, PODS, VOLUMES

PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
ATTRIBUTES_CLASS_PROTECTION: Final = "kubernetes.io/vac-protection"

_decode = msgspec.json.Decoder(dict).decode


class EphemeralVolumes(Controller[Pod]):
    """Makes the claim of each ephemeral volume, owned by its pod."""

    name = "ephemeral_volume"
    account = "ephemeral-volume-controller"
    kind = PODS
    watches = (Watch(CLAIMS, owner_of(PODS)),)

    def concerns(self, old: Pod | None, new: Pod | None, world: World) -> bool:
        return new is not None and new.spec.may_have_ephemeral_volumes

    def reconcile(self, obj: Pod, world: World) -> Actions:
        if obj.metadata.is_terminating:
            return
        for volume in obj.spec.volumes:
            if volume.ephemeral == ABSENT:
                continue
            name = claim_of(obj, volume)
            claim = world.get(CLAIMS, f"{obj.metadata.namespace}/{name}")
            if claim is None:
                yield from self._create(volume.name, _new_claim(obj, name, volume.ephemeral))
            elif not is_controlled_by(claim, obj):
                where = f"PVC {claim.metadata.key} was not created for pod {obj.metadata.key} (pod is not owner)"
                yield Emit("FailedBinding", f"ephemeral volume {volume.name}: {where}", WARNING)

    def _create(self, volume: str, claim: Obj) -> Actions:
        try:
            yield Create(CLAIMS, claim)
        except ApiError as error:
            what = f"ephemeral volume {volume}: create PVC {claim['metadata']['name']}"
            yield Emit("FailedBinding", f"{what}: {error}", WARNING)
            raise


def _new_claim(pod: Pod, name: str, source: msgspec.Raw) -> Obj:
    template = _decode(source)["volumeClaimTemplate"]
    meta = {key: value for key, value in template.get("metadata", {}).items() if key in ("labels", "annotations")}
    meta |= {
        "name": name,
        "namespace": pod.metadata.namespace,
        "ownerReferences": [controller_reference(PODS, pod)],
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": template["spec"]}


def users_of(world: World, claim: str) -> list[Pod]:
    """The pods that use the claim of that `namespace/name`."""
    return world.of(PODS).index("claim", _used_claims)[claim]


def _used_claims(pod: Pod) -> list[str]:
    """Keys of the claims that a pod uses; before it is scheduled nobody has begun to. Those of its ephemeral volumes
    may go once its node is done with it: a pod that is deleted in the foreground waits for them.
    """
    if not pod.spec.node_name or not pod.spec.may_have_claims:
        return []
    meta = pod.metadata
    is_shut_down = meta.is_terminating and meta.deletion_grace_period_seconds == 0
    volumes = (volume for volume in pod.spec.volumes if volume.persistent_volume_claim is not None or not is_shut_down)
    return [f"{meta.namespace}/{name}" for volume in volumes if (name := claim_of(pod, volume))]


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod that names the claim, itself or by an ephemeral volume, is one that the claim is for."""
    if is_controlled_by(claim, pod):
        return True
    named = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return any(source is not None and source.claim_name == claim.metadata.name for source in named)


def _freed(world: World, old: Pod | None, new: Pod | None) -> Iterator[str]:
    """The claims that a pod has let go of."""
    if old is not None:
        kept = set(_used_claims(new) if new is not None and new.metadata.uid == old.metadata.uid else ())
        yield from (key for key in _used_claims(old) if key not in kept)


class ClaimProtection(Controller[PersistentVolumeClaim]):
    """Lets a deleted claim go when no pod uses it any more."""

    name = "pvc-protection-controller"
    queue_name = "pvcprotection"
    account = "pvc-protection-controller"
    kind = CLAIMS
    watches = (Watch(PODS, _freed, wakes_known=True),)
    workers = 1

    def reconcile(self, obj: PersistentVolumeClaim, world: World) -> Actions:
        def is_used() -> bool:
            return any(_uses(pod, obj) for pod in users_of(world, obj.metadata.key))

        yield from _protect(CLAIMS, obj, PROTECTION, is_used)


class VolumeProtection(Controller[PersistentVolume]):
    """Lets a deleted volume go when no claim has it any more."""

    name = "pv-protection-controller"
    queue_name = "pvprotection"
    account = "pv-protection-controller"
    kind = VOLUMES
    workers = 1

    def reconcile(self, obj: PersistentVolume, world: World) -> Actions:
        yield from _protect(VOLUMES, obj, VOLUME_PROTECTION, lambda: obj.status.phase == "Bound")


def claims_of_attributes_class(world: World, name: str) -> list[PersistentVolumeClaim]:
    """The claims that want, have, or are on their way to the class."""
    return world.of(CLAIMS).index("attributes class", _named_by_claim)[name]


def _named_by_claim(claim: PersistentVolumeClaim) -> set[str]:
    return claim.attributes_classes


def _named_by_volume(volume: PersistentVolume) -> list[str]:
    name = volume.spec.volume_attributes_class_name
    return [name] if name else []


def _let_go_by_claim(
    world: World, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> Iterator[str]:
    """The classes that a claim names no more."""
    if old is not None:
        yield from sorted(old.attributes_classes - (new.attributes_classes if new is not None else set()))


def _let_go_by_volume(world: World, old: PersistentVolume | None, new: PersistentVolume | None) -> Iterator[str]:
    """The class that a volume names no more."""
    if old is not None:
        yield from (name for name in _named_by_volume(old) if new is None or name not in _named_by_volume(new))


class AttributesClassProtection(Controller[AttributesClass]):
    """Lets a deleted VolumeAttributesClass go when no claim and no volume names it any more."""

    name = "volumeattributesclass-protection-controller"
    queue_name = "vacprotection"
    account = "volumeattributesclass-protection-controller"
    kind = ATTRIBUTES_CLASSES
    watches = (
        Watch(CLAIMS, _let_go_by_claim, wakes_known=True),
        Watch(VOLUMES, _let_go_by_volume, wakes_known=True),
    )
    workers = 1

    def reconcile(self, obj: AttributesClass, world: World) -> Actions:
        def is_used() -> bool:
            volumes = world.of(VOLUMES).index("attributes class", _named_by_volume)
            return bool(claims_of_attributes_class(world, obj.metadata.name) or volumes[obj.metadata.name])

        yield from _protect(ATTRIBUTES_CLASSES, obj, ATTRIBUTES_CLASS_PROTECTION, is_used)


def _protect(kind: Kind[Any], obj: Object, finalizer: str, is_used: Callable[[], bool]) -> Actions:
    """Whatever lives has the finalizer; what was deleted loses it once nobody uses it."""
    known = obj.metadata.finalizers
    if not obj.metadata.is_terminating:
        if finalizer not in known:
            yield with_finalizer(kind, obj, finalizer)
    elif finalizer in known and not is_used():
        yield without_finalizer(kind, obj, finalizer)
