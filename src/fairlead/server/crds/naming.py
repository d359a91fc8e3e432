"""Who owns a name: the names of a CRD are accepted one by one, the first CRD of a group to ask wins.

    created ──no name is taken──▶ NamesAccepted=True ──▶ Established=True    (served from here on)
       └──────some name is taken─▶ NamesAccepted=False, Established=False    (until its owner goes)

Once established, a CRD stays so. The server runs `settled` after every change of a CRD, over all others of its group.
Texts: apiextensions-apiserver pkg/controller/{status,establish,apiapproval,finalizer}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from fairlead.api.objects import Obj
from fairlead.server.crds import approval
from fairlead.server.crds.conversion import bundle_fault

#: Keeps a CRD alive until its objects are gone.
CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

#: Names of kinds are apart from those under which they are served.
_RESOURCE, _KIND = "resource", "kind"
#: Group, sort and name.
_Taken: TypeAlias = tuple[str, str, str]

_RESOURCE_NAMES = ("plural", "singular")
_KIND_NAMES = ("kind", "listKind")
_PENDING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


class NamesInUse:
    """The names that definitions have been given, so that none has to look at all others of its group."""

    def __init__(self, definitions: Iterable[Obj] = ()) -> None:
        self._taken: dict[str, set[_Taken]] = {}  # by definition
        self._holders: Counter[_Taken] = Counter()
        self._refused: dict[str, dict[str, None]] = {}  # by group, those that did not get all their names
        for crd in definitions:
            self.note(crd)

    def note(self, crd: Obj) -> None:
        """Take in the present names of a definition."""
        name, group, status = crd["metadata"]["name"], crd["spec"]["group"], crd.get("status") or {}
        self.forget(name)
        accepted = status.get("acceptedNames") or {}
        found = {(group, _RESOURCE, accepted[field]) for field in _RESOURCE_NAMES if accepted.get(field)}
        found |= {(group, _RESOURCE, short) for short in accepted.get("shortNames") or ()}
        found |= {(group, _KIND, accepted[field]) for field in _KIND_NAMES if accepted.get(field)}
        self._taken[name] = found
        self._holders.update(found)
        if not is_true(status, "NamesAccepted"):
            self._refused.setdefault(group, {})[name] = None

    def forget(self, name: str) -> None:
        """Drop the names of a deleted definition."""
        for taken in self._taken.pop(name, ()):
            self._holders[taken] -= 1
            if not self._holders[taken]:
                del self._holders[taken]
        group = _group_of(name)
        if refused := self._refused.get(group):
            refused.pop(name, None)
            if not refused:
                del self._refused[group]

    def is_taken(self, group: str, sort: str, name: str) -> bool:
        return (group, sort, name) in self._holders

    def refused_beside(self, name: str) -> list[str]:
        """The definitions of the same group that may have got what they wanted, now that this one has gone."""
        return list(self._refused.get(_group_of(name), ()))


def _group_of(name: str) -> str:
    """The names of definitions end with their groups."""
    return name.partition(".")[2]


def settled(crd: Obj, in_use: NamesInUse, stamp: str) -> Obj | None:
    """The status that follows from the names in use in the group, its own among them; None if nothing changes.

    `stamp` is the time that conditions changing now get.
    """
    old = crd.get("status") or {}
    status = old | {"conditions": list(old.get("conditions") or ())}
    if crd["spec"]["names"] != old.get("acceptedNames"):
        _settle_names(crd, in_use, status, stamp)
    elif is_true(old, "NamesAccepted") and not is_true(old, "Established"):
        _establish(crd, status, stamp)
    conforms = approval.condition(crd)
    if conforms is not None:
        is_approved = conforms["status"] == "True"
        set_condition(status, conforms["type"], is_approved, conforms["reason"], conforms["message"], stamp)
    return None if status == old else status


def _settle_names(crd: Obj, in_use: NamesInUse, status: Obj, stamp: str) -> None:
    """Claim what the CRD asks for. One that asks for what it has is not looked at, whatever its conditions say."""
    accepted, fault = _accepted(crd, in_use)
    status["acceptedNames"] = accepted
    if fault is None:
        set_condition(status, "NamesAccepted", True, "NoConflicts", "no conflicts found", stamp)
        _establish(crd, status, stamp)
    else:
        set_condition(status, "NamesAccepted", False, *fault, stamp)
        if not is_true(status, "Established"):
            set_condition(status, "Established", False, "NotAccepted", "not all names are accepted", stamp)


def _establish(crd: Obj, status: Obj, stamp: str) -> None:
    """Serve it from now on, unless nobody could convert what it serves. One that is served goes on being served."""
    if not is_true(status, "Established") and bundle_fault(crd["spec"]):
        text = "The conversion webhook CABundle is invalid"
        set_condition(status, "Established", False, "InvalidCABundle", text, stamp)
        return
    text = "the initial names have been accepted"
    set_condition(status, "Established", True, "InitialNamesAccepted", text, stamp)


def begin_deletion(crd: Obj, stamp: str) -> None:
    """What a DELETE writes into a CRD beside the deletion timestamp."""
    finalizers = crd["metadata"].setdefault("finalizers", [])
    if CRD_FINALIZER not in finalizers:
        finalizers.append(CRD_FINALIZER)
    set_condition(crd["status"], "Terminating", True, "InstanceDeletionPending", _PENDING, stamp)


def begin_instance_deletion(crd: Obj, stamp: str) -> None:
    """The server has begun to delete the objects of the kind."""
    text = "CustomResource deletion is in progress"
    set_condition(crd["status"], "Terminating", True, "InstanceDeletionInProgress", text, stamp)


def finish_deletion(crd: Obj, stamp: str) -> None:
    """All objects are gone: let the CRD go."""
    if is_true(crd["status"], "Established"):
        reason, text = "InstanceDeletionCompleted", "removed all instances"
    else:
        reason, text = "NeverEstablished", "resource was never established"
    set_condition(crd["status"], "Terminating", False, reason, text, stamp)
    meta = crd["metadata"]
    meta["finalizers"] = [finalizer for finalizer in meta.get("finalizers") or () if finalizer != CRD_FINALIZER]
    if not meta["finalizers"]:
        del meta["finalizers"]


def is_true(status: Obj, type_: str) -> bool:
    return any(
        condition["type"] == type_ and condition["status"] == "True" for condition in status.get("conditions") or ()
    )


def set_condition(status: Obj, type_: str, holds: bool, reason: str, message: str, stamp: str) -> None:
    """Add or replace a condition; its transition time is kept while its status stays."""
    conditions = list(status.get("conditions") or ())
    new = {
        "type": type_,
        "status": "True" if holds else "False",
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }
    for index, present in enumerate(conditions):
        if present["type"] == type_:
            if present["status"] == new["status"]:
                new["lastTransitionTime"] = present.get("lastTransitionTime") or stamp
            conditions[index] = present | new
            break
    else:
        conditions.append(new)
    status["conditions"] = conditions


def _accepted(crd: Obj, in_use: NamesInUse) -> tuple[Obj, tuple[str, str] | None]:
    """The names this CRD may use, and the reason and text of the last conflict."""
    requested = crd["spec"]["names"]
    current = (crd.get("status") or {}).get("acceptedNames") or {}
    group = crd["spec"]["group"]
    fault: tuple[str, str] | None = None
    names: Obj = {"plural": "", "kind": ""} | {key: value for key, value in current.items() if value}

    def claim(field: str, sort: str, reason: str) -> None:
        nonlocal fault
        name = requested.get(field, "")
        if name != current.get(field, "") and in_use.is_taken(group, sort, name):
            fault = reason, f'"{name}" is already in use'
        elif name:
            names[field] = name

    for field in _RESOURCE_NAMES:
        claim(field, _RESOURCE, f"{field.title()}Conflict")
    short, fresh = requested.get("shortNames") or [], set(current.get("shortNames") or ())
    clashes = list(
        dict.fromkeys(name for name in short if name not in fresh and in_use.is_taken(group, _RESOURCE, name))
    )
    if clashes:
        texts = [f'"{name}" is already in use' for name in clashes]
        fault = "ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    else:
        _put(names, "shortNames", short)
    claim("kind", _KIND, "KindConflict")
    claim("listKind", _KIND, "ListKindConflict")
    _put(names, "categories", requested.get("categories") or [])
    ordered = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {key: names[key] for key in ordered if key in names}, fault


def _put(names: Obj, field: str, values: list[str]) -> None:
    if values:
        names[field] = list(values)
    else:
        names.pop(field, None)
