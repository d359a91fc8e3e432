"""From text to syntax, within bounds."""

from __future__ import annotations

from typing import Final

from fairlead.cel.errors import CompileError
from fairlead.cel.syntax import MOST_DEEP, Node, parts

#: The longest expression that is read, in characters (cel-go's default).
MOST_CHARACTERS: Final = 100_000


def parse(source: str, *, has_bind: bool = False) -> Node:
    """The syntax of an expression; `CompileError` says what is wrong with it. `has_bind`: there is `cel.bind`."""
    from fairlead.cel import grammar  # lark takes 30 ms, and a server without expressions starts without it

    if len(source) > MOST_CHARACTERS:
        text = f"expression code point size exceeds limit: size: {len(source)}, limit {MOST_CHARACTERS}"
        raise CompileError(source, [(0, text)])
    node = grammar.read(source, has_bind=has_bind)
    if _depth(node) > MOST_DEEP:
        raise CompileError(source, [(0, f"expression recursion limit exceeded: {MOST_DEEP}")])
    return node


def _depth(node: Node) -> int:
    """How deep a tree is, level by level, so that a hostile one costs no recursion."""
    depth, level = 0, [node]
    while level and depth <= MOST_DEEP:
        level = [below for found in level for below in parts(found)]
        depth += 1
    return depth
