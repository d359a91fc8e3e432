"""Who claims devices, and who has which.

A decision must count every device that was given away before, whether or not the server knows yet: what a claim is to
get is reserved until it is written, and a claim that was written counts as the answer to that said, until the watch
tells of it or of something newer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import TypeAlias
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from fairlead.api.builtin import PODS
from fairlead.api.devices import Allocation, ClaimConsumer, DeviceId, ResourceClaim
from fairlead.api.objects import Obj
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.scheduler.devices.allocator import Taken
from fairlead.scheduler.devices.extended import extended_owner
from fairlead.scheduler.facts.device_offers import DeviceOffers

#: A device that somebody has; and of one that several may have, how much.
_Use: TypeAlias = tuple[DeviceId, Mapping[str, Quantity] | None]

_encode = msgspec.json.Encoder(order="deterministic").encode


class PendingAllocation(msgspec.Struct, eq=False):
    """What a claim is to get; it is written with the first of its pods."""

    claim: ResourceClaim
    allocation: Allocation
    written: Obj
    #: By uid; pods of a gang share what is reserved for the first of them.
    pods: dict[str, None]

    def is_what(self, claim: ResourceClaim) -> bool:
        """Whether the claim has got just that."""
        got = claim.status.allocation
        return got is not None and got.devices_given == self.allocation.devices_given


class DeviceClaims:
    """Claims by `namespace/name`; and what is reserved for pods, by their uids."""

    def __init__(self, offers: DeviceOffers) -> None:
        self._offers = offers
        self._claims: dict[str, ResourceClaim] = {}
        self._by_uid: dict[str, ResourceClaim] = {}
        self._specs: dict[str, bytes] = {}
        #: Those that were made for extended resources, by the uids of the pods.
        self._extended: dict[str, ResourceClaim] = {}
        #: By the uid of the claim; and by the pod as well, where what is written is taken out.
        self._pending: dict[str, PendingAllocation] = {}
        self._reservations: dict[str, dict[str, PendingAllocation]] = {}
        self._together: frozenset[str] = frozenset()
        #: By the uid of the claim, what counts as taken by it.
        self._uses: dict[str, list[_Use]] = {}
        self._devices: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._capacity: dict[DeviceId, dict[str, Quantity]] = {}
        #: What the watch has told: versions and devices by the uids of claims, and by device who had it first.
        self._told_versions: dict[str, int] = {}
        self._told_devices: dict[str, frozenset[DeviceId]] = {}
        self._told_of: dict[DeviceId, str] = {}
        self._too_late: set[str] = set()
        self._waiters: dict[str, list[asyncio.Event]] = {}  # by claim, or the uid of a pod
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def get(self, key: str) -> ResourceClaim | None:
        """The claim of that `namespace/name`."""
        return self._claims.get(key)

    def extended_of(self, pod: str) -> ResourceClaim | None:
        """The claim that was made for extended resources of the pod with that uid."""
        return self._extended.get(pod)

    def set(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim came, changed or went; what is older than is known says nothing."""
        either = new or old
        assert either is not None
        known = self._claims.get(either.metadata.key)
        # One of this very uid that is gone is gone, whatever was last known of it.
        is_gone = known is not None and new is None and known.metadata.uid == either.metadata.uid
        if known is not None and not is_gone and _is_newer(known, either):
            return
        if known is not None:
            del self._claims[known.metadata.key], self._by_uid[known.metadata.uid]
            self._specs.pop(known.metadata.uid, None)
            self._extended.pop(extended_owner(known), None)
        if new is not None:
            self._claims[new.metadata.key] = self._by_uid[new.metadata.uid] = new
            if pod := extended_owner(new):
                self._extended[pod] = new
        for claim in (known, new):
            if claim is not None:
                self._count_again(claim.metadata.uid)
        self._notify(either.metadata.key)

    def told(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """The watch tells that a claim came, changed or went. It tells of all claims in the order of their writes: who
        gets a device that another claim has by then was too late, and somebody else allocates, too.
        """
        self.set(old, new)
        either = new or old
        assert either is not None
        uid, allocation = either.metadata.uid, new.status.allocation if new is not None else None
        had, has = self._told_devices.pop(uid, frozenset()), _exclusive(allocation)
        for device in had - has:
            if self._told_of.get(device) == uid:
                del self._told_of[device]
        if any(self._told_of.setdefault(device, uid) != uid for device in has):
            self._too_late.add(uid)
        else:
            self._too_late.discard(uid)
        if has:
            self._told_devices[uid] = has
        if new is None:
            self._told_versions.pop(uid, None)
        else:
            self._told_versions[uid] = int(new.metadata.resource_version)
        self._notify(either.metadata.key)

    def is_too_late(self, claim: ResourceClaim) -> bool:
        """Whether somebody else had given a device of the claim away before."""
        return claim.metadata.uid in self._too_late

    def is_contested(self, allocation: Allocation) -> bool:
        """Whether another claim has one of the devices, too, of which one counts already."""
        return any(self._devices[device] > 1 for device in _exclusive(allocation))

    async def until_told(self, claim: ResourceClaim, pod: str) -> None:
        """Return once the watch has told of that write of a claim, for the pod with that uid, or the claim is gone."""
        uid, version = claim.metadata.uid, int(claim.metadata.resource_version)
        while uid in self._by_uid and self._told_versions.get(uid, 0) < version:
            await self.changed([claim.metadata.key], pod)

    def answered(self, claim: ResourceClaim) -> None:
        """A claim as the server has answered; one that the watch has told to be gone does not come back by that."""
        if claim.metadata.uid in self._by_uid:
            self.set(None, claim)

    def wanted(self, claim: ResourceClaim) -> bytes:
        """The same for claims that ask for the same."""
        uid = claim.metadata.uid
        if uid not in self._by_uid:
            return sha256(_encode(claim.spec)).digest()
        if (found := self._specs.get(uid)) is None:
            found = self._specs[uid] = sha256(_encode(claim.spec)).digest()
        return found

    # --- what is taken ------------------------------------------------------------------------------------------------

    @property
    def taken(self) -> Taken:
        return Taken(self._devices, self._capacity)

    def _count_again(self, uid: str) -> None:
        """Count what the claim has as its status says; else what is reserved for it."""
        claim, pending = self._by_uid.get(uid), self._pending.get(uid)
        allocation = claim.status.allocation if claim is not None else None
        if allocation is None and pending is not None:
            allocation = pending.allocation
        before, uses = self._uses.pop(uid, []), _allocated(allocation) if allocation is not None else []
        if uses:
            self._uses[uid] = uses
        if uses == before:
            return
        for use in before:
            self._count(use, -1)
        for use in uses:
            self._count(use, 1)

    def _count(self, use: _Use, sign: int) -> None:
        device, consumed = use
        counted = self._devices if consumed is None else self._shares
        counted[device] += sign
        if not counted[device]:
            del counted[device]
            self._capacity.pop(device, None)
        elif consumed is not None:
            amounts = self._capacity.setdefault(device, {})
            for name, amount in consumed.items():
                amounts[name] = amounts.get(name, ZERO) + (amount if sign > 0 else -amount)
        self._offers.touch(device[:2])

    # --- reservations -------------------------------------------------------------------------------------------------

    @contextmanager
    def decided_together(self, pods: Iterable[str]) -> Iterator[None]:
        """Meanwhile what is reserved for one of the pods of these uids may be had by the others, too, where they share
        its claim.
        """
        self._together = frozenset(pods)
        try:
            yield
        finally:
            self._together = frozenset()

    def seen_by(self, pod: str, key: str) -> ResourceClaim | None:
        """The claim as it is to the pod with that uid: allocated, if it may have what is reserved for another one."""
        claim = self._claims.get(key)
        if claim is None or claim.status.allocation is not None or not self._may_share(pod, claim):
            return claim
        pending = self._pending[claim.metadata.uid]
        coming = tuple(ClaimConsumer(resource=PODS.plural, uid=uid) for uid in pending.pods)
        status = replace(claim.status, allocation=pending.allocation, reserved_for=(*claim.consumers, *coming))
        return replace(claim, status=status)

    def _may_share(self, pod: str, claim: ResourceClaim) -> bool:
        pending = self._pending.get(claim.metadata.uid)
        return pending is not None and pod in self._together and not self._together.isdisjoint(pending.pods)

    def reserved_for(self, pod: str) -> Mapping[str, PendingAllocation]:
        """What is reserved for claims of the pod with that uid, by theirs."""
        return self._reservations.get(pod, {})

    def is_being_allocated(self, claim: ResourceClaim) -> bool:
        return claim.metadata.uid in self._pending

    def reserve(self, pod: str, claims: Iterable[tuple[ResourceClaim, Obj]], shared: Iterable[str] = ()) -> None:
        """Count what these claims of the pod with that uid are to get as taken; of those of the `shared` keys it has
        what is reserved for others.
        """
        reserved = self._reservations[pod] = {
            claim.metadata.uid: self._pending[claim.metadata.uid]
            for key in shared
            if (claim := self._claims.get(key)) is not None and self._may_share(pod, claim)
        }
        for pending in reserved.values():
            pending.pods[pod] = None
        for claim, written in claims:
            uid, allocation = claim.metadata.uid, msgspec.convert(written, Allocation)
            reserved[uid] = self._pending[uid] = PendingAllocation(claim, allocation, written, {pod: None})
            self._count_again(uid)

    def written(self, pod: str, uid: str, claim: ResourceClaim) -> None:
        """What was reserved for the pod as the claim with that uid is allocated, as the server has answered."""
        self.answered(claim)
        self._end(pod, uid)

    def release(self, pod: str) -> None:
        """What is still reserved for the pod will never come true, or has."""
        for uid in list(self._reservations.get(pod, ())):
            self._end(pod, uid)
        self._reservations.pop(pod, None)

    def _end(self, pod: str, uid: str) -> None:
        pending = self._reservations.get(pod, {}).pop(uid, None)
        if pending is None:
            return
        del pending.pods[pod]
        if not pending.pods:
            del self._pending[uid]
            self._count_again(uid)

    def lock(self, key: str) -> asyncio.Lock:
        """Who writes a claim holds it, so that pods that share one need not try again and again."""
        found = self._locks.get(key)
        if found is None:
            found = self._locks[key] = asyncio.Lock()
        return found

    def pod_gone(self, pod: str) -> None:
        self.release(pod)
        self._notify(pod)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _notify(self, key: str) -> None:
        for event in self._waiters.get(key, ()):
            event.set()

    async def changed(self, claims: Iterable[str], pod: str) -> None:
        """Return once something has happened to one of these claims, or the pod with that uid is gone."""
        event, keys = asyncio.Event(), [*claims, pod]
        for key in keys:
            self._waiters.setdefault(key, []).append(event)
        try:
            await event.wait()
        finally:
            for key in keys:
                self._waiters[key].remove(event)
                if not self._waiters[key]:
                    del self._waiters[key]


def _is_newer(known: ResourceClaim, other: ResourceClaim) -> bool:
    return int(known.metadata.resource_version) > int(other.metadata.resource_version)


def _exclusive(allocation: Allocation | None) -> frozenset[DeviceId]:
    """The devices that nobody else may have."""
    results = allocation.results if allocation is not None else ()
    return frozenset(result.id for result in results if result.share_id is None and not result.admin_access)


def _allocated(allocation: Allocation) -> list[_Use]:
    """Who administers devices takes none."""
    return [
        (
            result.id,
            None
            if result.share_id is None
            else {name: parse(text) for name, text in (result.consumed_capacity or {}).items()},
        )
        for result in allocation.results
        if not result.admin_access
    ]
