"""Claims of devices: a node must have devices that meet what the pod's claims ask for (DynamicResources).

A claim that has no devices yet gets them with the node: they are found when nodes are filtered, reserved with the
decision, and written before the pod is bound (`claim_writer.py`). One that has some says where they can be reached.
Source: pkg/scheduler/framework/plugins/dynamicresources (1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

import msgspec
import numpy as np

from fairlead.api.devices import AskedDevices, DeviceClass, ResourceClaim
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Node, Pod
from fairlead.caches import LruCache
from fairlead.golang.durations import parse_seconds
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.devices.allocator import AllocationError, Allocator, ClaimDevices, NodeError
from fairlead.scheduler.devices.effort import Effort, TooMuchEffort
from fairlead.scheduler.devices.extended import claim_for
from fairlead.scheduler.devices.pools import Pool, selects
from fairlead.scheduler.devices.results import allocation_of
from fairlead.scheduler.devices.selectors import Selectors
from fairlead.scheduler.facts.device_offers import Stamp
from fairlead.scheduler.framework import (
    CannotDecide,
    ClusterEvent,
    EventKind,
    Handle,
    NoRoom,
    Plugin,
    Refusals,
    Refused,
)
from fairlead.scheduler.plugins.claim_writer import ClaimWriter, binding_state, is_overdue
from fairlead.scheduler.requirements import DeviceClaim, PodRequirements, device_amounts_of, device_claims_of
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

if TYPE_CHECKING:
    from fairlead.scheduler.diagnosis import Diagnosis
    from fairlead.scheduler.profile_runtime import ProfileRuntime

NO_CLAIMS: Final = "no new claims to deallocate"
DEALLOCATED: Final = "deallocation of ResourceClaim completed"
DELETED: Final = "deletion of ResourceClaim completed"
STILL_NOT: Final = "still not schedulable"
#: After an outright refusal it misses the state that it would have left behind: an error, after which nobody is asked.
NOT_FOUND: Final = "not found"

ELSEWHERE: Final = "resourceclaim not available on the node"
NO_DEVICES: Final = "cannot allocate all claims"
TOO_LONG: Final = "timed out trying to allocate devices"

#: Different wishes of which is kept what nodes have for them.
_REMEMBERED: Final = 64


class DynamicResourcesArguments(Arguments):
    filter_timeout: str = "10s"
    binding_timeout: str = "600s"


class _Answer(msgspec.Struct, frozen=True):
    """What a node has for the claims of a pod, as of then."""

    stamp: Stamp
    labels: Mapping[str, str]
    devices: list[ClaimDevices] | None
    reason: str


class _Answers(msgspec.Struct):
    """To claims that ask for the same."""

    of_node: dict[str, _Answer] = {}
    #: Of nodes that have no devices of their own and see the same pools, as of that version of what all may reach.
    version: int = 0
    alike: dict[tuple[Pool, ...], tuple[list[ClaimDevices] | None, str]] = {}


class DynamicResources(Plugin):
    name = "DynamicResources"
    arguments = DynamicResourcesArguments
    repeats_post_filter = True
    events = (
        EventKind.NODE_ADDED
        | EventKind.NODE_LABELS
        | EventKind.NODE_ALLOCATABLE
        | EventKind.DEVICE_CLASSES
        | EventKind.DEVICE_SLICES
        | EventKind.DEVICE_CLAIMS
        | EventKind.OWN_DEVICE_CLAIMS
    )

    @classmethod
    def configured(cls, args: DynamicResourcesArguments) -> Self:
        return cls(parse_seconds(args.binding_timeout))

    def __init__(self, binding_timeout: float = 600.0) -> None:
        """`binding_timeout`: seconds that devices may take to be prepared for the node."""
        self._binding_timeout = binding_timeout
        self._selectors = Selectors()
        #: By what the claims ask for.
        self._answers: LruCache[tuple[bytes, ...], _Answers] = LruCache(_REMEMBERED)
        self._unfinished: list[tuple[dict[str, _Answer], str]] = []

    # --- before nodes are looked at -----------------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod, snapshot: Snapshot) -> Refused | None:
        """The claims must be there before the pod is tried."""
        return _missing(device_claims_of(pod), snapshot)

    def pre_filter(self, requirements: PodRequirements, snapshot: Snapshot) -> Refused | None:
        if not requirements.device_claims:
            return None
        if (missing := _missing(requirements.device_claims, snapshot)) is not None:
            return missing
        pod = requirements.device_claims[0].pod_uid
        for claim in _claims(requirements, snapshot):
            if claim.status.allocation is not None:
                if not claim.can_be_reserved and not claim.is_reserved_for(pod):
                    return Refused("resourceclaim in use")
                continue
            if snapshot.device_claims.is_being_allocated(claim):
                return Refused(f"resource claim {claim.metadata.key} is in the process of being allocated")
            if (unknown := _unknown_class(claim, snapshot.device_offers.classes)) is not None:
                return unknown
        return None

    # --- nodes --------------------------------------------------------------------------------------------------------

    def filters(self, requirements: PodRequirements) -> bool:
        return bool(requirements.device_claims or requirements.device_amounts)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        if not _claims_any(requirements, snapshot):
            return np.ones(len(rows), dtype=np.bool_)
        if self.pre_filter(requirements, snapshot) is not None:
            return np.zeros(len(rows), dtype=np.bool_)
        return np.array([not reason for reason in self._reasons(requirements, snapshot, rows)], dtype=np.bool_)

    def refusals(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Refusals:
        """Evicting pods brings no devices: claims keep them until their pods are gone for good."""
        reasons = Counter(self._reasons(requirements, snapshot, rows))
        return Refusals(reasons, np.ones(len(rows), dtype=np.bool_))

    def _reasons(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> list[str]:
        """Row by row why it will not do; empty if it will."""
        effort = Effort()
        having = [claim for claim in _claims(requirements, snapshot) if claim.status.allocation is not None]
        unready = any(self._is_lost(claim) for claim in having)
        found = []
        for row in rows.tolist():
            node = snapshot.nodes[row]
            if node is None:
                reason = NO_DEVICES
            elif wanted := _wanted(requirements, snapshot, node):
                reason = self._answer(wanted, snapshot, node, effort).reason
            else:
                reason = ""
            if not reason and node and (unready or not all(_is_reached(claim, node) for claim in having)):
                reason = ELSEWHERE
            found.append(reason)
        return found

    def _is_lost(self, claim: ResourceClaim) -> bool:
        """Whether its devices were not prepared, and will not be."""
        state = binding_state(claim)
        return bool(state.failure) or (not state.is_ready and is_overdue(claim, self._binding_timeout))

    # --- devices ------------------------------------------------------------------------------------------------------

    def _answer(self, claims: Sequence[ResourceClaim], snapshot: Snapshot, node: Node, effort: Effort) -> _Answer:
        """What the node has for these claims, or others that ask for the same."""
        key = tuple(snapshot.device_claims.wanted(claim) for claim in claims)
        if (known_answers := self._answers.get(key)) is None:
            known_answers = _Answers()
            self._answers.put(key, known_answers)
        answers = known_answers.of_node
        offers, name, labels = snapshot.device_offers, node.metadata.name, node.metadata.labels
        stamp, known = offers.stamp(name), answers.get(name)
        if known is not None and known.stamp == stamp and (not offers.has_shared or known.labels == labels):
            return known
        if known_answers.version != stamp.common:
            known_answers.version, known_answers.alike = stamp.common, {}
        devices, reason = self._allocated(claims, snapshot, node, effort, known_answers.alike)
        if len(answers) > 2 * len(snapshot.nodes):
            for gone in [known for known in answers if snapshot.row_of(known) is None]:
                del answers[gone]
        answer = answers[name] = _Answer(stamp, labels, devices, reason)
        if reason == TOO_LONG:
            self._unfinished.append((answers, name))
        return answer

    def _forget_unfinished(self) -> None:
        """A decision is over: what took too long goes on with the next, by what was found out about devices."""
        for answers, name in self._unfinished:
            if (answer := answers.get(name)) is not None and answer.reason == TOO_LONG:
                del answers[name]
        self._unfinished.clear()

    def _allocated(
        self,
        claims: Sequence[ResourceClaim],
        snapshot: Snapshot,
        node: Node,
        effort: Effort,
        alike: dict[tuple[Pool, ...], tuple[list[ClaimDevices] | None, str]],
    ) -> tuple[list[ClaimDevices] | None, str]:
        """Devices of the node for the claims, or why there are none; those of its equals, if these are known."""
        try:
            effort.check()
            pools = snapshot.device_offers.pools_of(node, effort)
        except TooMuchEffort:
            return None, TOO_LONG
        if snapshot.device_offers.has_own(node.metadata.name) or any(pool.is_per_device for pool in pools):
            return self._searched(claims, snapshot, node, pools, effort)
        view = tuple(pools)
        if (found := alike.get(view)) is None:
            found = self._searched(claims, snapshot, node, pools, effort)
            if found[1] != TOO_LONG:
                alike[view] = found
        return found

    def _searched(
        self, claims: Sequence[ResourceClaim], snapshot: Snapshot, node: Node, pools: Sequence[Pool], effort: Effort
    ) -> tuple[list[ClaimDevices] | None, str]:
        offers = snapshot.device_offers
        try:
            allocator = Allocator(node, pools, snapshot.device_claims.taken, offers.classes, self._selectors, effort)
            devices = allocator.allocate(claims)
        except NodeError as error:
            return None, str(error)
        except TooMuchEffort:
            return None, TOO_LONG
        except AllocationError as error:
            raise CannotDecide(f'running "{self.name}" filter plugin: {error}') from None
        return devices, "" if devices is not None else NO_DEVICES

    # --- the node is found, or none is --------------------------------------------------------------------------------

    def post_filter(self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime) -> NoRoom:
        """Devices that keep the pod from every node are given up, if nobody else has them."""
        snapshot = runtime.decider.snapshot
        self._forget_unfinished()
        if found.outright:
            return NoRoom(NO_CLAIMS) if self.name in found.plugins else NoRoom(NOT_FOUND, is_final=True)
        if not _claims_any(request.requirements, snapshot):
            return NoRoom(NO_CLAIMS)
        nodes = [node for node in snapshot.nodes if node is not None]
        for claim in _claims(request.requirements, snapshot):
            if claim.status.allocation is None or not _is_alone(claim, pod):
                continue
            if self._is_lost(claim) or not all(_is_reached(claim, node) for node in nodes):
                return NoRoom(DEALLOCATED, gives_up=claim)
        if (left := snapshot.device_claims.extended_of(pod.metadata.uid)) is not None:
            return NoRoom(DELETED, gives_up=left)
        return NoRoom(STILL_NOT, is_unfinished=TOO_LONG in found.reasons)

    def reserve(self, pod: Pod, node: str, handle: Handle) -> None:
        """The devices count as taken from now on (SignalClaimPendingAllocation)."""
        if not pod.spec.resource_claims and not device_amounts_of(pod):
            return
        snapshot, row = handle.snapshot, handle.snapshot.row_of(node)
        found = snapshot.nodes[row] if row is not None else None
        placed = snapshot.placed(pod.metadata.key)
        if found is None or placed is None:
            return
        uid, requirements = pod.metadata.uid, placed.requirements
        allocated = self._allocations(_wanted(requirements, snapshot, found, uid), snapshot, found)
        snapshot.device_claims.reserve(uid, allocated, [claim.key for claim in requirements.device_claims])

    def _allocations(
        self, wanted: Sequence[ResourceClaim], snapshot: Snapshot, node: Node
    ) -> list[tuple[ResourceClaim, Obj]]:
        """What these claims are to get on the node."""
        if not wanted:
            return []
        answer = self._answer(wanted, snapshot, node, Effort())
        self._forget_unfinished()
        if answer.devices is None:
            raise CannotDecide("claim allocation not found for node")
        given = zip(wanted, answer.devices, strict=True)
        return [(claim, allocation_of(claim, devices, node.metadata.name)) for claim, devices in given]

    def unreserve(self, pod: Pod, node: str, handle: Handle) -> None:
        handle.snapshot.device_claims.release(pod.metadata.uid)

    def pre_binds(self, pod: Pod, node: str, handle: Handle) -> bool:
        return bool(device_claims_of(pod)) or bool(handle.snapshot.device_claims.reserved_for(pod.metadata.uid))

    async def pre_bind(self, pod: Pod, node: str, handle: Handle) -> None:
        """Return once the pod's claims have their devices, for this pod, and these are ready."""
        writer = ClaimWriter(pod, node, handle)
        try:
            await writer.write()
            await writer.devices_ready(self._binding_timeout)
        except Exception:
            await writer.take_back()
            raise

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """Of claims: the pod's own, once there or changed; or any that gives its devices back."""
        if not event.kinds & EventKind.DEVICE_CLAIMS:
            return True
        old, new = event.old_device_claim, event.new_device_claim
        has_had = old is not None and old.status.allocation is not None
        if new is None:
            return has_had
        if has_had and new.status.allocation is None:
            return True
        is_own = any(claim.key == new.metadata.key for claim in request.requirements.device_claims)
        return is_own and (old is None or old.status != new.status)


