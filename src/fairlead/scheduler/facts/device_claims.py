"""Who claims devices, and who has which.

A decision must count every device that was given away before, whether or not the server knows yet: what a claim is to
get is reserved until it is written, and a claim that was written counts as the answer to that said, until the watch
tells of it or of something newer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TypeAlias

import msgspec

from fairlead.api.devices import Allocation, DeviceId, ResourceClaim
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.scheduler.devices.allocator import ClaimDevices, Taken
from fairlead.scheduler.devices.extended import extended_owner
from fairlead.scheduler.facts.device_offers import DeviceOffers

#: A device that somebody has; and of one that several may have, how much.
_Use: TypeAlias = tuple[DeviceId, Mapping[str, Quantity] | None]

_encode = msgspec.json.Encoder(order="deterministic").encode


class ClaimReservation(msgspec.Struct, eq=False):
    """What claims of a pod are to get on the node that it was given."""

    #: By the uid of the claim; what is written is taken out.
    claims: dict[str, tuple[ResourceClaim, ClaimDevices]]


class DeviceClaims:
    """Claims by `namespace/name`; and reservations, by the uids of their pods."""

    def __init__(self, offers: DeviceOffers) -> None:
        self._offers = offers
        self._claims: dict[str, ResourceClaim] = {}
        self._by_uid: dict[str, ResourceClaim] = {}
        self._specs: dict[str, bytes] = {}
        #: Those that were made for extended resources, by the uids of the pods.
        self._extended: dict[str, ResourceClaim] = {}
        self._reservations: dict[str, ClaimReservation] = {}
        #: Claims by uid: the pods for which they are being allocated.
        self._pods: dict[str, str] = {}
        #: By the uid of the claim, what counts as taken by it.
        self._uses: dict[str, list[_Use]] = {}
        self._devices: Counter[DeviceId] = Counter()
        self._shares: Counter[DeviceId] = Counter()
        self._capacity: dict[DeviceId, dict[str, Quantity]] = {}
        self._waiters: dict[str, list[asyncio.Event]] = {}  # by claim, or the uid of a pod

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
        for use in self._uses.pop(uid, ()):
            self._count(use, -1)
        claim, pod = self._by_uid.get(uid), self._pods.get(uid)
        if claim is not None and claim.status.allocation is not None:
            uses = _allocated(claim.status.allocation)
        elif pod is not None:
            uses = _chosen(self._reservations[pod].claims[uid][1])
        else:
            return
        self._uses[uid] = uses
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

    def reservation(self, pod: str) -> ClaimReservation | None:
        """What is reserved for the pod with that uid, if anything is."""
        return self._reservations.get(pod)

    def is_being_allocated(self, claim: ResourceClaim) -> bool:
        return claim.metadata.uid in self._pods

    def reserve(self, pod: str, claims: Iterable[tuple[ResourceClaim, ClaimDevices]]) -> None:
        """Count these devices as taken, for claims of the pod with that uid."""
        by_uid = {claim.metadata.uid: (claim, devices) for claim, devices in claims}
        self._reservations[pod] = ClaimReservation(by_uid)
        for uid in by_uid:
            self._pods[uid] = pod
            self._count_again(uid)

    def written(self, pod: str, uid: str, claim: ResourceClaim) -> None:
        """What was reserved for the claim with that uid is allocated, as the server has answered."""
        self.answered(claim)
        self._end(pod, uid)

    def release(self, pod: str) -> None:
        """What is still reserved for the pod will never come true, or has."""
        if (reservation := self._reservations.get(pod)) is not None:
            for uid in list(reservation.claims):
                self._end(pod, uid)
            del self._reservations[pod]

    def _end(self, pod: str, uid: str) -> None:
        if self._pods.get(uid) == pod:
            del self._pods[uid], self._reservations[pod].claims[uid]
            self._count_again(uid)

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


def _chosen(devices: ClaimDevices) -> list[_Use]:
    return [
        (chosen.candidate.id, chosen.consumed if chosen.is_share else None)
        for chosen in devices.chosen
        if not chosen.asked.admin_access
    ]
