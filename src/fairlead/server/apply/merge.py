"""Merging an applied configuration into an object, and removing the fields that it no longer has.

Upstream merges typed trees: maps and associative lists element by element, everything else as a whole. Results share
values with their arguments; whoever changes a result in place must copy it first.

Source: structured-merge-diff v6.3.2 `typed/merge.go`, `typed/remove.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.objects import Obj
from fairlead.server.apply.fieldsets import SELF, Fields, is_member
from fairlead.server.apply.shapes import Atom, ListShape, MapShape, SchemaMismatch
from fairlead.server.apply.typed import is_plain_text, kind_of
from fairlead.server.crds.schema import ABSENT


def merge(live: Obj, config: Obj, atom: Atom) -> Obj:
    """The object with the configuration merged into it."""
    merged = _merged(live, config, atom)
    return merged if isinstance(merged, dict) else {}


def _merged(live: Any, config: Any, atom: Atom | None) -> Any:
    if config is ABSENT:
        kind = kind_of(live, atom)
    elif live is ABSENT or config is not None:
        kind = kind_of(config, atom)
    else:  # null fits any shape, so the other side decides
        kind = kind_of(live, atom)
    if isinstance(kind, MapShape) and not kind.is_atomic:
        live_map = live if isinstance(live, dict) else {}
        config_map = config if isinstance(config, dict) else {}
        if live_map or config_map:
            return _merged_map(live_map, config_map, kind)
    elif isinstance(kind, ListShape) and not kind.is_atomic:
        live_list = live if isinstance(live, list) else []
        config_list = config if isinstance(config, list) else []
        if live_list or config_list:
            return _merged_list(live_list, config_list, kind)
    return live if config is ABSENT else config


def _merged_map(live: Obj, config: Obj, shape: MapShape) -> Any:
    if shape.are_texts(config):
        return live | config
    children = shape.children
    out = dict(live)
    for key, value in config.items():
        child = children[key]
        if not is_plain_text(value, child):
            value = _merged(live.get(key, ABSENT), value, child)
        if value is not ABSENT:
            out[key] = value
        else:
            out.pop(key, None)
    return out or ABSENT


def _merged_list(live: list[Any], config: list[Any], shape: ListShape) -> Any:
    element_of = shape.element_of
    live_items = _indexed(live, shape)
    config_items = {element_of(item): item for item in config}
    out = []
    for element, item in _in_order([element_of(item) for item in live], list(config_items), live):
        # An element that comes twice in the object cannot be merged with; the configuration replaces all of them.
        old = live_items.get(element, ABSENT) if item is ABSENT else item
        merged = _merged(old, config_items[element], shape.items) if element in config_items else old
        if merged is not ABSENT:
            out.append(merged)
    return out or ABSENT


def _indexed(items: list[Any], shape: ListShape) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        element = shape.element_of(item)
        found[element] = None if element in found else item
    return found


def _in_order(live: list[str], config: list[str], items: list[Any]) -> Iterator[tuple[str, Any]]:
    """The elements of both lists: the configuration's order where both have them, what only one has in between.

    With each comes the live element where the place in the live list matters, ABSENT where the key decides.
    """
    known, in_config = set(live), set(config)
    shared = [element for element in config if element in known]
    done: set[str] = set()
    left = right = at = 0
    while left < len(live) or right < len(config):
        if left < len(live) and right < len(config):
            element = live[left]
            if element == config[right]:
                done.add(element)
                yield element, ABSENT
                left, right, at = left + 1, right + 1, at + 1
                continue
            if element in in_config and at < len(shared) and shared[at] != element:
                left += 1  # shared, but its turn has not come
                continue
        if left < len(live):
            element = live[left]
            if element not in in_config:
                yield element, items[left]
                left += 1
                continue
            if element in done:
                left += 1
        if right < len(config):
            element = config[right]
            done.add(element)
            yield element, ABSENT
            right += 1
            if at < len(shared) and shared[at] == element:
                at += 1


# --- taking out -----------------------------------------------------------------------------------------------------


def remove(obj: Obj, fields: Fields, atom: Atom) -> Obj:
    """The object without the members of a set and what is below them."""
    found: Obj | None = _without(obj, fields, atom) if fields else obj
    return found or {}


def _without(value: Any, fields: Fields, atom: Atom | None) -> Any:
    """What is left of a value, None if nothing is; scalars stay, what is owned as a whole goes."""
    try:
        kind = kind_of(value, atom)
    except SchemaMismatch:
        return value
    if isinstance(kind, MapShape):
        return _map_without(value, fields, kind) if isinstance(value, dict) and not kind.is_atomic else None
    if isinstance(kind, ListShape):
        return _list_without(value, fields, kind) if isinstance(value, list) and not kind.is_atomic else None
    return value


def _map_without(value: Obj, fields: Fields, shape: MapShape) -> Any:
    out = {}
    for key, item in value.items():
        node = fields.get(f"f:{key}")
        if node is None:
            out[key] = item
        elif not is_member(node):
            out[key] = _without(item, node, shape.children[key])
    return out or None


def _list_without(value: list[Any], fields: Fields, shape: ListShape) -> Any:
    out = []
    for item in value:
        node = fields.get(shape.element_of(item))
        if node is None:
            out.append(item)
        elif not is_member(node):
            out.append(_without(item, node, shape.items))
    return out or None


def with_named(fields: Fields, atom: Atom | None) -> Fields:
    """The set with every struct field that has members below it as a member too (EnsureNamedFieldsAreMembers)."""
    if atom is None:
        return fields
    out: dict[str, Any] = {}
    for element, node in fields.items():
        if element == SELF or not node:
            out[element] = node
            continue
        child, is_named = _child(element, atom)
        inner = with_named(node, child)
        out[element] = {SELF: {}, **inner} if is_named and SELF not in inner else inner
    return out


def _child(element: str, atom: Atom) -> tuple[Atom | None, bool]:
    """The atom below a path element, and whether that is a declared field."""
    if element.startswith("f:") and atom.map is not None:
        children = atom.map.children
        return children[element[2:]], element[2:] in children.declared
    if element.startswith("k:") and atom.list is not None:
        return atom.list.items, False
    return None, False
