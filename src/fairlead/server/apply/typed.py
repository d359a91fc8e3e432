"""Which fields an object has, and which two objects differ in, as sets.

The first question is asked of an applied configuration: its author owns exactly what it names. The second is asked on
every write: whoever writes owns what changed. It runs for every request, so what is equal is not looked into.

Source: structured-merge-diff `typed/tofieldset.go`, `typed/compare.go`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.objects import Obj
from fairlead.server.apply import elements
from fairlead.server.apply.fieldsets import LEAF, SELF, FieldPath, Fields, below, graft, node_of
from fairlead.server.apply.shapes import Atom, ListShape, MapShape, SchemaMismatch

# --- the fields of an object ----------------------------------------------------------------------------------------


def field_set(obj: Obj, atom: Atom) -> Fields:
    """What an applied object names. Structs and lists are not fields of their own, keys of maps are."""
    return _fields_of(obj, atom) or LEAF


def _fields_of(value: Any, atom: Atom | None) -> Fields | None:
    """What lies below a value; None if it is a field as a whole."""
    kind = kind_of(value, atom)
    if isinstance(kind, MapShape) and not kind.is_atomic:
        return _fields_of_map(value or {}, kind)
    if isinstance(kind, ListShape) and not kind.is_atomic:
        return _fields_of_list(value or [], kind)
    return None


def _fields_of_map(value: Obj, shape: MapShape) -> Fields:
    if shape.are_texts(value):
        return dict.fromkeys(map(elements.field, value), LEAF)
    out: dict[str, Fields] = {}
    children, spelled = shape.children, shape.spelled
    for key, item in value.items():
        child = children[key]
        if is_plain_text(item, child):
            out[spelled[key]] = LEAF
            continue
        found = _fields_of(item, child)
        member = found is None or item is None or item == {} or key not in children.declared
        node = node_of(member, found or LEAF)
        if node is not None:
            out[spelled[key]] = node
    return out


def _fields_of_list(value: list[Any], shape: ListShape) -> Fields:
    out: dict[str, Fields] = {}
    for item in value:
        element = shape.element_of(item)
        # Elements that cannot be told apart are owned together, whatever they hold.
        out[element] = LEAF if element in out else node_of(True, _fields_of(item, shape.items) or LEAF) or LEAF
    return out


def is_plain_text(value: Any, atom: Atom | None) -> bool:
    """Whether a value is a text in a place for scalars, as most values are: there is nothing below it."""
    return type(value) is str and atom is not None and atom.scalar != ""


def kind_of(value: Any, atom: Atom | None) -> MapShape | ListShape | str:
    """As what a value is to be treated: the shape that fits it, else the first one that the place allows."""
    if atom is None:
        raise SchemaMismatch("field not declared in schema")
    if isinstance(value, dict):
        fitting: MapShape | ListShape | str | None = atom.map
    elif isinstance(value, list):
        fitting = atom.list
    else:
        fitting = None if value is None else atom.scalar
    return fitting or atom.map or atom.scalar or atom.list or ""


# --- the difference of two objects ----------------------------------------------------------------------------------


class Changes(msgspec.Struct):
    """What a write did: three sets that have nothing in common."""

    removed: Fields = msgspec.field(default_factory=dict)
    modified: Fields = msgspec.field(default_factory=dict)
    added: Fields = msgspec.field(default_factory=dict)


def compare(old: Obj, new: Obj, atom: Atom) -> Changes:
    """How `new` differs from `old`, both in the version that `atom` describes.

    Python takes True for 1, so that a place without a type may change from one to the other unnoticed.
    """
    comparison = _Comparison()
    if old != new:
        comparison.values(old, new, atom, ())
    return Changes(comparison.removed, comparison.modified, comparison.added)


class _Comparison:
    """Collects the differences on the way down; paths are only made for what differs."""

    def __init__(self) -> None:
        self.removed: dict[str, Any] = {}
        self.modified: dict[str, Any] = {}
        self.added: dict[str, Any] = {}

    def values(self, old: Any, new: Any, atom: Atom | None, path: FieldPath) -> None:
        """Compare two values that are both there, though one of them may be null."""
        if atom is None:
            raise SchemaMismatch("field not declared in schema")
        sample = old if new is None else new
        if isinstance(sample, dict) and isinstance(old, dict | None) and atom.map is not None:
            if not atom.map.is_atomic and (old or new):
                self._maps(old or {}, new or {}, atom.map, path)
                return
        elif isinstance(sample, list) and isinstance(old, list | None) and atom.list is not None:
            if not atom.list.is_atomic and (old or new):
                self._lists(old or [], new or [], atom.list, path)
                return
        elif type(old) is not type(new):
            self._changed_kind(old, new, atom, path)
        graft(self.modified, path[:-1], {path[-1]: LEAF})

    def _maps(self, old: Obj, new: Obj, shape: MapShape, path: FieldPath) -> None:
        children, spelled = shape.children, shape.spelled
        added = {}
        for key, value in new.items():
            if key not in old:
                added[spelled[key]] = LEAF if type(value) is str else whole(value, children[key])
            elif old[key] != value:
                self.values(old[key], value, children[key], (*path, spelled[key]))
        graft(self.added, path, added)
        removed = {spelled[key]: whole(value, children[key]) for key, value in old.items() if key not in new}
        graft(self.removed, path, removed)

    def _lists(self, old: list[Any], new: list[Any], shape: ListShape, path: FieldPath) -> None:
        before, after, items = _grouped(old, shape), _grouped(new, shape), shape.items
        for element in {**before, **after}:
            old_items, new_items, place = before.get(element, []), after.get(element, []), (*path, element)
            if len(old_items) < 2 and len(new_items) < 2:
                self._elements(old_items, new_items, items, place)
            elif len(old_items) >= 2 and len(new_items) >= 2:
                if old_items != new_items:
                    graft(self.modified, path, {element: LEAF})
            elif len(old_items) >= 2:  # told apart again: the common ownership ends, what is left begins
                self._elements([], new_items, items, place)
                graft(self.removed, path, {element: LEAF})
            else:
                self._elements(old_items, [], items, place)
                graft(self.added, path, {element: LEAF})

    def _elements(self, old_items: list[Any], new_items: list[Any], items: Atom, path: FieldPath) -> None:
        """Compare an element that is there at most once on either side."""
        if not new_items:
            if old_items:
                graft(self.removed, path[:-1], {path[-1]: whole(old_items[0], items)})
        elif not old_items:
            graft(self.added, path[:-1], {path[-1]: whole(new_items[0], items)})
        elif old_items[0] != new_items[0]:
            self.values(old_items[0], new_items[0], items, path)

    def _changed_kind(self, old: Any, new: Any, atom: Atom, path: FieldPath) -> None:
        """A place without a type held a map and now holds a scalar, or the like: what lay below changed too."""
        for value, collected in ((old, self.removed), (new, self.added)):
            if value and isinstance(value, dict | list):
                graft(collected, path, below(whole(value, atom)))


def _grouped(items: list[Any], shape: ListShape) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    element_of = shape.element_of
    for item in items:
        found.setdefault(element_of(item), []).append(item)
    return found


def whole(value: Any, atom: Atom | None) -> Fields:
    """The node of a value that is all new or all gone: itself and everything below it.

    This is most of the work of a create, hence the care for its inner loop.
    """
    kind = type(value)
    if not value or (kind is not dict and kind is not list):
        return LEAF
    shape = None if atom is None else atom.map if kind is dict else atom.list
    if shape is None:
        raise SchemaMismatch("field not declared in schema")
    if shape.is_atomic:
        return LEAF
    out: dict[str, Fields] = {SELF: LEAF}
    if isinstance(shape, ListShape):
        element_of, items = shape.element_of, shape.items
        for item in value:
            element = element_of(item)
            out[element] = LEAF if element in out else whole(item, items)
        return out
    children, spelled = shape.children, shape.spelled
    for key, item in value.items():
        kind = type(item)
        if kind is str or (kind is not dict and kind is not list) or not item:
            out[spelled[key]] = LEAF
        else:
            out[spelled[key]] = whole(item, children[key])
    return out
