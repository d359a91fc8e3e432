"""Selectors of lists and watches, compiled to one predicate on cache entries and to what an index may look up."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from fairlead.api import field_selectors, selector_text
from fairlead.api.encoded import text_bytes
from fairlead.api.errors import BadRequest
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.entries import Entry
from fairlead.server.storage.watchers import Equal, Matches, Selection

#: The fields that almost every kind can be selected by (DefaultMetaV1FieldSelectorConversion).
NAME, NAMESPACE = "metadata.name", "metadata.namespace"

#: Values that an object need not contain as they are: booleans and numbers, and what stands for an absent one.
_MADE_UP: Final = re.compile(r"true|false|-?\d+(\.\d+)?([eE][-+]?\d+)?")


def select(served: Served, version: ServedVersion, namespace: str, labels: str, fields: str) -> Selection:
    """What both selectors select in a namespace."""
    checks: list[Matches] = []
    #: Those of what a webhook may change.
    converted: list[Matches] = checks if version.converter is None else []
    equal: dict[str, Equal] = {}
    wanted, unwanted = dict[str, dict[str, None]](), dict[str, set[str]]()
    terms = field_selectors.parse(fields).terms
    for term in terms:
        if term.is_negated:
            unwanted.setdefault(term.field, set()).add(term.value)
        else:
            wanted.setdefault(term.field, {})[term.value] = None
    for field in dict.fromkeys(term.field for term in terms):  # each is looked at once, however many terms there are
        read, values, others = _reader(served, version, field), wanted.get(field), unwanted.get(field, set())
        found = checks if field in (NAME, NAMESPACE) else converted
        if values is None:
            found.append(_differs(read, frozenset(others)))
            continue
        value = next(iter(values))
        if found is checks:
            equal[field] = Equal(field, read, value)
        found.append(_no_entry if len(values) > 1 or value in others else _equals(read, field, value))
    selector = selector_text.parse(labels)
    if not selector.is_empty:
        by_label = selector.matches
        converted.append(lambda entry: by_label(entry.labels))
    after = None if converted is checks else _all_of(converted)
    return Selection(namespace, _all_of(checks), tuple(equal.values()), after)


def _all_of(checks: list[Matches]) -> Matches | None:
    if len(checks) < 2:
        return checks[0] if checks else None
    return lambda entry: all(check(entry) for check in checks)


def _equals(read: Callable[[Entry], str], field: str, value: str) -> Matches:
    hint = _hint(value) if field not in (NAME, NAMESPACE) else b""
    if hint:  # an object without these bytes anywhere cannot have the value: no need to decode it
        return lambda entry: hint in entry.raw and read(entry) == value
    return lambda entry: read(entry) == value


def _differs(read: Callable[[Entry], str], values: frozenset[str]) -> Matches:
    return lambda entry: read(entry) not in values


def _no_entry(_: Entry) -> bool:
    return False


def _hint(value: str) -> bytes:
    """What the bytes of an object contain if one of its fields has that value; nothing if they need not."""
    return b"" if _MADE_UP.fullmatch(value) else text_bytes(value)


def _reader(served: Served, version: ServedVersion, field: str) -> Callable[[Entry], str]:
    """How a field is read; `BadRequest` if the kind cannot be selected by it."""
    if field == NAME:
        return attrgetter("name")
    if field == NAMESPACE and (served.resource.namespaced or not _names_its_fields(served)):
        return attrgetter("namespace")
    read = served.strategy.selectable_in(version.resource.api_version).get(field)
    if read is None:
        raise BadRequest(_unknown(served, field))
    return lambda entry: entry.field(field, read)


def _names_its_fields(served: Served) -> bool:
    """Whether the kind says itself which fields it can be selected by; custom kinds all do."""
    return served.crd is not None or bool(served.strategy.selectable)


def _unknown(served: Served, field: str) -> str:
    if _names_its_fields(served):
        return served.strategy.unknown_field(field)
    return f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"'
