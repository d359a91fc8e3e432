"""Which volumes the claims of a pod would get on which node, where that is chosen after the node.

Sources: FindPodVolumes of pkg/scheduler/framework/plugins/volumebinding/binder.go. A claim gets, of the volumes that
the node can reach, one that is kept for it, else the smallest that does; small claims choose first. Where there is
none, its class must be able to make one near that node, and if its driver tells where it has room, there must be room.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fairlead.api.binding import NO_PROVISIONER, may_have, offers_access
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, TopologyTerm
from fairlead.api.quantity import ZERO, Quantity
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.facts.volumes import ClaimPlan
from fairlead.scheduler.plugins.node.affinity import any_term, has_label, has_labels, selected_rows
from fairlead.scheduler.snapshot import Snapshot


class Choice(msgspec.Struct):
    """Row by row of those asked about."""

    #: Where every claim gets a volume.
    possible: Mask
    #: Where that fails because the driver has no room for one.
    lacks_room: Mask
    #: Which claim gets which volume, and where.
    given: list[tuple[PersistentVolumeClaim, PersistentVolume, Mask]] = msgspec.field(default_factory=list)
    #: Which claim has its volume made, and where.
    made: list[tuple[PersistentVolumeClaim, Mask]] = msgspec.field(default_factory=list)


def plan_for(claims: Sequence[PersistentVolumeClaim], snapshot: Snapshot, row: int) -> ClaimPlan:
    """What the claims get on that one node, which is possible."""
    choice = choose(claims, snapshot, np.array([row], dtype=np.intp))
    return ClaimPlan(
        snapshot.names[row],
        [(claim, volume) for claim, volume, mask in choice.given if mask[0]],
        [claim for claim, mask in choice.made if mask[0]],
    )


def choose(claims: Sequence[PersistentVolumeClaim], snapshot: Snapshot, rows: Rows) -> Choice:
    """The volumes of claims that wait for their first consumer."""
    choice = Choice(np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_))
    missing: list[tuple[PersistentVolumeClaim, Mask]] = []
    for claim in claims:
        if node := snapshot.volumes.selected_node(claim):
            row = snapshot.row_of(node)
            here = rows == (-1 if row is None else row)
            choice.possible &= here
            missing.append((claim, here))
    taken: dict[str, Mask] = {}
    everywhere = np.ones(len(rows), dtype=np.bool_)
    free = [claim for claim in claims if not snapshot.volumes.selected_node(claim)]
    for claim in sorted(free, key=lambda claim: claim.requested.nanos):
        left = _give(claim, choice, taken, everywhere, snapshot, rows)
        if left.any():
            missing.append((claim, left))
    makers: dict[tuple[str, Quantity], _Maker | None] = {}
    for claim, where in missing:
        asked = (claim.class_name, claim.requested)
        if asked not in makers:
            makers[asked] = _maker_of(claim, snapshot, rows)
        _make(claim, where, choice, makers[asked])
    return choice


def _give(
    claim: PersistentVolumeClaim,
    choice: Choice,
    taken: dict[str, Mask],
    everywhere: Mask,
    snapshot: Snapshot,
    rows: Rows,
) -> Mask:
    """Give the claim a volume wherever one will do; returns where none does."""
    left = everywhere
    for volume in _candidates(claim, snapshot):
        fits = left & reached_from(volume, snapshot, rows)
        if (given := taken.get(volume.metadata.name)) is not None:
            fits &= ~given
        if fits.any():
            choice.given.append((claim, volume, fits))
            taken[volume.metadata.name] = fits if given is None else fits | given
            left = left & ~fits
        if not left.any():
            break
    return left


def _candidates(claim: PersistentVolumeClaim, snapshot: Snapshot) -> list[PersistentVolume]:
    """The best first. One that is kept for the claim is all that it may have."""
    key, kept, free = claim.metadata.key, [], []
    for volume in snapshot.volumes.candidates(claim):
        assumed = snapshot.volumes.assumed_claim_of(volume)
        if assumed not in ("", key) or not may_have(volume, claim):
            continue
        if assumed or volume.spec.claim_ref is not None:
            kept.append(volume)
        elif offers_access(volume, claim):
            free.append(volume)
    return sorted(kept, key=_size)[:1] or sorted(free, key=_size)


def _size(volume: PersistentVolume) -> tuple[Quantity, str]:
    return volume.capacity, volume.metadata.name


class _Maker(msgspec.Struct, frozen=True):
    """Where volumes of a class can be made: its topologies, and the driver's room for that size. None: anywhere."""

    near: Mask | None
    room: Mask | None


def _maker_of(claim: PersistentVolumeClaim, snapshot: Snapshot, rows: Rows) -> _Maker | None:
    """Who makes the claim's volume, the same for all claims of its class and size; None: nobody."""
    found = snapshot.volumes.classes.get(claim.class_name)
    if found is None or found.provisioner in ("", NO_PROVISIONER):
        return None
    near = _within(found.allowed_topologies, snapshot, rows) if found.allowed_topologies else None
    is_measured = claim.requested != ZERO and snapshot.storage_capacities.is_reported_by(found.provisioner)
    return _Maker(near, _has_room(claim, snapshot, rows) if is_measured else None)


def _make(claim: PersistentVolumeClaim, where: Mask, choice: Choice, maker: _Maker | None) -> None:
    """Have the claim's volume made on those rows, as far as its class can. The first claim that fails says why."""
    if maker is None:
        choice.possible &= ~where
        return
    able = where
    if maker.near is not None:
        able = where & maker.near
        choice.possible &= able | ~where
    if maker.room is not None:
        lacking = able & choice.possible & ~maker.room
        choice.lacks_room |= lacking
        choice.possible &= ~lacking
        able = able & ~lacking
    choice.made.append((claim, able))


def _has_room(claim: PersistentVolumeClaim, snapshot: Snapshot, rows: Rows) -> Mask:
    """The rows where the driver has room for the claim's volume. Where disks are the nodes' own there is an object for
    each node and class, so that those that name values of the same labels are looked up together.
    """
    mask = np.zeros(len(rows), dtype=np.bool_)
    places: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for room in snapshot.storage_capacities.of_class(claim.class_name):
        if room.limit < claim.requested:
            continue
        if room.keys:
            places.setdefault(room.keys, []).append(room.values)
        elif not mask.all():
            mask |= selected_rows(room.topology, snapshot, rows)
    for keys, wanted in places.items():
        mask |= has_labels(snapshot, rows, keys, wanted)
    return mask


def reached_from(volume: PersistentVolume, snapshot: Snapshot, rows: Rows) -> Mask:
    """The rows that the volume can be used on."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return np.ones(len(rows), dtype=np.bool_)
    return any_term(affinity.required.node_selector_terms or (), snapshot, rows)


def _within(terms: Sequence[TopologyTerm], snapshot: Snapshot, rows: Rows) -> Mask:
    """The rows that a class makes volumes for."""
    mask = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        matching = np.full(len(rows), bool(term.match_label_expressions))
        for wanted in term.match_label_expressions or ():
            matching &= has_label(snapshot, rows, wanted.key, wanted.values or ())
        mask |= matching
    return mask
