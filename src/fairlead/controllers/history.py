"""The history of a template, kept as controller revisions (pkg/controller/history).

Stateful and daemon sets have no replica sets to remember their old templates by. A template that comes back does not
make a second revision: the old one gets the newest number, which is what `kubectl rollout undo` relies on.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.errors import AlreadyExists
from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.workloads import ControllerRevision, template_of
from fairlead.controllers.actions import Action, Actions, Create, Delete, Kind, Patch, Read
from fairlead.controllers.base import World
from fairlead.controllers.claims import Claimed, candidates, claim, controller_reference, is_controlled_by
from fairlead.controllers.kinds import CONTROLLER_REVISIONS
from fairlead.controllers.templates import content_hash

#: The label by which pods say which revision they are of.
REVISION_LABEL: Final = "controller-revision-hash"

_LONGEST_PREFIX = 223
_decode = msgspec.json.Decoder(dict).decode
_encode = msgspec.json.Encoder(order="sorted").encode


class Wanted(msgspec.Struct, frozen=True):
    """The revision that ought to be the newest."""

    kind: Kind[Any]
    owner: Object
    template: Obj
    hash_label: str  # the label under which the revision itself carries its hash
    collisions: int
    #: The hash by which the owner's status and pods know this template, of a revision that is not there: what a dump of
    #: another cluster shows. A revision by any other name would have every pod replaced by one that is the same.
    known_as: str = ""

    def name(self, hash_: str) -> str:
        """The name of the owner's revision with that hash."""
        return f"{self.owner.metadata.name[:_LONGEST_PREFIX]}-{hash_}"


def known_revisions(
    world: World, kind: Kind[Any], owner: Object, selector: LabelSelector
) -> Claimed[ControllerRevision]:
    """The owner's revisions, adopted where they were orphans, oldest first."""
    found = candidates(world, CONTROLLER_REVISIONS, owner, selector)
    mine = yield from claim(
        kind, owner, CONTROLLER_REVISIONS, found, lambda revision: selector.matches(revision.metadata.labels)
    )
    return sorted(mine, key=_age)


def _age(revision: ControllerRevision) -> tuple[int, str, str]:
    return revision.revision, revision.metadata.creation_timestamp, revision.metadata.name


def newest(
    wanted: Wanted, known: Sequence[ControllerRevision]
) -> Generator[Action, Any, tuple[ControllerRevision, int]]:
    """The revision of the wanted template, made or renumbered if need be, and the count of name collisions."""
    data = _data(wanted.template)
    number = known[-1].revision + 1 if known else 1
    equal = [revision for revision in known if _said_by(revision) == data]
    if not equal:
        return (yield from _create(wanted, data, number))
    found = equal[-1]
    if found is not known[-1]:
        stored = yield Patch(CONTROLLER_REVISIONS, found, {"revision": number})
        found = stored.view(ControllerRevision)
    return found, wanted.collisions


def _create(wanted: Wanted, data: Obj, number: int) -> Generator[Action, Any, tuple[ControllerRevision, int]]:
    collisions = wanted.collisions
    while True:
        obj = new_revision(wanted, data, number, collisions)
        try:
            stored = yield Create(CONTROLLER_REVISIONS, obj)
            return stored.view(ControllerRevision), collisions
        except AlreadyExists:
            meta = obj["metadata"]
            found: ControllerRevision = yield Read(CONTROLLER_REVISIONS, meta["name"], meta["namespace"])
            if is_controlled_by(found, wanted.owner) and _said_by(found) == data:
                return found, collisions
            collisions += 1


def new_revision(wanted: Wanted, data: Obj, number: int, collisions: int) -> Obj:
    owner = wanted.owner.metadata
    is_first = collisions == wanted.collisions
    hash_ = (is_first and wanted.known_as) or content_hash(data, collisions or None)
    meta = {
        "name": wanted.name(hash_),
        "namespace": owner.namespace,
        "labels": wanted.template.get("metadata", {}).get("labels", {}) | {wanted.hash_label: hash_},
        "annotations": dict(owner.annotations),
        "ownerReferences": [controller_reference(wanted.kind, wanted.owner)],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta,
        "data": data,
        "revision": number,
    }


def _data(template: Obj) -> Obj:
    """A strategic merge patch that brings the template back, its keys in order: upstream makes it of Go's maps."""
    patch: Obj = _decode(_encode({"spec": {"template": template | {"$patch": "replace"}}}))
    return patch


def _said_by(revision: ControllerRevision) -> Obj:
    """Its data. Older controllers kept templates with a `creationTimestamp: null`, which says nothing."""
    data: Obj = _decode(revision.data)
    template = data.get("spec", {}).get("template", {})
    meta = template.get("metadata", {})
    if "creationTimestamp" in meta and meta["creationTimestamp"] is None:
        del meta["creationTimestamp"]
    return data


def template_in(revision: ControllerRevision) -> Obj:
    template: Obj = template_of(revision.data)["spec"]["template"]
    template.pop("$patch", None)
    return template


def forget_old(known: Iterable[ControllerRevision], in_use: Collection[str], limit: int) -> Actions:
    """Delete the oldest revisions beyond the limit, save those that some pod or status names."""
    unused = [revision for revision in known if revision.metadata.name not in in_use]
    for revision in unused[: max(len(unused) - limit, 0)]:
        yield Delete(CONTROLLER_REVISIONS, revision)
