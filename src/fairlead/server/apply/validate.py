"""Whether an applied configuration fits the schema, with upstream's error texts.

This check comes before all others and knows nothing of defaults or rules: it only makes sure that merging can work. Its
refusals are 500s without a reason, because upstream has no better code for them.

Source: structured-merge-diff `typed/validate.go`, `typed/helpers.go`.
"""

from __future__ import annotations

from typing import Any

from fairlead.golang.quoting import go_quote
from fairlead.golang.values import printed, type_of
from fairlead.server.apply import elements
from fairlead.server.apply.shapes import Atom, ListShape, MapShape, SchemaMismatch
from fairlead.server.apply.typed import kind_of

#: A path, and what is wrong there.
Problem = tuple[str, str]


def problems_of(value: Any, atom: Atom | None) -> list[Problem]:
    """Everything in a configuration that does not fit. Paths are made on the way back, of what does not fit alone."""
    if atom is None:
        return [("", "field not declared in schema")]
    if value is None:
        return []
    kind = kind_of(value, atom)
    if isinstance(kind, MapShape):
        return _map(value, kind) if isinstance(value, dict) else [("", f"expected map, got {_shown(value)}")]
    if isinstance(kind, ListShape):
        return _list(value, kind) if isinstance(value, list) else [("", f"expected list, got {_shown(value)}")]
    return _scalar(value, kind)


def joined(problems: list[Problem]) -> str:
    texts = [f"{path}: {text}" if path else text for path, text in problems]
    return texts[0] if len(texts) == 1 else "\n".join(["errors:", *(f"  {text}" for text in texts)])


def _map(value: dict[str, Any], shape: MapShape) -> list[Problem]:
    if shape.are_texts(value):
        return []
    found: list[Problem] = []
    children = shape.children
    for key, item in value.items():
        child = children[key]
        if type(item) is str and child is not None and child.scalar == "string":
            continue
        found += _below(f".{key}", problems_of(item, child))
        if child is None:
            break  # upstream stops at an undeclared field
    return found


def _list(value: list[Any], shape: ListShape) -> list[Problem]:
    found: list[Problem] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if not shape.is_atomic:
            try:
                element = shape.element_of(item)
            except SchemaMismatch as error:
                return [*found, ("", f"element {index}: {error}")]
            if element in seen:
                found.append(("", f"duplicate entries for key {elements.path_text(element)}"))
            seen.add(element)
        if problems := problems_of(item, shape.items):
            found += _below(elements.path_text(element), problems)
    return found


def _below(step: str, problems: list[Problem]) -> list[Problem]:
    return [(step + path, text) for path, text in problems]


def _scalar(value: Any, kind: str) -> list[Problem]:
    if kind == "numeric" and (isinstance(value, bool) or not isinstance(value, int | float)):
        return [("", f"expected numeric (int or float), got {type_of(value)}")]
    if kind == "string" and not isinstance(value, str):
        return [("", f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}")]
    if kind == "boolean" and not isinstance(value, bool):
        return [("", f"expected boolean, got {_shown(value)}")]
    if kind == "untyped" and isinstance(value, dict | list):
        return [("", f"expected any scalar, got {_shown(value)}")]
    return []


def _shown(value: Any) -> str:
    """Go's `%v` of the wrapped value."""
    return f"&{{{printed(value)}}}"


def _literal(value: Any) -> str:
    """Go's `%#v`."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{go_quote(key)}:{_literal(item)}" for key, item in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_literal, value))}}}"
    return "interface {}(nil)" if value is None else printed(value)
