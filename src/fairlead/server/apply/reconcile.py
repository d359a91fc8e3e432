"""Sets of fields after their schema has changed.

A CRD may declare a list or map atomic after somebody came to own a part of one; from then on they own the whole. The
other way round nothing can be done, nor has to be. Source: structured-merge-diff `typed/reconcile_schema.go`, KEP-2155.
"""

from __future__ import annotations

from typing import Any

from fairlead.server.apply.fieldsets import LEAF, SELF, Fields
from fairlead.server.apply.shapes import Atom


def reconciled(fields: Fields, atom: Atom | None) -> Fields:
    """The set as it would be had the schema always been this one; the one given if it already is."""
    if atom is None or not fields:
        return fields
    if atom.map is not None:
        if atom.map.is_free:
            return fields
        if atom.map.is_atomic:
            return LEAF
    elif atom.list is not None and not atom.scalar and atom.list.is_atomic:
        return LEAF
    out: dict[str, Any] | None = None
    for element, node in fields.items():
        new = node if element == SELF else reconciled(node, _child(element, atom))
        if new is not node:
            out = dict(fields) if out is None else out
            out[element] = new
    return fields if out is None else out


def _child(element: str, atom: Atom) -> Atom | None:
    if atom.map is not None:
        return atom.map.children[element[2:]] if element.startswith("f:") else atom.map.children.undeclared
    return atom.list.items if atom.list is not None and not atom.scalar else None
