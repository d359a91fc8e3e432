"""Pods leave devices with a NoExecute taint: at once, or after as long as their claims tolerate it.

Source: pkg/controller/devicetainteviction (1.36, where DeviceTaintRules are off).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from fairlead.api.devices import AllocatedDevice, ResourceClaim, ResourceSlice
from fairlead.api.pods import Pod
from fairlead.api.references import Reference
from fairlead.api.resource_claims import keyed_claims
from fairlead.api.taints import NO_EXECUTE, TimedTaint, TimedToleration, tolerates
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Actions, Delete, Emit, Patch, Requeue
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from fairlead.controllers.nodes.eviction import DELETION_SECONDS
from fairlead.runtime.clock import parse_timestamp, timestamp
from fairlead.runtime.metrics import COUNTER, Computed, Histogram

#: The taints that drive pods away, by the names of devices.
_Tainted = Mapping[str, tuple[TimedTaint, ...]]


class _Pool:
    """The tainted devices of a pool; those of older generations than the newest are not there any more."""

    def __init__(self) -> None:
        self._slices: Counter[int] = Counter()  # how many of each generation
        self._newest = 0  # generation
        self._tainted: dict[int, dict[str, tuple[TimedTaint, ...]]] = defaultdict(dict)

    @property
    def is_empty(self) -> bool:
        return not self._slices

    @property
    def tainted(self) -> _Tainted:
        return self._tainted.get(self._newest, {})

    def add(self, generation: int, tainted: _Tainted) -> None:
        self._slices[generation] += 1
        self._newest = max(self._newest, generation)
        if tainted:
            self._tainted[generation].update(tainted)

    def remove(self, generation: int, tainted: _Tainted) -> None:
        self._slices[generation] -= 1
        if not self._slices[generation]:
            del self._slices[generation]
            self._tainted.pop(generation, None)
            if generation == self._newest:
                self._newest = max(self._slices, default=0)
        for device in tainted:
            self._tainted.get(generation, {}).pop(device, None)


def _tainted(found: ResourceSlice) -> _Tainted:
    tainted = {}
    for device in found.spec.devices or ():
        if taints := tuple(taint for taint in device.taints or () if taint.effect == NO_EXECUTE):
            tainted[device.name] = taints
    return tainted


def _pool_of(found: ResourceSlice) -> str:
    return f"{found.spec.driver}/{found.spec.pool.name}"


def _devices(claim: ResourceClaim) -> set[str]:
    if claim.status.allocation is None:
        return set()
    return {f"{device.driver}/{device.pool}/{device.device}" for device in claim.status.allocation.results}


def _users(claim: ResourceClaim) -> Iterator[str]:
    return (f"{claim.metadata.namespace}/{consumer.name}" for consumer in claim.consumers if consumer.is_pod)


def _pods_of_claim(world: World, old: ResourceClaim | None, new: ResourceClaim | None) -> set[str]:
    """The pods that have got the claim, or have it no more."""
    before = set(_users(old)) if old is not None else set()
    after = set(_users(new)) if new is not None else set()
    if old is not None and new is not None and old.status.allocation == new.status.allocation:
        return before ^ after
    return before | after


class DeviceTaintEviction(Controller[Pod]):
    name = "device-taint-eviction-controller"
    account = "device-taint-eviction-controller"
    kind = PODS

    def __init__(self) -> None:
        self.watches = (
            Watch(RESOURCE_CLAIMS, _pods_of_claim, wakes_known=True),
            Watch(RESOURCE_SLICES, self._pods_of_slice),
        )
        self._deletions = Histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "[ALPHA] How long pods stayed after they had to leave their devices.",
            DELETION_SECONDS,
        )
        self.families = (
            self._deletions,
            Computed(
                COUNTER,
                "device_taint_eviction_controller_pod_deletions_total",
                "[ALPHA] Pods that were deleted because of taints of devices.",
                (),
                lambda: [((), self._deletions.of().count)],
            ),
        )
        self._pools: dict[str, _Pool] = defaultdict(_Pool)
        self._due: dict[str, str] = {}  # the uids of pods that are to go

    def _pods_of_slice(self, world: World, old: ResourceSlice | None, new: ResourceSlice | None) -> Iterator[str]:
        """The pods with a device whose taints have changed."""
        for key in dict.fromkeys(_pool_of(found) for found in (old, new) if found is not None):
            for device in self._replace(key, old, new):
                for claim in world.of(RESOURCE_CLAIMS).index("device", _devices)[f"{key}/{device}"]:
                    yield from _users(claim)

    def _replace(self, key: str, old: ResourceSlice | None, new: ResourceSlice | None) -> list[str]:
        """The devices of a pool whose taints are others with the new slice than with the old one."""
        pool = self._pools[key]
        steps = [
            (change, found.spec.pool.generation, _tainted(found))
            for found, change in ((old, pool.remove), (new, pool.add))
            if found is not None and _pool_of(found) == key
        ]
        before = pool.tainted
        known = {device: before.get(device) for _, _, tainted in steps for device in tainted}
        for change, generation, tainted in steps:
            change(generation, tainted)
        after = pool.tainted
        if after is not before:  # of another generation
            known = {device: before.get(device) for device in before.keys() | after.keys()} | known
        if pool.is_empty:
            del self._pools[key]
        return [device for device, taints in known.items() if taints != after.get(device)]

    def concerns(self, old: Pod | None, new: Pod | None, world: World) -> bool:
        if new is None:
            return old is not None and old.metadata.key in self._due
        if not new.spec.raw_resource_claims or not new.spec.node_name:
            return False
        return old is None or (
            (old.spec.node_name, old.status.raw_resource_claim_statuses)
            != (new.spec.node_name, new.status.raw_resource_claim_statuses)
        )

    def gone(self, key: str, world: World) -> Actions:
        self._due.pop(key, None)
        yield from ()

    def reconcile(self, obj: Pod, world: World) -> Actions:
        key, uid = obj.metadata.key, obj.metadata.uid
        if self._due.get(key, uid) != uid or obj.metadata.is_terminating:
            self._due.pop(key, None)
        if obj.metadata.is_terminating:
            return
        due = self._due_at(obj, world)
        if due is None:
            if self._due.pop(key, None) is not None:
                yield _event(obj, "Cancelling deletion")
            return
        self._due[key] = uid
        if due > world.now:
            yield Requeue(due - world.now)
            return
        yield _event(obj, "Marking for deletion")
        yield _tell_of_disruption(obj, world)
        yield Delete(PODS, obj)
        self._due.pop(key, None)
        self._deletions.observe(world.now - due)

    def _due_at(self, pod: Pod, world: World) -> float | None:
        """When the pod has to leave the devices of its claims."""
        if not pod.spec.node_name or not pod.spec.raw_resource_claims:
            return None
        moments: list[float] = []
        for asked, key in keyed_claims(pod):
            claim = world.get(RESOURCE_CLAIMS, key)
            if claim is None or claim.status.allocation is None or not claim.is_reserved_for(pod.metadata.uid):
                continue
            if asked.is_from_template and claim.foreign_owner(pod.metadata.key, pod.metadata.uid):
                continue
            for device in claim.status.allocation.results:
                moments += self._moments(device)
        return min(moments, default=None)

    def _moments(self, device: AllocatedDevice) -> list[float]:
        """When each of the device's taints is not tolerated any more; a taint without a time never drives away."""
        pool = self._pools.get(f"{device.driver}/{device.pool}")
        taints = pool.tainted.get(device.device, ()) if pool is not None else ()
        moments = []
        for taint in taints:
            seconds = _tolerated(taint, device.tolerations or ())
            if seconds is not None and taint.time_added is not None:
                moments.append(parse_timestamp(taint.time_added) + seconds)
        return moments


def _tolerated(taint: TimedTaint, tolerations: tuple[TimedToleration, ...]) -> float | None:
    """For how long; None is for ever. Only tolerations that name the effect count here, as upstream."""
    found = [one for one in tolerations if one.effect == NO_EXECUTE and tolerates(one, taint)]
    limits = [max(float(one.toleration_seconds), 0.0) for one in found if one.toleration_seconds is not None]
    return None if len(limits) < len(found) else min(limits, default=0.0)


def _tell_of_disruption(pod: Pod, world: World) -> Patch:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": timestamp(world.now),
    }
    return Patch(PODS, pod, {"status": {"conditions": [condition]}}, PatchType.STRATEGIC, subresource="status")


def _event(pod: Pod, message: str) -> Emit:
    meta = pod.metadata
    about = Reference(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
    return Emit("DeviceTaintManagerEviction", message, about=about)
