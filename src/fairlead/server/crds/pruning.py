"""What happens to a custom object's fields on the way in: unknown ones are dropped, missing ones filled in.

Paths of dropped fields are collected for `fieldValidation` (X-02). They are put together only when there are any,
so an object without unknown fields costs a walk and nothing else.
"""

from __future__ import annotations

from typing import Any

from fairlead.server.crds.schema import ABSENT, Node

_META = frozenset({"apiVersion", "kind", "metadata"})


def prune(obj: Any, node: Node, *, is_resource: bool = True) -> list[str]:
    """Drop unknown fields in place; the paths of what was dropped, sorted. A resource keeps its type and metadata."""
    dropped = _prune(obj, node, is_resource or node.is_embedded) if isinstance(obj, dict | list) else []
    # Type and metadata at the root of something that is no resource are dropped without a word, as upstream does.
    return sorted(path.removeprefix(".") for path in dropped if path.removeprefix(".") not in _META)


def drop_nulls(value: Any, node: Node | None) -> None:
    """Drop the nulls that the schema does not allow and for which it has no default to offer."""
    if isinstance(value, dict):
        for key in list(value):
            below = None if node is None else node.child(key)
            if value[key] is None and below is not None and not below.is_nullable and below.default is ABSENT:
                del value[key]
            else:
                drop_nulls(value[key], below)
    elif isinstance(value, list):
        for one in value:
            drop_nulls(one, node and node.items)


def fill_defaults(value: Any, node: Node) -> None:
    """Fill in the defaults of the schema, in what defaults brought as well."""
    if isinstance(value, dict):
        for key, below in node.properties.items():
            if below.default is not ABSENT and (key not in value or _is_forbidden_null(value[key], below)):
                value[key] = copied(below.default)
        for key, one in value.items():
            found = node.child(key)
            if found is not None:
                value[key] = _defaulted(one, found)
    elif isinstance(value, list) and node.items is not None:
        value[:] = [_defaulted(one, node.items) for one in value]


def copied(value: Any) -> Any:
    """A copy of a JSON value that shares nothing changeable with it."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) for one in value]
    return value


def _defaulted(value: Any, node: Node) -> Any:
    if _is_forbidden_null(value, node) and node.default is not ABSENT:
        value = copied(node.default)
    if isinstance(value, dict | list):
        fill_defaults(value, node)
    return value


def _is_forbidden_null(value: Any, node: Node) -> bool:
    return value is None and not node.is_nullable


def _prune(value: Any, node: Node | None, is_resource: bool, keeps_unknown: bool = False) -> list[str]:
    """Drop what `node` does not know; relative paths of what was dropped.

    `keeps_unknown` comes from a list that preserves unknown fields: it speaks for its items too.
    """
    keeps_unknown = keeps_unknown or (node is not None and node.preserves_unknown)
    if isinstance(value, list):
        items = node and node.items
        if keeps_unknown and items is None:
            return []
        return [
            f"[{index}]{path}"
            for index, one in enumerate(value)
            if isinstance(one, dict | list)
            for path in _prune(one, items, items is not None and items.is_embedded, keeps_unknown)
        ]
    return _prune_fields(value, node, is_resource, keeps_unknown)


def _prune_fields(value: dict[str, Any], node: Node | None, is_resource: bool, keeps_unknown: bool) -> list[str]:
    dropped: list[str] = []
    for key in list(value):
        if is_resource and key in _META:
            continue
        below = None if node is None else node.properties.get(key)
        if below is None and (node is None or not node.is_map):
            if not keeps_unknown:
                dropped.append(f".{key}")
                del value[key]
            continue
        one = value[key]
        if isinstance(one, dict | list):
            found = below or (node and node.values)
            dropped += [f".{key}{path}" for path in _prune(one, found, found is not None and found.is_embedded)]
    return dropped
