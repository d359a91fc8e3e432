"""Writes which devices the claims of a pod get, and that they are for it: what DynamicResources does at PreBind.

Source: `bindClaim` of pkg/scheduler/framework/plugins/dynamicresources (1.36). A claim is written against the version
that was decided on; where somebody else wrote it meanwhile, it is looked at once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from fairlead.api.builtin import PODS, RESOURCE_CLAIMS
from fairlead.api.devices import FINALIZER, AllocatedDevice, ResourceClaim
from fairlead.api.errors import ApiError, Conflict, InternalError, ServerTimeout, ServiceUnavailable, TooManyRequests
from fairlead.api.event_types import NORMAL
from fairlead.api.guards import guarded
from fairlead.api.meta import Condition
from fairlead.api.objects import Obj
from fairlead.api.references import reference
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import PatchType
from fairlead.runtime import clock
from fairlead.scheduler import writes
from fairlead.scheduler.devices.extended import is_in_memory, status_of, to_be_made
from fairlead.scheduler.framework import Handle, PluginError
from fairlead.scheduler.requirements import device_amounts_of, device_claims_of

#: As client-go's `DefaultRetry`.
_TRIES: Final = 5
#: Answers that say nothing about the object; how long until it is asked for again.
_UNKNOWN: Final = (InternalError, ServiceUnavailable, ServerTimeout, TooManyRequests)
_RETRY_SECONDS: Final = 1.0


class BindingState(msgspec.Struct, frozen=True):
    """Whether the devices of a claim can be used on their node, where that takes somebody's doing (KEP-5007)."""

    is_ready: bool
    failure: str = ""


