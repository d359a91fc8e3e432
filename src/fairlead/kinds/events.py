"""Event: one stored kind that two API groups show under different field names.

`v1` events were written freely; `events.k8s.io/v1` asks for more. An event on its way to the store keeps the apiVersion
under which it came, so that the rules know which of the two applies; encoding sets the stored one.
Sources: pkg/apis/core/validation/events.go, pkg/apis/events/v1/conversion.go, pkg/registry/core/event (1.36), X-08.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead.api import names
from fairlead.api.builtin import EVENTS
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, namespace_of
from fairlead.kinds.meta import validate_change, validate_meta
from fairlead.kinds.podspec.structs import StructField, as_go
from fairlead.kinds.rules import IMMUTABLE, check, is_same
from fairlead.kinds.strategy import FieldGetter, Strategy

EVENTS_API: Final = "events.k8s.io/v1"

#: Field names of `v1`, and of `events.k8s.io/v1`.
_RENAMED: Final = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
_TO_EVENTS: Final[Mapping[str, str]] = dict(_RENAMED)
_TO_CORE: Final[Mapping[str, str]] = {theirs: ours for ours, theirs in _RENAMED}

#: What Go always writes in `v1`, and leaves out of `events.k8s.io/v1` when empty.
_ALWAYS_IN_CORE: Final = ("reportingComponent", "reportingInstance")
_NOT_EMPTY_IN_EVENTS: Final = ("reportingController", "reportingInstance")

_LONG_WORD: Final = 128
_LONG_NOTE: Final = 1024
_OTHER_NAMESPACE: Final = "does not match event.namespace"
_DEFAULT, _SYSTEM = "default", "kube-system"


def to_core(event: Obj) -> Obj:
    """An `events.k8s.io/v1` event in its stored form."""
    core = {_TO_CORE.get(key, key): value for key, value in event.items()}
    for field in _ALWAYS_IN_CORE:
        core.setdefault(field, "")
    return core


def to_events(event: Obj) -> Obj:
    """A stored event as `events.k8s.io/v1` shows it."""
    shown: Obj = {"kind": "Event", "apiVersion": EVENTS_API}
    for key, value in event.items():
        theirs = _TO_EVENTS.get(key, key)
        if theirs not in shown and (value or theirs not in _NOT_EMPTY_IN_EVENTS):
            shown[theirs] = value
    return shown


def _involved(field: str) -> FieldGetter:
    return lambda event: str((event.get("involvedObject") or {}).get(field, ""))


def _own(field: str) -> FieldGetter:
    return lambda event: str(event.get(field, ""))


def _source(event: Obj) -> str:
    return str((event.get("source") or {}).get("component") or event.get("reportingComponent", ""))


_OBJECT_FIELDS: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


_SELECTABLE: Final[Mapping[str, FieldGetter]] = {
    **{f"involvedObject.{field}": _involved(field) for field in _OBJECT_FIELDS},
    "reason": _own("reason"),
    "type": _own("type"),
    "reportingComponent": _own("reportingComponent"),
    "source": _source,
}
_SELECTABLE_IN_EVENTS: Final[Mapping[str, FieldGetter]] = {
    **{f"regarding.{field}": _involved(field) for field in _OBJECT_FIELDS},
    "reason": _own("reason"),
    "type": _own("type"),
    "reportingController": _own("reportingComponent"),
    "source": _source,
}


_OBJECT: Final = tuple(
    StructField(go, json, "")
    for go, json in (
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    )
)
_SOURCE: Final = (StructField("Component", "component", ""), StructField("Host", "host", ""))

#: What an update of an event may not change: the field, the name it goes by in the text, and what it is when unset.
_FIXED: Final[tuple[tuple[str, str, Any], ...]] = (
    ("involvedObject", "involvedObject", {}),
    ("reason", "reason", ""),
    ("message", "message", ""),
    ("source", "source", {}),
    ("firstTimestamp", "firstTimestamp", None),
    ("lastTimestamp", "lastTimestamp", None),
    ("count", "count", 0),
    ("reason", "reason", ""),
    ("type", "type", ""),
    ("eventTime", "eventTime", None),
    ("action", "action", ""),
    ("related", "related", None),
    ("reportingComponent", "reportingController", ""),
    ("reportingInstance", "reportingInstance", ""),
)
#: Those that are structs: upstream prints its internal types.
_STRUCTS: Final[Mapping[str, tuple[StructField, ...]]] = {
    "involvedObject": _OBJECT,
    "source": _SOURCE,
    "related": _OBJECT,
}


def _shown(field: str, value: Any) -> Any:
    struct = _STRUCTS.get(field)
    return as_go(value, struct) if struct and value is not None else value


class EventStrategy(Strategy):
    meta_checks = ()
    allows_create_on_update = True
    is_collected = False
    selectable = _SELECTABLE

    def selectable_in(self, api_version: str) -> Mapping[str, FieldGetter]:
        return _SELECTABLE_IN_EVENTS if api_version == EVENTS_API else _SELECTABLE

    def validate(self, obj: Obj, errors: Errors) -> None:
        is_strict = obj.get("apiVersion") == EVENTS_API
        _validate_always(obj, "reportingController" if is_strict else "reportingComponent", errors)
        if is_strict:
            validate_meta(obj, errors, resource=EVENTS, rule=names.dns1123_subdomain)
            _validate_series(obj, errors)
            _validate_new_event(obj, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        is_strict = obj.get("apiVersion") == EVENTS_API
        _validate_always(obj, "reportingController" if is_strict else "reportingComponent", errors)
        if not is_strict:
            return
        validate_change(obj, old, errors)
        if not is_same(obj.get("series"), old.get("series")):
            _validate_series(obj, errors)
        for field, shown_field, unset in _FIXED:
            value = obj.get(field, unset)
            if not is_same(value, old.get(field, unset)):
                errors.invalid(shown_field, _shown(field, value), IMMUTABLE)


def _validate_always(event: Obj, controller_field: str, errors: Errors) -> None:
    """The rules of both APIs; an event with a time is one of the newer kind."""
    namespace, involved = namespace_of(event), event["involvedObject"].get("namespace", "")
    if not event.get("eventTime"):
        allowed = (involved,) if involved else ("", _DEFAULT)
        if namespace not in allowed:
            errors.invalid("involvedObject.namespace", involved, _OTHER_NAMESPACE)
    else:
        if not involved and namespace not in (_DEFAULT, _SYSTEM):
            errors.invalid("involvedObject.namespace", involved, _OTHER_NAMESPACE)
        _validate_words(event, controller_field, errors)
    check(errors, "namespace", namespace, names.dns1123_subdomain)


def _validate_words(event: Obj, controller_field: str, errors: Errors) -> None:
    controller = event.get("reportingComponent", "")
    if not controller:
        errors.required(controller_field)
    check(errors, controller_field, controller, names.qualified_name)
    for field in ("reportingInstance", "action", "reason"):
        word = event.get(field, "")
        if not word:
            errors.required(field)
        if len(word.encode()) > _LONG_WORD:
            errors.invalid(field, "", f"can have at most {_LONG_WORD} characters")
    if len(event.get("message", "").encode()) > _LONG_NOTE:
        errors.invalid("message", "", f"can have at most {_LONG_NOTE} characters")


def _validate_series(event: Obj, errors: Errors) -> None:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")


def _validate_new_event(event: Obj, errors: Errors) -> None:
    if not event.get("eventTime"):
        errors.required("eventTime")
    if (type_ := event.get("type", "")) not in ("Normal", "Warning"):
        errors.invalid("type", "", f"has invalid value: {type_}")
    for field in ("firstTimestamp", "lastTimestamp", "count"):
        if event.get(field):
            errors.invalid(field, "", "needs to be unset")
    source = event.get("source") or {}
    if source.get("component") or source.get("host"):
        errors.invalid("source", "", "needs to be unset")
