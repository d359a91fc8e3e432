"""Claims of devices: a node must have devices that meet what the pod's claims ask for (DynamicResources).

A claim that has no devices yet gets them with the node: they are found when nodes are filtered, reserved with the
decision, and written before the pod is bound (`claim_writer.py`). One that has some says where they can be reached.
Source: pkg/scheduler/framework/plugins/dynamicresources (1.36).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from fairlead.api.devices import AskedDevices, ClaimSpec, DeviceClass, ResourceClaim
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Node, Pod
from fairlead.api.strict import check
from fairlead.caches import LruCache
from fairlead.golang.durations import parse_seconds
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.devices.allocator import AllocationError
from fairlead.scheduler.devices.effort import Effort
from fairlead.scheduler.devices.extended import claim_for
from fairlead.scheduler.devices.node_answers import TOO_LONG, NodeAnswers
from fairlead.scheduler.devices.pools import selects
from fairlead.scheduler.devices.results import allocation_of
from fairlead.scheduler.devices.selectors import Selectors
from fairlead.scheduler.framework import (
    CannotDecide,
    ClusterEvent,
    EventKind,
    Handle,
    NoRoom,
    Plugin,
    Refusals,
    Refused,
    normalise_to_best,
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
#: Different wishes of which is kept what nodes have for them.
_REMEMBERED: Final = 64


class DynamicResourcesArguments(Arguments):
    filter_timeout: str = "10s"
    binding_timeout: str = "600s"


class DynamicResources(Plugin):
    name = "DynamicResources"
    arguments = DynamicResourcesArguments
    repeats_post_filter = True
    normalises = True
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
        binding, filtering = parse_seconds(args.binding_timeout), parse_seconds(args.filter_timeout)
        check(filtering >= 0, "filterTimeout", args.filter_timeout, "must be zero or positive")
        check(binding >= 1, "bindingTimeout", args.binding_timeout, "must be at least 1 second")
        return cls(binding, filtering)

    def __init__(self, binding_timeout: float = 600.0, filter_timeout: float = 10.0) -> None:
        """`binding_timeout`: seconds that devices may take to be prepared for the node; `filter_timeout`: that they are
        looked for on one node at most, or 0.
        """
        self._binding_timeout, self._filter_timeout = binding_timeout, filter_timeout or math.inf
        self._selectors = Selectors()
        #: By what the claims ask for.
        self._answers: LruCache[tuple[bytes, ...], NodeAnswers] = LruCache(_REMEMBERED)
        #: Those that the decision at hand rests on; and what is left for it, if it was begun in turns.
        self._asked: list[NodeAnswers] = []
        self._begun: tuple[PodRequirements, Effort] | None = None

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
        mask, effort = np.ones(len(rows), dtype=np.bool_), self._effort(requirements)
        for wanted, places in _wanted(requirements, snapshot, rows):
            mask[places] = self._found(wanted, snapshot, rows[places], effort).fits(rows[places])
        for claim in _claims(requirements, snapshot):
            if claim.status.allocation is not None:
                mask &= self._reached(claim, snapshot, rows)
        return mask

    def refusals(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Refusals:
        """Evicting pods brings no devices: claims keep them until their pods are gone for good."""
        reasons = Counter(self._reasons(requirements, snapshot, rows))
        return Refusals(reasons, np.ones(len(rows), dtype=np.bool_))

    async def look_in_turns(self, requirements: PodRequirements, snapshot: Snapshot) -> None:
        if not _claims_any(requirements, snapshot) or self.pre_filter(requirements, snapshot) is not None:
            return
        self._decision_over()
        effort = Effort()
        self._begun = requirements, effort
        try:
            rows = snapshot.rows()
            for wanted, places in _wanted(requirements, snapshot, rows):
                answers = self._answers_to(wanted, snapshot)
                await answers.find_in_turns(wanted, snapshot, rows[places], effort, self._filter_timeout)
        except AllocationError:
            pass  # it will be found again

    def _reasons(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> list[str]:
        """Row by row why it will not do; empty if it will."""
        effort, reasons = self._effort(requirements), [""] * len(rows)
        for wanted, places in _wanted(requirements, snapshot, rows):
            answers = self._found(wanted, snapshot, rows[places], effort)
            for place, row in zip(places.tolist(), rows[places].tolist(), strict=True):
                reasons[place] = answers.of(row).reason
        for claim in _claims(requirements, snapshot):
            if claim.status.allocation is not None:
                reached = self._reached(claim, snapshot, rows).tolist()
                reasons = [
                    reason or ("" if is_so else ELSEWHERE) for reason, is_so in zip(reasons, reached, strict=True)
                ]
        return reasons

    def _reached(self, claim: ResourceClaim, snapshot: Snapshot, rows: Rows) -> Mask:
        """Which of the nodes reach what the claim has, if that can be used at all."""
        if self._is_lost(claim, snapshot):
            return np.zeros(len(rows), dtype=np.bool_)
        nodes = (snapshot.nodes[row] for row in rows.tolist())
        return np.array([node is None or _is_reached(claim, node) for node in nodes], dtype=np.bool_)

    def scores(self, requirements: PodRequirements) -> bool:
        return bool(requirements.device_claims)

    def score(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Ints:
        """Where claims get the better of their alternatives (KEP-4816)."""
        scores = np.zeros(len(rows), dtype=np.int64)
        if self.pre_filter(requirements, snapshot) is None:
            for wanted, places in _wanted(requirements, snapshot, rows):
                answers = self._found(wanted, snapshot, rows[places], self._effort(requirements))
                scores[places] = answers.preferences(rows[places])
        return scores

    def normalise(self, scores: Ints) -> Ints:
        return normalise_to_best(scores)

    def _is_lost(self, claim: ResourceClaim, snapshot: Snapshot) -> bool:
        """Whether its devices were not prepared, and will not be; or are somebody else's."""
        state = binding_state(claim)
        is_unready = bool(state.failure) or (not state.is_ready and is_overdue(claim, self._binding_timeout))
        return is_unready or snapshot.device_claims.is_too_late(claim)

    # --- devices ------------------------------------------------------------------------------------------------------

    def _answers_to(self, claims: Sequence[ResourceClaim], snapshot: Snapshot) -> NodeAnswers:
        """What nodes have for these claims, or others that ask for the same."""
        key = tuple(snapshot.device_claims.wanted(claim) for claim in claims)
        if (answers := self._answers.get(key)) is None:
            answers = NodeAnswers(self._selectors)
            self._answers.put(key, answers)
        self._asked.append(answers)
        return answers

    def _found(self, claims: Sequence[ResourceClaim], snapshot: Snapshot, rows: Rows, effort: Effort) -> NodeAnswers:
        answers = self._answers_to(claims, snapshot)
        try:
            answers.find(claims, snapshot, rows, effort)
        except AllocationError as error:
            raise CannotDecide(f'running "{self.name}" filter plugin: {error}') from None
        return answers

    def _effort(self, requirements: PodRequirements) -> Effort:
        """What is left for the decision about them."""
        begun = self._begun
        return begun[1] if begun is not None and begun[0] is requirements else Effort()

    def _decision_over(self) -> None:
        for answers in self._asked:
            answers.decision_over()
        self._asked.clear()
        self._begun = None

    # --- the node is found, or none is --------------------------------------------------------------------------------

    def post_filter(self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime) -> NoRoom:
        """Devices that keep the pod from every node are given up, if nobody else has them."""
        snapshot = runtime.decider.snapshot
        self._decision_over()
        if found.outright:
            return NoRoom(NO_CLAIMS) if self.name in found.plugins else NoRoom(NOT_FOUND, is_final=True)
        if not _claims_any(request.requirements, snapshot):
            return NoRoom(NO_CLAIMS)
        nodes = [node for node in snapshot.nodes if node is not None]
        for claim in _claims(request.requirements, snapshot):
            if claim.status.allocation is None or not _is_alone(claim, pod):
                continue
            if self._is_lost(claim, snapshot) or not all(_is_reached(claim, node) for node in nodes):
                return NoRoom(DEALLOCATED, gives_up=claim)
        if (left := snapshot.device_claims.extended_of(pod.metadata.uid)) is not None:
            return NoRoom(DELETED, gives_up=left)
        return NoRoom(STILL_NOT, is_unfinished=TOO_LONG in found.reasons)

    def reserve(self, pod: Pod, node: str, handle: Handle) -> None:
        """The devices count as taken from now on (SignalClaimPendingAllocation)."""
        if not pod.spec.resource_claims and not device_amounts_of(pod):
            return
        snapshot = handle.snapshot
        placed = snapshot.placed(pod.metadata.key)
        if placed is None:
            return
        uid, requirements = pod.metadata.uid, placed.requirements
        allocated: list[tuple[ResourceClaim, Obj]] = []
        rows = np.array([placed.row], dtype=np.intp)
        for wanted, _ in _wanted(requirements, snapshot, rows, uid):
            devices = self._found(wanted, snapshot, rows, Effort()).of(placed.row).devices
            if devices is None:
                raise CannotDecide("claim allocation not found for node")
            allocated += [(each, allocation_of(each, given, node)) for each, given in zip(wanted, devices, strict=True)]
        self._decision_over()
        snapshot.device_claims.reserve(uid, allocated, [claim.key for claim in requirements.device_claims])

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


def _wanted(
    requirements: PodRequirements, snapshot: Snapshot, rows: Rows, pod: str = ""
) -> Iterator[tuple[list[ResourceClaim], Rows]]:
    """The claims that have no devices yet, and the places of the rows of nodes that are to have some for them; where a
    node has not the extended resources that the pod of that uid requests, also the claim for these.
    """
    claims = [claim for claim in _claims(requirements, snapshot) if claim.status.allocation is None]
    if not requirements.device_amounts:
        if claims:
            yield claims, np.arange(len(rows))
        return
    found: dict[ClaimSpec | None, tuple[list[ResourceClaim], list[int]]] = {}
    for place, row in enumerate(rows.tolist()):
        node = snapshot.nodes[row]
        if node is not None:
            extended = claim_for(requirements.device_amounts, node, snapshot.device_offers.class_of, pod)
            wanted = claims if extended is None else [*claims, extended]
            found.setdefault(None if extended is None else extended.spec, (wanted, []))[1].append(place)
    for wanted, places in found.values():
        if wanted:
            yield wanted, np.array(places, dtype=np.intp)


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
