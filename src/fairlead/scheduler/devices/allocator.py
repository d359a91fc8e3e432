"""Finds devices on a node for the claims of a pod: the first choice that meets everything, in the order of the pools.

claim ▸ request ▸ (one of its alternatives) ▸ device ▸ next device of the request … until every claim has all

Each step makes one choice and can take it back. Devices of one request are chosen in their order, so that no set of
them is tried twice; who comes first may be left out later for the sake of the others.

Source: structured/internal/incubating/allocator_incubating.go of k8s.io/dynamic-resource-allocation (1.36), with what
is on by default there: admin access, alternatives, shared counters, taints, binding conditions, shared devices.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from fairlead.api.devices import (
    ALL,
    MOST_ALTERNATIVES,
    MOST_RESULTS,
    AskedDevices,
    DeviceClass,
    DeviceId,
    DeviceSelector,
    ResourceClaim,
)
from fairlead.api.quantity import Quantity
from fairlead.api.scheduling import Node
from fairlead.api.taints import BINDING_EFFECTS, is_tolerated
from fairlead.scheduler.devices.capacity import Amounts, taken_by
from fairlead.scheduler.devices.constraints import AttributeConstraint
from fairlead.scheduler.devices.counters import Counters, number_of_counters
from fairlead.scheduler.devices.effort import Effort
from fairlead.scheduler.devices.pools import Candidate, Pool
from fairlead.scheduler.devices.selectors import SelectorError, Selectors, TakesLong

T = TypeVar("T")

#: Something that takes long, and has to be done before a search goes on.
Job: TypeAlias = Callable[[], None]
#: What is looked for step by step: others may have a turn wherever it yields.
Search: TypeAlias = Generator[Job | None, None, T]


class AllocationError(Exception):
    """Something is wrong with a claim, a class or a pool: nobody can say whether the node will do."""


class NodeError(Exception):
    """Something is wrong with what this node can reach; others may do."""


class Taken(msgspec.Struct, frozen=True):
    """What other claims have."""

    devices: Container[DeviceId]
    #: Of devices that several claims share.
    capacity: Mapping[DeviceId, Mapping[str, Quantity]]


class Chosen(msgspec.Struct, frozen=True):
    """A device for a request, or a share of one."""

    request: str
    asked: AskedDevices
    candidate: Candidate
    consumed: Amounts

    @property
    def is_share(self) -> bool:
        return bool(self.candidate.device.allow_multiple_allocations)


class Way(NamedTuple):
    """One way to fulfil a request: all of it, or an alternative."""

    name: str  # as it stands in the results: `request`, or `request/alternative`
    names: tuple[str, ...]  # that constraints may call it
    asked: AskedDevices
    needed: int
    candidates: Sequence[Candidate]  # all that are meant, or all that there are
    class_: DeviceClass
    #: Of alternatives the earlier are the better; 0 if there is none.
    preference: int = 0


class ClaimDevices(msgspec.Struct, frozen=True):
    """What one claim would get."""

    chosen: tuple[Chosen, ...]
    #: How each of its requests is fulfilled, in their order.
    fulfilled: tuple[Way, ...]

    @property
    def preference(self) -> int:
        """The higher, the better are the alternatives."""
        return sum(way.preference for way in self.fulfilled)


class _Place(NamedTuple):
    """How far the search is."""

    claim: int = 0
    request: int = 0
    way: int | None = None
    device: int = 0
    start: int = 0  # of the candidates, from where on one is chosen


class _Claim(msgspec.Struct, eq=False):
    claim: ResourceClaim
    ways: list[list[Way]]  # by request
    constraints: list[AttributeConstraint]
    chosen: list[Chosen] = msgspec.field(default_factory=list)
    fulfilled: list[Way] = msgspec.field(default_factory=list)


class Allocator:
    """For one node."""

    def __init__(
        self,
        node: Node,
        pools: Sequence[Pool],
        taken: Taken,
        classes: Mapping[str, DeviceClass],
        selectors: Selectors,
        effort: Effort,
    ) -> None:
        self._pools, self._taken, self._classes = pools, taken, classes
        self._selectors, self._effort = selectors, effort
        self._candidates = [each for pool in pools if pool.can_be_used for each in pool.candidates(node, effort)]
        #: What was just tried had too many devices for its claim: who chose before in that claim need not go on.
        self._too_many = False
        self._counters = Counters(taken.devices, taken.capacity)
        #: By device, the claims that are getting it; and what shares are being taken.
        self._given: dict[DeviceId, list[int]] = {}
        self._shares: dict[DeviceId, list[Amounts]] = {}
        self._claims: list[_Claim] = []

    def allocate(self, claims: Sequence[ResourceClaim]) -> list[ClaimDevices] | None:
        """Devices for each of the claims; None if the node does not have them.

        Raises AllocationError, NodeError or TooMuchEffort.
        """
        return drained(self.search(claims))

    def search(self, claims: Sequence[ResourceClaim]) -> Search[list[ClaimDevices] | None]:
        """The same, step by step."""
        self._claims = []
        for claim in claims:
            self._claims.append((yield from self._prepared(claim)))
        if not (yield from self._is_found()):
            if any(pool.is_invalid for pool in self._pools):
                raise NodeError("invalid resource pools were encountered")
            return None
        return [ClaimDevices(tuple(claim.chosen), tuple(claim.fulfilled)) for claim in self._claims]

    # --- what is asked for --------------------------------------------------------------------------------------------

    def _prepared(self, claim: ResourceClaim) -> Search[_Claim]:
        devices, key = claim.spec.devices, claim.metadata.key
        ways: list[list[Way]] = []
        for request in devices.requests or ():
            if request.exactly is not None:
                ways.append([(yield from self._way(claim, request.name, (request.name,), request.exactly))])
                continue
            alternatives = []
            for place, asked in enumerate(request.first_available or ()):
                name = f"{request.name}/{asked.name}"
                way = yield from self._way(claim, name, (request.name, name), asked)
                alternatives.append(way._replace(preference=MOST_ALTERNATIVES - place))
            ways.append(alternatives)
        least = sum(min((way.needed for way in of_request), default=0) for of_request in ways)
        if least > MOST_RESULTS:
            text = f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            raise AllocationError(f"claim {key}: {text}")
        return _Claim(claim, ways, [AttributeConstraint(constraint) for constraint in devices.constraints or ()])

    def _way(self, claim: ResourceClaim, name: str, names: tuple[str, ...], asked: AskedDevices) -> Search[Way]:
        about = f"claim {claim.metadata.key}, request {asked.name or name}"
        found = self._classes.get(asked.device_class_name)
        if found is None:
            missing = f'deviceclass.resource.k8s.io "{asked.device_class_name}" not found'
            raise AllocationError(f"{about}: could not retrieve device class {asked.device_class_name}: {missing}")
        if asked.allocation_mode != ALL:
            return Way(name, names, asked, asked.count, self._candidates, found)
        for pool in self._pools:
            if not pool.can_be_used:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(f"{about}: asks for all devices, but resource pool {pool} is currently {state}")
        meant = []
        for candidate in self._candidates:
            is_meant = yield from _patiently(partial(self._is_meant, claim, found, asked, candidate))
            if is_meant and self._share(asked, candidate) is not None:
                meant.append(candidate)
        return Way(name, names, asked, len(meant), meant, found)

    def _is_meant(self, claim: ResourceClaim, class_: DeviceClass, asked: AskedDevices, candidate: Candidate) -> bool:
        """Whether the selectors of the class and of the request select the device."""
        return self._selects(class_.spec.selectors, f"class {class_.metadata.name}", candidate) and self._selects(
            asked.selectors, f"claim {claim.metadata.key}", candidate
        )

    def _selects(self, selectors: Sequence[DeviceSelector] | None, whose: str, candidate: Candidate) -> bool:
        for number, selector in enumerate(selectors or ()):
            expression = selector.cel.expression if selector.cel is not None else ""
            try:
                if not self._selectors.match(expression, candidate.offered, candidate.index, self._effort):
                    return False
            except SelectorError as error:
                raise AllocationError(f"{whose}: selector #{number}: {error}") from None
        return True

    # --- the search -------------------------------------------------------------------------------------------------

    def _is_found(self) -> Search[bool]:
        """Depth first, without recursion: a pod may ask for a thousand devices."""
        choices = [self._choices(_Place())]
        while choices:
            try:
                place = next(choices[-1])
            except StopIteration:
                choices.pop()
                continue
            if not isinstance(place, _Place):
                yield place
            elif place.claim == len(self._claims):
                return True
            else:
                choices.append(self._choices(place))
        return False

    def _choices(self, place: _Place) -> Generator[_Place | Job | None, None, None]:
        """Makes one choice after the other, each taken back before the next; yields how far the search is then."""
        claim = self._claims[place.claim] if place.claim < len(self._claims) else None
        if claim is None:
            yield place
        elif place.request == len(claim.ways):
            yield _Place(place.claim + 1)
            self._too_many = False
        elif place.way is None:
            is_hopeless = True
            for number in range(len(claim.ways[place.request])):
                yield place._replace(way=number)
                is_hopeless &= self._too_many
                self._too_many = False
            self._too_many = is_hopeless
        else:
            way = claim.ways[place.request][place.way]
            if place.device == way.needed and (way.needed or way.asked.allocation_mode != ALL):
                claim.fulfilled.append(way)
                yield _Place(place.claim, place.request + 1)
                claim.fulfilled.pop()
            elif len(claim.chosen) + way.needed - place.device > MOST_RESULTS:
                self._too_many = True
            else:
                yield from self._devices(claim, way, place)

    def _devices(self, claim: _Claim, way: Way, place: _Place) -> Generator[_Place | Job | None, None, None]:
        is_all = way.asked.allocation_mode == ALL  # these are all needed: there is one choice
        last = min(place.start + 1, way.needed) if is_all else len(way.candidates)
        for number in range(place.start, last):
            candidate = way.candidates[number]
            self._effort.look_at()
            chosen = yield from _patiently(partial(self._take, place.claim, claim, way, candidate))
            if chosen is not None:
                yield place._replace(device=place.device + 1, start=number + 1)
                self._give_back(place.claim, claim, way, chosen)
                if self._too_many:
                    return

    def _take(self, number: int, claim: _Claim, way: Way, candidate: Candidate) -> Chosen | None:
        """Give the device to the claim, if it may have it."""
        device, id_, asked = candidate.device, candidate.id, way.asked
        if self._is_in_use(number, asked, candidate) or not _tolerates(asked, candidate):
            return None
        if not self._is_meant(claim.claim, way.class_, asked, candidate):
            return None
        counts = self._counts(candidate)
        self._effort.try_one(len(claim.constraints) + (number_of_counters(device) if counts else 0))
        consumed = self._share(asked, candidate)
        if consumed is None:
            return None
        if counts and not self._counters.take(candidate.pool, device):
            return None
        for index, constraint in enumerate(claim.constraints):
            if not constraint.add(way.names, id_[0], device):
                for added in claim.constraints[:index]:
                    added.remove(way.names, id_[0], device)
                if counts:
                    self._counters.give_back(candidate.pool, device)
                if asked.allocation_mode == ALL:  # a claim that contradicts itself
                    about, name = f"claim {claim.claim.metadata.key}, request {asked.name or way.name}", "/".join(id_)
                    why = "because a claim constraint would not be satisfied"
                    raise AllocationError(f"{about}: cannot add device {name} {why}")
                return None
        if device.allow_multiple_allocations:
            self._shares.setdefault(id_, []).append(consumed)
        else:
            self._given.setdefault(id_, []).append(number)
        chosen = Chosen(way.name, asked, candidate, consumed)
        claim.chosen.append(chosen)
        return chosen

    def _give_back(self, number: int, claim: _Claim, way: Way, chosen: Chosen) -> None:
        candidate = chosen.candidate
        device, id_ = candidate.device, candidate.id
        claim.chosen.pop()
        if device.allow_multiple_allocations:
            self._shares[id_].pop()
        else:
            self._given[id_].remove(number)
        for constraint in claim.constraints:
            constraint.remove(way.names, id_[0], device)
        if self._counts(candidate):
            self._counters.give_back(candidate.pool, device)

    def _is_in_use(self, number: int, asked: AskedDevices, candidate: Candidate) -> bool:
        """Who administers devices gets those of others, too, but each once."""
        given = self._given.get(candidate.id, ())
        if asked.admin_access:
            return number in given
        return bool(given) or candidate.id in self._taken.devices

    def _counts(self, candidate: Candidate) -> bool:
        """Whether the device takes from counters: one that is shared does so for the first share."""
        if not candidate.device.consumes_counters:
            return False
        return not candidate.device.allow_multiple_allocations or not (
            candidate.id in self._taken.capacity or self._shares.get(candidate.id)
        )

    def _share(self, asked: AskedDevices, candidate: Candidate) -> Amounts | None:
        """What of the device's capacity the request would take; None if there is not enough."""
        in_use = dict(self._taken.capacity.get(candidate.id, {}))
        for share in self._shares.get(candidate.id, ()):
            for name, amount in share.items():
                in_use[name] = in_use[name] + amount if name in in_use else amount
        return taken_by(asked, candidate.device, in_use)


def drained(search: Search[T]) -> T:
    """What comes of the search, all of it done at once."""
    while True:
        try:
            job = next(search)
        except StopIteration as end:
            found: T = end.value
            return found
        if job is not None:
            job()


def _patiently(call: Callable[[], T]) -> Search[T]:
    """What the call returns, once what takes long has been found out."""
    yield None
    while True:
        try:
            return call()
        except TakesLong as long:
            yield long.job


def _tolerates(asked: AskedDevices, candidate: Candidate) -> bool:
    return all(
        taint.effect not in BINDING_EFFECTS or is_tolerated(taint, asked.tolerations or ())
        for taint in candidate.device.taints or ()
    )
