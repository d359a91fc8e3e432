"""Many endpoints in slices of a hundred, changed as little as possible.

A slice has one set of ports and one family of addresses. An endpoint stays in its slice as long as it is wanted; new
ones first fill the slices that change anyway. Source: k8s.io/endpointslice/reconciler.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.labels import LabelSelector
from fairlead.api.objects import Obj
from fairlead.api.services import EndpointSlice
from fairlead.controllers.actions import Action, Actions, Create, Delete, GiveWay, Patch, Together, refusals
from fairlead.controllers.base import Wakes, World
from fairlead.controllers.endpoints.backends import SERVICE_NAME
from fairlead.controllers.kinds import ENDPOINT_SLICES
from fairlead.controllers.selecting import selected

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MOST_ENDPOINTS: Final = 100
#: With a thousand ports, these many are compared in some 30 ms.
_SLICES_A_TURN: Final = 25

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


class PortGroup(msgspec.Struct):
    """The endpoints of one family that have the same ports."""

    family: str
    ports: list[Obj]
    endpoints: list[Obj] = msgspec.field(default_factory=list)

    @property
    def key(self) -> tuple[str, bytes]:
        return self.family, _encode(sorted(map(_encode, self.ports)))


def service_of_slices(manager: str) -> Wakes:
    """A slice of the manager's that somebody changed or removed is put right again."""

    def wakes(world: World, old: EndpointSlice | None, new: EndpointSlice | None) -> Iterator[str]:
        if old is not None and old.metadata.labels.get(MANAGED_BY) == manager:
            yield f"{old.metadata.namespace}/{old.metadata.labels.get(SERVICE_NAME, '')}"

    return wakes


def slices_of(world: World, manager: str, namespace: str, service: str) -> list[EndpointSlice]:
    """The slices that the manager keeps for a service, by name."""
    selector = LabelSelector(match_labels={SERVICE_NAME: service, MANAGED_BY: manager})
    found = selected(world, ENDPOINT_SLICES, namespace, selector)
    return [entry for entry in found if not entry.metadata.is_terminating]


def grouped(found: Iterable[tuple[str, list[Obj], Obj]]) -> list[PortGroup]:
    """(family, ports, endpoint) by family and ports."""
    groups: dict[tuple[str, bytes], PortGroup] = {}
    known: dict[tuple[str, int], PortGroup] = {}  # by the list, which many may share: a key is made of all its ports
    lists: list[list[Obj]] = []
    for family, ports, endpoint in found:
        group = known.get((family, id(ports)))
        if group is None:
            lists.append(ports)  # while it is kept, no other has its id
            new = PortGroup(family, ports)
            group = known[family, id(ports)] = groups.setdefault(new.key, new)
        group.endpoints.append(endpoint)
    return list(groups.values())


class _Draft(msgspec.Struct, frozen=True):
    """What a slice should hold."""

    group: PortGroup
    endpoints: Sequence[Obj]
    current: EndpointSlice | None = None


def write_slices(
    existing: Sequence[EndpointSlice],
    groups: Sequence[PortGroup],
    meta: Obj,
    along: Mapping[str, str | None] | None = None,
) -> Actions:
    """Make the slices hold just these groups. `meta` is the metadata of a new one: its labels hold for all.

    So do its annotations, unless there are some that go `along` with whatever else changes (None takes one off).
    """
    drafts, unused = _planned(existing, groups)
    actions: list[Action] = []
    for number, draft in enumerate(drafts, 1):
        if number % _SLICES_A_TURN == 0:
            yield GiveWay()
        current = draft.current
        if current is None and (reusable := _of_family(unused, draft.group.family)) is not None:
            unused.remove(reusable)
            current = reusable
        action = _create(draft, meta, along) if current is None else _change(current, draft, meta, along)
        if action is not None:
            actions.append(action)
    actions += [Delete(ENDPOINT_SLICES, slice_) for slice_ in unused]
    failed = refusals((yield Together(actions))) if actions else []
    if failed:
        raise failed[0]