class ClaimWriter:
    """Of one pod that was given a node."""

    def __init__(self, pod: Pod, node: str, handle: Handle) -> None:
        self._pod, self._node, self._handle = pod, node, handle
        self._api, self._claims = handle.api, handle.snapshot.device_claims
        self._keys = list(dict.fromkeys(claim.key for claim in device_claims_of(pod)))
        #: The one that was made for extended resources of the pod.
        self._made: ResourceClaim | None = None

    async def write(self) -> None:
        """Return once all claims are allocated, and reserved for the pod. Raises PluginError or ApiError."""
        await self._write_all()
        for key in self._all_keys:
            await self._claims.until_told(self._known(key), self._pod.metadata.uid)
            if self._claims.is_too_late(self._known(key)):
                raise PluginError(f"devices of claim {key} got allocated elsewhere in the meantime")

    async def _write_all(self) -> None:
        await self._write_extended()
        for key in self._keys:
            async with self._claims.lock(key):
                claim = self._known(key)
                if not claim.is_reserved_for(self._pod.metadata.uid):
                    await self._reserve(claim)

    async def _write_extended(self) -> None:
        """Make the claim that stands for extended resources of the pod, if it needs one; there is one at most."""
        pod = self._pod.metadata.uid
        reserved = (pending.claim for pending in self._claims.reserved_for(pod).values())
        wanted = next((claim for claim in reserved if is_in_memory(claim)), None)
        if wanted is None:
            return
        if (left := self._claims.extended_of(pod)) is not None:
            await writes.delete_claim(self._api, left)
        namespace = self._pod.metadata.namespace
        try:
            created = await self._api.create(RESOURCE_CLAIMS, to_be_made(wanted, self._pod), namespace)
        except (ApiError, OSError):
            self._handle.device_metrics.made("failure")
            raise
        self._handle.device_metrics.made("success")
        made = created.view(ResourceClaim)
        self._made = made
        self._claims.set(None, made)
        await self._reserve(made, wanted.metadata.uid)
        status = status_of(made, device_amounts_of(self._pod))
        await writes.patch_status(self._api, self._pod, {"extendedResourceClaimStatus": status})

    async def _reserve(self, claim: ResourceClaim, reserved_as: str = "") -> None:
        uid, pod = reserved_as or claim.metadata.uid, self._pod.metadata.uid
        for left in reversed(range(_TRIES)):
            try:
                written = await self._attempt(claim, uid)
            except Conflict:
                if not left:
                    raise
                meta = claim.metadata
                claim = (await self._api.get(RESOURCE_CLAIMS, meta.name, meta.namespace)).view(ResourceClaim)
                if claim.metadata.uid != meta.uid:  # another one of that name, which may ask for something else
                    raise PluginError(f"claim {meta.key} got deleted in the meantime") from None
            else:
                self._claims.written(pod, uid, written)
                return

    async def _attempt(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        """The claim with what is reserved for that uid, if it has nothing yet, and with one consumer more."""
        meta = claim.metadata
        if meta.is_terminating:
            raise PluginError(f"claim {meta.key} got deleted in the meantime")
        reserved = self._claims.reserved_for(self._pod.metadata.uid).get(uid)
        status: Obj = {}
        if reserved is not None and not reserved.is_what(claim):
            if claim.status.allocation is not None:
                raise PluginError(f"claim {meta.key} got allocated elsewhere in the meantime")
            if self._claims.is_contested(reserved.allocation):
                raise PluginError(f"devices of claim {meta.key} got allocated elsewhere in the meantime")
            if FINALIZER not in meta.finalizers:
                claim = await self._patch(claim, {"metadata": {"finalizers": [*meta.finalizers, FINALIZER]}})
            status["allocation"] = reserved.written | {"allocationTimestamp": clock.timestamp()}
        pod = self._pod.metadata
        consumers = msgspec.to_builtins(claim.consumers)
        status["reservedFor"] = [*consumers, {"resource": PODS.plural, "name": pod.name, "uid": pod.uid}]
        return await self._patch(claim, {"status": status}, "status")

    async def _patch(self, claim: ResourceClaim, patch: Obj, subresource: str = "") -> ResourceClaim:
        """Change exactly the version that is known."""
        meta = claim.metadata
        patch = guarded(patch, meta, unchanged=True)
        done = await self._api.patch(
            RESOURCE_CLAIMS, meta.name, meta.namespace, patch, PatchType.MERGE, subresource=subresource
        )
        return done.view(ResourceClaim)

    async def take_back(self) -> None:
        """The pod does not get its node: nothing is kept for it. What cannot be written is done at the next try."""
        uid = self._pod.metadata.uid
        await self._learn_what_was_written()
        if self._made is not None:
            with suppress(ApiError, OSError):
                await writes.delete_claim(self._api, self._made)
        for key in self._keys:
            claim = self._claims.get(key)
            if claim is None or claim.status.allocation is None or not claim.is_reserved_for(uid):
                continue
            meta = claim.metadata
            if self._claims.is_too_late(claim) and len(claim.consumers) == 1:
                with suppress(ApiError, OSError):
                    await writes.give_up(self._api, claim)
                continue
            leave = guarded({"status": {"reservedFor": [{"$patch": "delete", "uid": uid}]}}, meta)
            try:
                done = await self._api.patch(
                    RESOURCE_CLAIMS, meta.name, meta.namespace, leave, PatchType.STRATEGIC, subresource="status"
                )
            except (ApiError, OSError):
                await self._learn(claim)  # it may be done all the same: the next try must not rest on what was before
            else:
                self._claims.answered(done.view(ResourceClaim))

    async def _learn_what_was_written(self) -> None:
        """Where the answer to a write was lost, its devices may be taken: they stay reserved until that is known."""
        for pending in list(self._claims.reserved_for(self._pod.metadata.uid).values()):
            asked = self._made if is_in_memory(pending.claim) else pending.claim
            if asked is not None:
                await self._learn(asked)

    async def _learn(self, claim: ResourceClaim) -> None:
        while True:
            try:
                found = await self._api.get(RESOURCE_CLAIMS, claim.metadata.name, claim.metadata.namespace)
            except (ApiError, OSError) as error:
                if isinstance(error, ApiError) and not isinstance(error, _UNKNOWN):
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._claims.answered(found.view(ResourceClaim))
                return

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def devices_ready(self, timeout_seconds: float) -> None:
        """Return once all devices are ready for the node. Raises PluginError where they will not be, or not in time."""
        began, status = clock.monotonic(), "failure"
        try:
            await self._wait_until_ready(timeout_seconds)
            status = "success"
        except TimeoutError:
            status = "timeout"
            raise PluginError("device binding timeout") from None
        finally:
            drivers = sorted(
                {driver for key in self._all_keys for driver in _drivers_that_prepare(self._claims.get(key))}
            )
            profile = self._pod.spec.scheduler_name
            self._handle.device_metrics.prepared(profile, drivers, status, clock.monotonic() - began)

    async def _wait_until_ready(self, timeout_seconds: float) -> None:
        if self._are_ready():
            return
        if self._handle.recorder is not None:
            note = f"waiting for binding conditions for device on node {self._node}"
            about = reference(self._pod, PODS)
            self._handle.recorder.event(about, NORMAL, "BindingConditionsPending", note, action="Scheduling")
        async with asyncio.timeout(timeout_seconds):
            while not self._are_ready():
                await self._claims.changed(self._all_keys, self._pod.metadata.uid)

    def _are_ready(self) -> bool:
        pod = self._handle.pod(self._pod.metadata.key)
        if pod is None or pod.metadata.uid != self._pod.metadata.uid:
            raise PluginError(f'pod "{self._pod.metadata.name}" not found')
        states = [binding_state(self._known(key)) for key in self._all_keys]
        if failure := next((state.failure for state in states if state.failure), ""):
            raise PluginError(failure)
        return all(state.is_ready for state in states)

    @property
    def _all_keys(self) -> list[str]:
        return self._keys if self._made is None else [*self._keys, self._made.metadata.key]

    def _known(self, key: str) -> ResourceClaim:
        if (claim := self._claims.get(key)) is None:
            raise PluginError(f'could not find ResourceClaim "{key}"')
        return claim


def binding_state(claim: ResourceClaim) -> BindingState:
    """All conditions that its devices name must be true, and none of those by which they fail."""
    is_ready = True
    for result in claim.status.allocation.results if claim.status.allocation is not None else ():
        if not result.binding_conditions:
            continue
        conditions = _conditions(claim, result)
        for kind in result.binding_failure_conditions or ():
            if (found := conditions.get(kind)) is not None and found.status == "True":
                why = f'reason={found.reason}, message="{found.message}"'
                return BindingState(False, f"claim {claim.metadata.name} binding failed: {why}")
        is_ready &= all(
            (found := conditions.get(kind)) is not None and found.status == "True" for kind in result.binding_conditions
        )
    return BindingState(is_ready)


def _drivers_that_prepare(claim: ResourceClaim | None) -> Iterator[str]:
    """The drivers of devices that have binding conditions."""
    if claim is not None and claim.status.allocation is not None:
        yield from (result.driver for result in claim.status.allocation.results if result.binding_conditions)


def is_overdue(claim: ResourceClaim, timeout: float) -> bool:
    """Whether devices that somebody has to prepare were allocated longer ago than that may take, in seconds."""
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp:
        return False
    if not any(result.binding_conditions for result in allocation.results):
        return False
    return clock.parse_timestamp(allocation.allocation_timestamp) + timeout < clock.now()


def _conditions(claim: ResourceClaim, result: AllocatedDevice) -> dict[str, Condition]:
    """What the driver tells of the device."""
    for device in claim.status.devices or ():
        if (device.driver, device.pool, device.device) == result.id:
            return {condition.type: condition for condition in device.conditions or ()}
    return {}
