"""What calls could cost at most, by how large their arguments can be.

The figures are Kubernetes' (apiserver/pkg/cel/library/cost.go) where it has any, then those of cel-go's extensions,
then cel-go's own (checker/cost.go); whatever is not here costs one unit. They decide which rules may be written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload
from fairlead.cel.sizes import MOST, UNKNOWN, Estimate, Part, Size, bounded, exactly, scaled
from fairlead.cel.types import BYTES, STRING

#: What reading one byte costs, and what one character of a pattern costs for each part of a text.
_READ: Final = 0.1
_PATTERN: Final = 0.25
#: The longest pattern of a named format, and the longest format.
_FORMAT_PATTERN: Final = 128
_FORMAT: Final = 64
_CHECK: Final = 350_000
_ADDRESS: Final = 16
_Estimator = Callable[[Overload, Sequence[Part]], Estimate]


def estimate(overload: Overload, parts: Sequence[Part]) -> Estimate:
    """The most that a call can cost beside its arguments."""
    found = _ESTIMATES.get(overload.function)
    return Estimate(1) if found is None else found(overload, parts)


def _reading(times: float, *, is_sized: bool = False) -> _Estimator:
    """The first argument is read; the result is as large as it, or nobody knows."""

    def made(_: Overload, parts: Sequence[Part]) -> Estimate:
        size = parts[0].known_size
        return Estimate(scaled(size.most, times * _READ), size if is_sized else None)

    return made


def _fixed(cost: int) -> _Estimator:
    return lambda _, __: Estimate(cost)


# -- lists


def _comparing(overload: Overload, parts: Sequence[Part]) -> Estimate:
    """Every element of a list, or every character of a text, is looked at."""
    target = parts[0]
    if not target.type.of:
        return Estimate(scaled(target.known_size.most, _READ))
    each = 1
    if target.type.of[0] in (STRING, BYTES):
        each += scaled(_element_size(target).most, _READ)
    return Estimate(bounded(target.known_size.most * bounded(each)))


def _element_size(values: Part) -> Size:
    place = None if values.place is None else values.place.step("@items")
    return UNKNOWN if place is None or place.most is None else Size(0, place.most)


def _made(size: Size, factor: float = 1) -> Estimate:
    """A list of that size is made."""
    return Estimate(bounded(scaled(size.most, factor) + 1 + costs.NEW_LIST), size)


def _whole(part: Part, otherwise: int) -> int:
    """An integer that is written out."""
    return max(0, part.literal) if type(part.literal) is int else otherwise


def _slice(_: Overload, parts: Sequence[Part]) -> Estimate:
    values, start, end = parts
    length = _whole(end, values.known_size.most) - _whole(start, 0)
    return _made(exactly(length if length >= 0 else MOST))


def _flatten(_: Overload, parts: Sequence[Part]) -> Estimate:
    depth = _whole(parts[1], MOST) if len(parts) == 2 else 1
    return _made(parts[0].known_size, float(depth))


def _reverse(overload: Overload, parts: Sequence[Part]) -> Estimate:
    return _made(parts[0].known_size) if overload.parameters[0].name == "list" else Estimate(1)


def _comparing_all(overload: Overload, parts: Sequence[Part]) -> Estimate:
    """Each element with each; the elements of `sort` and the keys of `sortBy` may be texts."""
    keys = overload.parameters[-1]
    factor = 2.1 if overload.function != "distinct" and keys.of and keys.of[0] in (STRING, BYTES) else 2.0
    size = parts[-1].known_size
    return _made(size.times(size), factor)


def _sets(factor: int) -> _Estimator:
    def made(_: Overload, parts: Sequence[Part]) -> Estimate:
        product = parts[0].known_size.times(parts[1].known_size)
        return Estimate(bounded(scaled(product.most, factor) + 1))

    return made


def _in(overload: Overload, parts: Sequence[Part]) -> Estimate:
    return Estimate(parts[1].known_size.most if overload.parameters[1].name == "list" else 1)


# -- texts


def _replace(_: Overload, parts: Sequence[Part]) -> Estimate:
    text, old, new = (part.known_size for part in parts[:3])
    least, most = _replaced(text.least, old.most, new.least), MOST
    if old.least == 0:
        most = bounded(bounded(text.most + 1) * new.most + text.most)
    elif new.most <= old.least:
        most = text.most
    else:
        most = bounded(scaled(text.most, 1 / old.least) * new.most)
    return Estimate(scaled(text.most, 2 * _READ), Size(min(least, most), most))


def _replaced(length: int, longest_old: int, shortest_new: int) -> int:
    """How long a text is at least."""
    if longest_old == 0:
        return bounded((length + 1) * shortest_new + length)
    if longest_old <= shortest_new:
        return length
    return bounded(-(-length // longest_old) * shortest_new)


def _split(_: Overload, parts: Sequence[Part]) -> Estimate:
    size = parts[0].known_size
    limit = parts[2].literal if len(parts) == 3 and type(parts[2].literal) is int else size.most
    return Estimate(scaled(size.most, 2 * _READ), Size(0, limit if limit >= 0 else MOST))


def _join(_: Overload, parts: Sequence[Part]) -> Estimate:
    count, size = parts[0].known_size, exactly(0)
    if parts[0].type.of:
        size = count.times(_element_size(parts[0]))
    if len(parts) == 2:
        between = Size(max(0, count.least - 1), max(0, count.most - 1))
        size = size.plus(parts[1].known_size.times(between))
    return Estimate(scaled(size.most, _READ), size)


def _matching(overload: Overload, parts: Sequence[Part]) -> Estimate:
    if not overload.is_method:
        return Estimate(1)
    text, pattern = parts[0].known_size, parts[1].known_size
    cost = bounded(scaled(bounded(text.most + 1), _READ) * scaled(pattern.most, _PATTERN))
    return Estimate(cost, Size(0, text.most) if overload.function != "matches" else None)


def _contains(_: Overload, parts: Sequence[Part]) -> Estimate:
    text, wanted = (scaled(part.known_size.most, _READ) for part in parts)
    return Estimate(bounded(text * wanted))


def _part(_: Overload, parts: Sequence[Part]) -> Estimate:
    return Estimate(scaled(parts[1].known_size.most, _READ))


def _bytes(overload: Overload, parts: Sequence[Part]) -> Estimate:
    size = parts[0].known_size
    if overload.parameters[0] != STRING:
        return Estimate(1)
    return Estimate(scaled(size.most, _READ), Size(size.least, bounded(size.most * 4)))


def _string(overload: Overload, parts: Sequence[Part]) -> Estimate:
    size = parts[0].known_size
    if overload.parameters[0] != BYTES:
        return Estimate(1)
    return Estimate(scaled(size.most, _READ), Size(size.least // 4, size.most))


def _quote(_: Overload, parts: Sequence[Part]) -> Estimate:
    size = parts[0].known_size
    return Estimate(scaled(size.most, _READ), Size(bounded(size.least + 2), bounded(size.most * 2 + 2)))


# -- operators


def _plus(overload: Overload, parts: Sequence[Part]) -> Estimate:
    kind = overload.parameters[0]
    if kind not in (STRING, BYTES) and kind.name != "list":
        return Estimate(1)
    size = parts[0].known_size.plus(parts[1].known_size)
    return Estimate(1 if kind.name == "list" else scaled(size.most, _READ), size)


def _ordering(overload: Overload, parts: Sequence[Part]) -> Estimate:
    return _equality(overload, parts) if overload.parameters[0] in (STRING, BYTES) else Estimate(1)


def _equality(overload: Overload, parts: Sequence[Part]) -> Estimate:
    left, right = parts
    if overload.function == "_==_" and left.type == right.type:
        if left.type.name in _SMALL:
            return Estimate(1)
        if left.type.name == "kubernetes.NamedFormat":
            return Estimate(scaled(_FORMAT, _READ))
        if left.type.name == "kubernetes.URL":
            size = right.size.most if right.size is not None and left.size is not None else 1
            return Estimate(scaled(size, _READ))
    return Estimate(scaled(min(left.known_size.most, right.known_size.most), _READ))


#: Types whose values are compared in one step.
_SMALL: Final = frozenset(
    (
        *("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.authorization.Authorizer"),
        *("kubernetes.authorization.PathCheck", "kubernetes.authorization.GroupCheck"),
        *("kubernetes.authorization.ResourceCheck", "kubernetes.authorization.Decision"),
    )
)


# -- Kubernetes' own


def _containing(address_reads: int, more: int) -> _Estimator:
    """Whether an address or a network is in a network; a text has to be read first."""

    def made(overload: Overload, parts: Sequence[Part]) -> Estimate:
        cost = scaled(2 * _ADDRESS, _READ) + address_reads * scaled(_ADDRESS, _READ) + more
        if overload.parameters[1] == STRING:
            cost += scaled(parts[1].known_size.most, _READ)
        return Estimate(bounded(cost))

    return made


def _ip(overload: Overload, parts: Sequence[Part]) -> Estimate:
    return Estimate(1) if overload.is_method else Estimate(scaled(parts[0].known_size.most, _READ))


def _validate(_: Overload, parts: Sequence[Part]) -> Estimate:
    return Estimate(scaled(scaled(parts[1].known_size.most, _READ), _FORMAT_PATTERN * _PATTERN))


def _selector(_: Overload, parts: Sequence[Part]) -> Estimate:
    length = parts[-1].known_size.most
    return Estimate(bounded(costs.NEW_LIST + scaled(length, _READ) + scaled(scaled(length, 0.5), 50)))


_ESTIMATES: Final[Mapping[str, _Estimator]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _comparing),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _reading(1, is_sized=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _reading(1, is_sized=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _reading(1)),
    "ip.isCanonical": _reading(2),
    "format": _reading(1),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _matching,
    "findAll": _matching,
    "matches": _matching,
    "contains": _contains,
    "startsWith": _part,
    "endsWith": _part,
    "bytes": _bytes,
    "string": _string,
    "strings.quote": _quote,
    "slice": _slice,
    "flatten": _flatten,
    "reverse": _reverse,
    "lists.range": lambda _, parts: _made(exactly(_whole(parts[0], MOST))),
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _comparing_all),
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "@in": _in,
    "_+_": _plus,
    "_==_": _equality,
    "_!=_": _equality,
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _ordering),
    "ip": _ip,
    "containsIP": _containing(0, 0),
    "containsCIDR": _containing(1, 1),
    "validate": _validate,
    "check": _fixed(_CHECK),
    "fieldSelector": _selector,
    "labelSelector": _selector,
}
