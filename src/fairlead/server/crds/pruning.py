"""What happens to a custom object's fields on the way in: unknown ones are dropped, missing ones filled in.

Paths of dropped fields are collected for `fieldValidation` (X-02).
"""

from __future__ import annotations

from typing import Any

from fairlead.api.encoded import copied
from fairlead.api.errors import MOST_STORED, MOST_TOLD, TooLargeToStore
from fairlead.api.fields import under
from fairlead.server.crds.schema import ABSENT, SchemaNode

_META = frozenset({"apiVersion", "kind", "metadata"})


class _Dropped(list[str]):
    """The paths of what was dropped, as far as an answer has room for them."""

    def __init__(self) -> None:
        super().__init__()
        self._length = 0

    def append(self, path: str) -> None:
        if self._length <= MOST_TOLD:
            self._length += len(path)
            super().append(path)


def prune(obj: Any, node: SchemaNode, *, is_resource: bool = True) -> list[str]:
    """Drop unknown fields in place; the paths of what was dropped, sorted. A resource keeps its type and metadata."""
    dropped = _Dropped()
    if isinstance(obj, dict | list):
        _prune(obj, node, is_resource or node.is_embedded, dropped, "")
    # Type and metadata at the root of something that is no resource are dropped without a word, as upstream does.
    return sorted(path.removeprefix(".") for path in dropped if path.removeprefix(".") not in _META)


def drop_nulls(value: Any, node: SchemaNode | None) -> None:
    """Drop the nulls that the schema does not allow and for which it has no default to offer."""
    if isinstance(value, dict):
        for key in list(value):
            below = None if node is None else node.child(key)
            if value[key] is None and below is not None and not below.is_nullable and below.default is ABSENT:
                del value[key]
            else:
                drop_nulls(value[key], below)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, node and node.items)


class _Room:
    """A budget for the bytes that defaults add: defaults within defaults multiply."""

    def __init__(self) -> None:
        self._left = MOST_STORED

    def default_of(self, node: SchemaNode) -> Any:
        """The default of a place. Raises `TooLargeToStore`."""
        self._left -= node.default_bytes
        if self._left < 0:
            raise TooLargeToStore
        return copied(node.default)


def fill_defaults(value: Any, node: SchemaNode) -> None:
    """Fill in the defaults of the schema, in what defaults brought as well.

    Raises `TooLargeToStore` where that would make too large an object, with as many filled in as there is room for.
    """
    _fill(value, node, _Room())


def _fill(value: Any, node: SchemaNode, room: _Room) -> None:
    if isinstance(value, dict):
        for key, below in node.defaulted.items():
            if key not in value or _is_forbidden_null(value[key], below):
                value[key] = room.default_of(below)
        for key, item in value.items():
            found = node.child(key)
            if found is not None:
                value[key] = _defaulted(item, found, room)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            value[index] = _defaulted(item, node.items, room)


def _defaulted(value: Any, node: SchemaNode, room: _Room) -> Any:
    if _is_forbidden_null(value, node) and node.default is not ABSENT:
        value = room.default_of(node)
    if isinstance(value, dict | list):
        _fill(value, node, room)
    return value


def _is_forbidden_null(value: Any, node: SchemaNode) -> bool:
    return value is None and not node.is_nullable


def _prune(
    value: Any, node: SchemaNode | None, is_resource: bool, dropped: _Dropped, path: str, keeps_unknown: bool = False
) -> None:
    """Drop fields that `node` does not declare.

    `keeps_unknown` comes from a list that preserves unknown fields: it speaks for its items too.
    """
    keeps_unknown = keeps_unknown or (node is not None and node.preserves_unknown)
    if not isinstance(value, list):
        _prune_fields(value, node, is_resource, dropped, path, keeps_unknown)
        return
    items = node and node.items
    if keeps_unknown and items is None:
        return
    for index, item in enumerate(value):
        if isinstance(item, dict | list):
            is_embedded = items is not None and items.is_embedded
            _prune(item, items, is_embedded, dropped, under(path, f"[{index}]"), keeps_unknown)


def _prune_fields(
    value: dict[str, Any], node: SchemaNode | None, is_resource: bool, dropped: _Dropped, path: str, keeps_unknown: bool
) -> None:
    for key in list(value):
        if is_resource and key in _META:
            continue
        below = None if node is None else node.properties.get(key)
        if below is None and (node is None or not node.is_map):
            if not keeps_unknown:
                dropped.append(under(path, f".{key}"))
                del value[key]
            continue
        item = value[key]
        if isinstance(item, dict | list):
            found = below or (node and node.values)
            _prune(item, found, found is not None and found.is_embedded, dropped, under(path, f".{key}"))
