"""What a controller may want: the vocabulary between a decision and the runner that carries it out.

A reconcile is a generator. Each `yield` hands an action to the runner and evaluates to its outcome; a refusal of the
API is raised at the `yield`, and what the controller does not catch makes the runner try the key again later.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from fairlead.api.errors import ApiError
from fairlead.api.event_types import NORMAL
from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj
from fairlead.api.references import Reference
from fairlead.api.resources import Resource
from fairlead.api.verbs import DELETE, DeleteOptions, PatchType

T = TypeVar("T", bound=Object)


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """A resource together with the view through which controllers read it."""

    resource: Resource
    view: type[T]


class Create(msgspec.Struct, frozen=True):
    """Create an object, in the namespace of its metadata; with `name` and `subresource`, POST to a subresource.

    Outcome: the stored object (`Encoded`).
    """

    kind: Kind[Any]
    obj: Obj
    name: str = ""
    subresource: str = ""


class Update(msgspec.Struct, frozen=True):
    """Replace an object (a full dict, with the resourceVersion that it was read at). Outcome: `Encoded`."""

    kind: Kind[Any]
    obj: Obj
    subresource: str = ""


class Patch(msgspec.Struct, frozen=True):
    """Change some fields of exactly this object: the runner adds its uid, so a namesake is never hit.

    With `unchanged`, only if nobody changed it since it was read. Outcome: `Encoded`.
    """

    kind: Kind[Any]
    target: Object
    patch: Obj
    type: PatchType = PatchType.MERGE
    subresource: str = ""
    unchanged: bool = False


class Delete(msgspec.Struct, frozen=True):
    """Delete exactly this object; that it is gone already is fine. Outcome: None."""

    kind: Kind[Any]
    target: Object
    options: DeleteOptions = DELETE


class Read(msgspec.Struct, frozen=True):
    """Ask the server, not the informer. Outcome: the view; `NotFound` is raised."""

    kind: Kind[Any]
    name: str
    namespace: str = ""
    subresource: str = ""


class ListAll(msgspec.Struct, frozen=True):
    """Ask the server for everything of one kind in a namespace, or for what a selector selects of it (as text).

    Outcome: a list of `Encoded`.
    """

    kind: Kind[Any]
    namespace: str
    labels: str = ""


class DeleteAll(msgspec.Struct, frozen=True):
    """Delete everything of one kind in a namespace. Outcome: None."""

    kind: Kind[Any]
    namespace: str
    options: DeleteOptions = DELETE


class Emit(msgspec.Struct, frozen=True):
    """Tell an event, about the object being reconciled unless `about` says otherwise. Outcome: None."""

    reason: str
    message: str
    type: str = NORMAL
    about: Reference | None = None


class Requeue(msgspec.Struct, frozen=True):
    """Reconcile this key again after some seconds, whatever else happens. Outcome: None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveWay:
    """Let everybody else go on first: for who thinks about a hundred thousand objects in one turn. Outcome: None."""


class Together(msgspec.Struct, frozen=True):
    """Several actions at once. With `slow_start` in batches of 1, 2, 4, …, ending after a batch with a refusal.

    Outcome: a list of outcomes in order, refusals (`ApiError`) among them; shorter where a slow start ended early.
    """

    actions: Sequence[Action]
    slow_start: bool = False


Action: TypeAlias = Create | Update | Patch | Delete | Read | ListAll | DeleteAll | Emit | Requeue | GiveWay | Together
Actions: TypeAlias = Generator[Action, Any, None]


def with_finalizer(kind: Kind[T], obj: T, finalizer: str) -> Patch:
    return _with_finalizers(kind, obj, [*obj.metadata.finalizers, finalizer])


def without_finalizer(kind: Kind[T], obj: T, finalizer: str) -> Patch:
    return _with_finalizers(kind, obj, [present for present in obj.metadata.finalizers if present != finalizer])


def _with_finalizers(kind: Kind[T], obj: T, finalizers: list[str]) -> Patch:
    """The list is written as a whole, so only to the version that it was read from."""
    return Patch(kind, obj, {"metadata": {"finalizers": finalizers or None}}, unchanged=True)


def update_status(kind: Kind[T], obj: T, old: View, new: View) -> Actions:
    """Patch the status of `obj` from `old` to `new`, if they differ."""
    if old != new:
        yield Patch(kind, obj, {"status": difference(old, new)}, subresource="status")


def difference(old: View, new: View) -> Obj:
    """A merge patch between two values of one view type; lists are replaced as a whole."""
    return _difference(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _difference(before: Obj, after: Obj) -> Obj:
    changed: Obj = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if isinstance(value, dict) and isinstance(known, dict):
            if value != known:
                changed[name] = _difference(known, value)
        elif name not in before or value != known:
            changed[name] = value
    return changed


def refusals(outcomes: Iterable[object]) -> list[ApiError]:
    """The errors among the outcomes of `Together`."""
    return [outcome for outcome in outcomes if isinstance(outcome, ApiError)]
