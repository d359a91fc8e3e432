"""The abstract syntax of an expression. `at` is the offset in the source that an error about the node points to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

#: How deep expressions may be nested (cel-go's default).
MOST_DEEP: Final = 250
#: Names that no variable has, because they may come to mean something.
RESERVED: Final = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


class Literal(msgspec.Struct, frozen=True):
    value: Any
    at: int


class Ident(msgspec.Struct, frozen=True):
    name: str
    at: int


class Select(msgspec.Struct, frozen=True):
    """`operand.field`; `operand.?field` if it is optional; within `has()` a test."""

    operand: Node
    field: str
    at: int
    is_optional: bool = False
    is_test: bool = False


class Call(msgspec.Struct, frozen=True):
    """A function of arguments, or of a target and arguments. Operators are functions with names such as `_+_`."""

    function: str
    arguments: tuple[Node, ...]
    at: int
    target: Node | None = None


class Logic(msgspec.Struct, frozen=True):
    """`a && b && …`, or `a || b || …`."""

    is_and: bool
    operands: tuple[Node, ...]
    at: int


class ListLiteral(msgspec.Struct, frozen=True):
    elements: tuple[Node, ...]
    optionals: frozenset[int]  # which of them are written `?element`
    at: int


class Entry(msgspec.Struct, frozen=True):
    """`key: value` of a map, `field: value` of an object; left out if the value is `?` and none."""

    key: Node
    value: Node
    is_optional: bool
    at: int


class MapLiteral(msgspec.Struct, frozen=True):
    entries: tuple[Entry, ...]
    at: int


class ObjectLiteral(msgspec.Struct, frozen=True):
    """`Type{field: value}`. Keys are identifiers."""

    type_name: str
    entries: tuple[Entry, ...]
    at: int


class Macro(msgspec.Struct, frozen=True):
    """A macro over the elements of `target`: `all`, `map` and so on, with one variable or two."""

    name: str
    target: Node
    variables: tuple[str, ...]
    bodies: tuple[Node, ...]
    at: int


Node: TypeAlias = Literal | Ident | Select | Call | Logic | ListLiteral | MapLiteral | ObjectLiteral | Macro


def idents(node: Node) -> set[str]:
    """The names that stand for values anywhere in a tree."""
    return {found.name for found in walked(node) if isinstance(found, Ident)}


def walked(node: Node) -> Iterator[Node]:
    """A node and all below it: each before what is in it, from left to right."""
    waiting: list[Node] = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(parts(current)))


def parts(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case Logic():
            return node.operands
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case ObjectLiteral():
            return tuple(entry.value for entry in node.entries)
        case Macro():
            return (node.target, *node.bodies)
    return ()
