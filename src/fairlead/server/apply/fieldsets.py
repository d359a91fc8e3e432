"""Sets of fields and their algebra, in the very form in which they are stored.

Every write asks who owns what it changes, and every stored object carries the answer. So a set *is* its `fieldsV1`: no
write decodes the sets that it leaves alone.

    {"f:data": {".": {}, "f:a": {}}}        data itself, and data.a

A node is a dict from path elements (`elements.py`) to nodes. It is a member of the set if it is empty or has a "."; the
root stands for the whole object, which nobody owns, so an empty root is the empty set. A node that is neither a member
nor has any below it must not exist. Sets are never changed, only made anew, and share what they have in common; an
operation that changes nothing returns its first argument itself. The order of keys means nothing.

Source: structured-merge-diff `fieldpath/set.go` and `serialize.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead.server.apply.elements import MalformedFields, canonical, order, path_text

#: A set of fields, or a node of one.
Fields = Mapping[str, Any]
FieldPath = tuple[str, ...]

#: The sign of membership.
SELF: Final = "."
#: A member with nothing below it; also the empty set.
LEAF: Final[dict[str, Any]] = {}


def is_member(node: Fields) -> bool:
    """Whether a node is in the set itself."""
    return not node or SELF in node


def node_of(member: bool, below: Fields) -> Fields | None:
    """The node with this set below it; None if it is empty and no member."""
    if not below:
        return LEAF if member else None
    return {SELF: LEAF, **below} if member else below


def below(node: Fields) -> Fields:
    """The set below a node."""
    return {key: value for key, value in node.items() if key != SELF} if SELF in node else node


def union(a: Fields, b: Fields) -> Fields:
    return _united(a, b) if a and b else a or b


def union_of(sets: Sequence[Fields]) -> Fields:
    """The union of many, two by two: one after the other would copy what there is already for each of them."""
    while len(sets) > 1:
        sets = [union(*sets[at : at + 2]) if at + 1 < len(sets) else sets[at] for at in range(0, len(sets), 2)]
    return sets[0] if sets else LEAF


def _united(a: Fields, b: Fields) -> Fields:
    out: dict[str, Any] | None = None
    for key, right in b.items():
        left = a.get(key)
        if left is None:
            new = right
        elif left is right or key == SELF:
            continue
        elif left and right:
            new = _united(left, right)
        elif left:
            new = left if SELF in left else {SELF: LEAF, **left}
        else:
            new = {SELF: LEAF, **right} if right and SELF not in right else right
        if new is not left:
            out = dict(a) if out is None else out
            out[key] = new
    return a if out is None else out


def intersection(a: Fields, b: Fields) -> Fields:
    """What is in both."""
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    out = {}
    for key, left in small.items():
        right = large.get(key)
        if right is None or key == SELF:
            continue
        both = is_member(left) and is_member(right)
        node = node_of(both, intersection(left, right)) if left and right else LEAF if both else None
        if node is not None:
            out[key] = node
    return out


def difference(a: Fields, b: Fields) -> Fields:
    """What is in `a` and not in `b`; what lies below a member of `b` stays."""

    def rest(left: Fields, right: Fields) -> Fields | None:
        remaining = difference(below(left), right) if left and right else below(left)
        return node_of(is_member(left) and not is_member(right), remaining)

    return LEAF if a == b else _reduced(a, b, rest)


def without(a: Fields, b: Fields) -> Fields:
    """What is in `a` and neither in `b` nor below anything that is (upstream's RecursiveDifference)."""

    def rest(left: Fields, right: Fields) -> Fields | None:
        return None if is_member(right) else node_of(is_member(left), without(below(left), right))

    return _reduced(a, b, rest)


def _reduced(a: Fields, b: Fields, rest: Callable[[Fields, Fields], Fields | None]) -> Fields:
    """`a` with `rest` (None: nothing) of every node that stands in both; `a` itself if that changes none."""
    out: dict[str, Any] | None = None
    for key, right in b.items():
        left = a.get(key)
        if left is None or key == SELF:
            continue
        new = rest(left, right)
        if new == left:
            continue
        out = dict(a) if out is None else out
        if new is None:
            del out[key]
        else:
            out[key] = new
    return a if out is None else out


def contains(fields: Fields, path: Iterable[str]) -> bool:
    node: Fields | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return is_member(node or LEAF)


def of_paths(*paths: FieldPath) -> Fields:
    """The set of these paths."""
    found: Fields = LEAF
    for path in paths:
        node: Fields = LEAF
        for element in reversed(path):
            node = {element: node}
        found = union(found, node)
    return found


def graft(fields: dict[str, Any], path: FieldPath, nodes: Fields) -> None:
    """Add nodes below a path of a set under construction; nobody else may have a part of it yet."""
    if nodes:
        at = fields
        for element in path:
            at = at.setdefault(element, {})
        at.update(nodes)


def paths(fields: Fields) -> Iterator[FieldPath]:
    """Every member, in upstream's order: those of a level first, then what lies below."""
    ordered = sorted((key for key in fields if key != SELF), key=order)
    for key in ordered:
        if is_member(fields[key]):
            yield (key,)
    for key in ordered:
        for path in paths(fields[key]):
            yield (key, *path)


def spelled(path: FieldPath) -> str:
    """`.spec.containers[name="x"].image`."""
    return "".join(map(path_text, path))


def read(raw: Any) -> Fields:
    """The decoded set of a client; `MalformedFields` if it is malformed."""
    found = {}
    for key, value in _object(raw).items():
        element = None if key == SELF else canonical(key)
        if element is not None:
            found[element] = _node(value)
    return found


def _node(raw: Any) -> Fields:
    inner = read(raw)
    member = not inner or SELF in _object(raw)
    return node_of(member, inner) or LEAF


def _object(raw: Any) -> Mapping[str, Any]:
    if raw is None:
        return LEAF
    if not isinstance(raw, dict):
        raise MalformedFields(f"expected an object, found {raw!r}")
    return raw