def _missing(named: Sequence[DeviceClaim], snapshot: Snapshot) -> Refused | None:
    """Why the pod cannot have one of its claims yet, or ever."""
    for each in named:
        if not each.key:
            return Refused(f'pod "{each.pod_key}": ResourceClaim not created yet')
        claim = snapshot.device_claims.get(each.key)
        if claim is None:
            return Refused(f'could not find ResourceClaim "{each.key}"')
        if claim.metadata.is_terminating:
            return Refused(f'resourceclaim "{claim.metadata.name}" is being deleted')
        if each.is_from_template and (problem := claim.foreign_owner(each.pod_key, each.pod_uid)):
            return Refused(problem)
    return None


def _claims(requirements: PodRequirements, snapshot: Snapshot) -> list[ResourceClaim]:
    """Those that are there, each once, as they are to the pod."""
    pods = {named.key: named.pod_uid for named in requirements.device_claims}
    return [claim for key, pod in pods.items() if (claim := snapshot.device_claims.seen_by(pod, key)) is not None]


def _claims_any(requirements: PodRequirements, snapshot: Snapshot) -> bool:
    """Whether there is anything to look at."""
    return bool(requirements.device_claims) or snapshot.device_offers.replaces(requirements.device_amounts)


def _wanted(requirements: PodRequirements, snapshot: Snapshot, node: Node, pod: str = "") -> list[ResourceClaim]:
    """The claims that have no devices yet, on that node also the one for extended resources of the pod of that uid."""
    wanted = [claim for claim in _claims(requirements, snapshot) if claim.status.allocation is None]
    if requirements.device_amounts:
        extended = claim_for(requirements.device_amounts, node, snapshot.device_offers.class_of, pod)
        wanted += () if extended is None else (extended,)
    return wanted


def _unknown_class(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> Refused | None:
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            ways: list[tuple[str, AskedDevices]] = [(request.name, request.exactly)]
        else:
            ways = [(f"{request.name}/{asked.name}", asked) for asked in request.first_available or ()]
        for name, asked in ways:
            if asked.device_class_name not in classes:
                return Refused(f"request {name}: device class {asked.device_class_name} does not exist")
    return None


def _is_reached(claim: ResourceClaim, node: Node) -> bool:
    allocation = claim.status.allocation
    return allocation is None or allocation.node_selector is None or selects(allocation.node_selector, node)


def _is_alone(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether nobody but the pod has the claim."""
    return all(consumer.uid == pod.metadata.uid for consumer in claim.consumers)