def _planned(
    existing: Sequence[EndpointSlice], groups: Sequence[PortGroup]
) -> tuple[list[_Draft], list[EndpointSlice]]:
    """What every slice should hold, and which slices nobody needs any more."""
    by_key: dict[tuple[str, bytes], list[EndpointSlice]] = {}
    keys: dict[tuple[str, bytes], tuple[str, bytes]] = {}  # by what is written, which most slices have in common
    for slice_ in existing:
        written = slice_.address_type, bytes(slice_.ports)
        if written not in keys:
            keys[written] = PortGroup(slice_.address_type, _list(slice_.ports)).key
        by_key.setdefault(keys[written], []).append(slice_)
    drafts: list[_Draft] = []
    unused: list[EndpointSlice] = []
    for group in groups:
        current = by_key.pop(group.key, [])
        filled = _filled(current, group)
        drafts += filled
        used = {draft.current.metadata.uid for draft in filled if draft.current is not None}
        unused += [slice_ for slice_ in current if slice_.metadata.uid not in used]
    for left in by_key.values():
        unused += left
    return drafts, unused


def _filled(existing: Sequence[EndpointSlice], group: PortGroup) -> list[_Draft]:
    """The endpoints of a group over its slices."""
    wanted = {_identity(endpoint): endpoint for endpoint in group.endpoints}
    kept: list[tuple[EndpointSlice, list[Obj], bool]] = []
    for slice_ in existing:
        old = _list(slice_.endpoints)
        stays = [wanted.pop(identity) for endpoint in old if (identity := _identity(endpoint)) in wanted]
        kept.append((slice_, stays, stays != old))
    new = list(wanted.values())
    for _, stays, changes in sorted(kept, key=lambda each: (not each[2], -len(each[1]))):
        if changes or len(stays) + len(new) <= MOST_ENDPOINTS:
            room = MOST_ENDPOINTS - len(stays)
            stays += new[:room]
            new = new[room:]
    drafts = [_Draft(group, stays, slice_) for slice_, stays, _ in kept if stays or not group.endpoints]
    for start in range(0, len(new), MOST_ENDPOINTS):
        drafts.append(_Draft(group, new[start : start + MOST_ENDPOINTS]))
    if not group.endpoints:  # a service without endpoints has one empty slice
        return drafts[:1] or [_Draft(group, ())]
    return drafts


def _of_family(slices: Sequence[EndpointSlice], family: str) -> EndpointSlice | None:
    return next((slice_ for slice_ in slices if slice_.address_type == family), None)


def _identity(endpoint: Obj) -> tuple[Any, ...]:
    """What makes it the same endpoint although its readiness changes."""
    return (*endpoint["addresses"], (endpoint.get("targetRef") or {}).get("uid"))


def _create(draft: _Draft, meta: Obj, along: Mapping[str, str | None] | None) -> Create:
    if along:
        meta = meta | {"annotations": {key: value for key, value in along.items() if value is not None}}
    obj: Obj = {
        "apiVersion": ENDPOINT_SLICES.resource.api_version,
        "kind": ENDPOINT_SLICES.resource.kind,
        "metadata": dict(meta),
        "addressType": draft.group.family,
        "endpoints": list(draft.endpoints) or None,
        "ports": draft.group.ports or None,
    }
    return Create(ENDPOINT_SLICES, obj)


def _change(current: EndpointSlice, draft: _Draft, meta: Obj, along: Mapping[str, str | None] | None) -> Patch | None:
    patch: Obj = {}
    if _list(current.endpoints) != list(draft.endpoints):
        patch["endpoints"] = list(draft.endpoints) or None
    if _list(current.ports) != draft.group.ports:
        patch["ports"] = draft.group.ports or None
    changed = {
        name: changes
        for name in (("labels", "annotations") if along is None else ("labels",))
        if (changes := _changed(getattr(current.metadata, name), meta.get(name, {})))
    }
    if changed:
        patch["metadata"] = changed
    if patch and along:
        patch["metadata"] = changed | {"annotations": dict(along)}
    return Patch(ENDPOINT_SLICES, current, patch) if patch else None


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> Obj:
    """A merge patch from one to the other."""
    changes: Obj = {key: None for key in old if key not in new}
    return changes | {key: value for key, value in new.items() if old.get(key) != value}


def _list(raw: msgspec.Raw) -> list[Obj]:
    return _decode(raw) or []
