"""Selectors of lists and watches, compiled to one predicate on cache entries."""

from __future__ import annotations

from fairlead.api import field_selectors, selectors
from fairlead.api.errors import BadRequest
from fairlead.api.field_selectors import Term
from fairlead.server.cache import Entry, Matches
from fairlead.server.served import Served
from fairlead.server.versions import Version

#: The fields that almost every kind can be selected by (DefaultMetaV1FieldSelectorConversion).
_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


def matcher(served: Served, version: Version, labels: str, fields: str) -> Matches | None:
    """The predicate of both selectors, or None if they select everything."""
    by_label = _by_label(labels) if labels else None
    by_field = _by_field(served, version, fields) if fields else None
    if by_label is None or by_field is None:
        return by_label or by_field
    first, second = by_field, by_label
    return lambda entry: first(entry) and second(entry)


def _by_label(text: str) -> Matches | None:
    selector = selectors.parse(text)
    if selector.is_empty:
        return None
    matches = selector.matches
    return lambda entry: matches(entry.labels)


def _by_field(served: Served, version: Version, text: str) -> Matches | None:
    checks = [_check(served, version, term) for term in field_selectors.parse(text).terms]
    if len(checks) == 1:
        return checks[0]
    return (lambda entry: all(check(entry) for check in checks)) if checks else None


def _check(served: Served, version: Version, term: Term) -> Matches:
    field, value, wanted = term.field, term.value, not term.is_negated
    if field == _NAME:
        return lambda entry: (entry.name == value) is wanted
    if field == _NAMESPACE and (served.resource.namespaced or not _names_its_fields(served)):
        return lambda entry: (entry.namespace == value) is wanted
    read = served.strategy.selectable_in(version.resource.api_version).get(field)
    if read is None:
        raise BadRequest(_unknown(served, field))

    def matches(entry: Entry) -> bool:
        return (entry.field(field, read) == value) is wanted

    if not (wanted and value):
        return matches
    hint = value.encode()  # an object without these bytes anywhere cannot have the value: no need to decode it
    return lambda entry: hint in entry.raw and matches(entry)


def _names_its_fields(served: Served) -> bool:
    """Whether the kind says itself which fields it can be selected by; custom kinds all do."""
    return served.crd is not None or bool(served.strategy.selectable)


def _unknown(served: Served, field: str) -> str:
    if _names_its_fields(served):
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"'
