"""What an expression could cost at most, without a value: Kubernetes refuses rules that could cost too much.

Walks over the syntax as cel-go's checker/cost.go walks over it with macros expanded, and arrives at the same figures:
they decide which definitions may be created, so they are part of the API. Nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.cel.functions import costs
from fairlead.cel.functions.estimates import estimate
from fairlead.cel.functions.overloads import Overload
from fairlead.cel.sizes import MOST, UNKNOWN, Entries, Estimate, Part, Place, Size, bounded, exactly
from fairlead.cel.syntax import Call, Ident, ListLiteral, Literal, Logic, Macro, MapLiteral, Node, ObjectLiteral, Select
from fairlead.cel.types import BOOL, DOUBLE, DURATION, DYN, INT, TIMESTAMP, UINT, ObjectType, Type

_SCALARS: Final = (BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT)


def estimated_cost(node: Node, types: Mapping[int, Type], calls: Mapping[int, Sequence[Overload]], root: Place) -> int:
    """The most that an expression can cost about what is declared so. Types and calls are told by ids of nodes."""
    return _Estimator(types, calls, root).part(node).cost


class _Estimator:
    def __init__(self, types: Mapping[int, Type], calls: Mapping[int, Sequence[Overload]], root: Place) -> None:
        self._types, self._calls, self._root = types, calls, root
        self._variables: dict[str, Part] = {}

    def part(self, node: Node) -> Part:
        type_ = self._types[id(node)]
        match node:
            case Literal():
                return Part(0, type_, exactly(_length(node.value)), literal=node.value)
            case Ident():
                return self._ident(node, type_)
            case Select():
                return self._select(node, type_)
            case Call():
                return self._call(node, type_)
            case Logic():
                return Part(_sum(self.part(operand) for operand in node.operands), type_, exactly(1))
            case ListLiteral():
                return self._list(node, type_)
            case MapLiteral():
                return self._map(node, type_)
            case ObjectLiteral():
                return Part(_sum((self.part(entry.value) for entry in node.entries), costs.NEW_OBJECT), type_)
            case Macro():
                return self._macro(node, type_)

    def _ident(self, node: Ident, type_: Type) -> Part:
        known = self._variables.get(node.name)
        if known is None:
            return self._at(1, type_, self._root)
        return self._at(1, type_, known.place, known)

    @staticmethod
    def _at(cost: int, type_: Type, place: Place | None, known: Part | None = None) -> Part:
        """A part at a place. What the schema declares goes before what its type or its variable tells of its size."""
        size = None if place is None or place.most is None else Size(0, bounded(place.most))
        if size is None:
            size = _size_of_type(type_)
        if size is None and known is not None:
            size = known.size
        return Part(cost, type_, size, None if known is None else known.entries, place)

    def _step(self, operand: Part, name: str) -> Place:
        """The place below; cel-go takes what is no way from a variable for one that begins at the root."""
        return self._root if operand.place is None else operand.place.step(name)

    def _select(self, node: Select, type_: Type) -> Part:
        if id(node.operand) not in self._types:  # together they are the name of a variable or a type
            return self._at(1, type_, self._root)
        operand = self.part(node.operand)
        if node.is_test:
            return Part(operand.cost, type_, exactly(1))
        if node.is_optional:
            return Part(bounded(operand.cost + 1), type_, _size_of_type(type_))
        is_counted = operand.type.name == "map" or isinstance(operand.type, ObjectType)
        return self._at(bounded(operand.cost + is_counted), type_, self._step(operand, node.field))

    # -- literals of many parts

    def _list(self, node: ListLiteral, type_: Type) -> Part:
        parts = [self.part(element) for element in node.elements]
        entries = Entries(True, exactly(1), _any_of(parts))
        return Part(_sum(parts, costs.NEW_LIST), type_, exactly(len(parts)), entries)

    def _map(self, node: MapLiteral, type_: Type) -> Part:
        keys = [self.part(entry.key) for entry in node.entries]
        values = [self.part(entry.value) for entry in node.entries]
        entries = Entries(False, _any_of(keys), _any_of(values))
        return Part(_sum([*keys, *values], costs.NEW_MAP), type_, exactly(len(keys)), entries)

    # -- calls

    def _call(self, node: Call, type_: Type) -> Part:
        if node.function == "dyn":
            argument = self.part(node.arguments[0])
            return Part(bounded(argument.cost + 1), type_, argument.size, argument.entries)
        if node.function == "_?_:_":
            return self._conditional(node, type_)
        overloads = self._calls.get(id(node), ())
        is_method = node.target is not None and (not overloads or overloads[0].is_method)
        parts = [self.part(node.target)] if is_method and node.target is not None else []
        parts += [self.part(argument) for argument in node.arguments]
        return self.called(node.function, overloads, parts, type_)

    def called(self, function: str, overloads: Sequence[Overload], parts: Sequence[Part], type_: Type) -> Part:
        """A call: the most expensive of the overloads that it may turn out to be."""
        found = [estimate(overload, parts) for overload in overloads] or [Estimate(1)]
        cost = _sum(parts, max(each.cost for each in found))
        if function == "_[_]" and overloads:
            operand = parts[0]
            place = self._step(operand, "@items" if overloads[-1].parameters[0].name == "list" else "@values")
            part = self._at(cost, type_, place)
            return part if operand.entries is None else Part(cost, type_, operand.entries.value, None, place)
        sizes = [each.size for each in found if each.size is not None]
        size = sizes[0] if sizes else _size_of_type(type_)
        for other in sizes[1:]:
            size = other if size is None else size.or_(other)
        return Part(cost, type_, size, _joined_entries(function, parts))

    def _conditional(self, node: Call, type_: Type) -> Part:
        condition, yes, no = (self.part(argument) for argument in node.arguments)
        cost = bounded(condition.cost + max(yes.cost, no.cost))
        entries = None if yes.entries is None else yes.entries.or_(no.entries)
        return Part(cost, type_, yes.known_size.or_(no.known_size), entries)

    # -- macros

    def _macro(self, node: Macro, type_: Type) -> Part:
        target = self.part(node.target)
        if node.name in ("optMap", "optFlatMap"):
            return self._opt_mapped(node, type_, target)
        if node.name == "bind":
            return self._bound(node, type_, target)
        if node.name == "sortBy":
            return self._sorted(node, type_, target)
        elements = self._elements(node, target)
        outside, self._variables = self._variables, self._variables | elements
        bodies = [self.part(body) for body in node.bodies]
        self._variables = outside
        own = costs.macro(node.name)
        step = own.each + own.chosen + sum(body.cost for body in bodies)
        cost = bounded(target.cost + own.start + own.end + bounded(target.known_size.most * bounded(step)))
        if own.start == 0:  # what begins with a literal is as large as that: a bool, or a number
            return Part(cost, type_, exactly(1))
        if own.start != costs.NEW_LIST:
            return Part(cost, type_, target.known_size)
        element = elements[node.variables[0]] if node.name == "filter" else bodies[-1]
        # Nothing is in the list at the beginning, then what was made of each element, or is the element.
        entries = Entries(True, exactly(1), exactly(0).or_(element.known_size))
        return Part(cost, type_, target.known_size, entries)

    def _elements(self, node: Macro, target: Part) -> dict[str, Part]:
        """The variables of a macro: an element or key, or a key or index and its value."""
        is_list = target.type.name == "list" if target.entries is None else target.entries.is_list
        key, value = node.variables[0], node.variables[-1]
        entries = target.entries
        keys = None if entries is None else Part(0, DYN, entries.key)
        values = None if entries is None else Part(0, DYN, entries.value)
        types = target.type.of or (DYN,)
        found: dict[str, Part] = {}
        if not is_list or len(node.variables) == 2:
            key_type = INT if is_list else types[0]
            found[key] = self._at(0, key_type, self._step(target, "@indices" if is_list else "@keys"), keys)
        if is_list or len(node.variables) == 2:
            found[value] = self._at(0, types[-1], self._step(target, "@items" if is_list else "@values"), values)
        return found

    def _bound(self, node: Macro, type_: Type, target: Part) -> Part:
        """cel-go makes a loop over an empty list of it, whose result is the body."""
        outside = self._variables
        self._variables = outside | {node.variables[0]: Part(1, target.type, target.size, target.entries, target.place)}
        body = self.part(node.bodies[0])
        self._variables = outside
        return Part(bounded(costs.NEW_LIST + target.cost + body.cost), type_, body.size, body.entries)

    def _opt_mapped(self, node: Macro, type_: Type, target: Part) -> Part:
        """`target.hasValue() ? optional.of(body of target.value()) : optional.none()`."""
        outside = self._variables
        value = Part(target.cost + 1, target.type.of[0] if target.type.of else target.type)
        self._variables = outside | {node.variables[0]: value}
        body = self.part(node.bodies[0])
        self._variables = outside
        used = costs.NEW_LIST + value.cost + body.cost + (node.name == "optMap")
        return Part(bounded(target.cost + 1 + max(used, 1)), type_, _size_of_type(type_) or UNKNOWN)

    def _sorted(self, node: Macro, type_: Type, target: Part) -> Part:
        """The target is named, and sorted by what is made of each of its elements."""
        outside, self._variables = self._variables, self._variables | self._elements(node, target)
        key = self.part(node.bodies[0])
        self._variables = outside
        own, count = costs.macro("map"), target.known_size
        step = own.each + own.chosen + key.cost
        keys = Part(bounded(1 + own.start + own.end + bounded(count.most * bounded(step))), key.type, count)
        named = Part(1, target.type, target.size, target.entries, target.place)
        sorted_ = self.called("@sortByAssociatedKeys", self._calls.get(id(node), ()), [named, keys], type_)
        return Part(bounded(costs.NEW_LIST + target.cost + sorted_.cost), type_, sorted_.size)


def _joined_entries(function: str, parts: Sequence[Part]) -> Entries | None:
    if function == "_+_" and parts[0].entries is not None:
        return parts[0].entries.or_(parts[1].entries)
    return None


def _any_of(parts: Sequence[Part]) -> Size:
    found = Size(MOST, 0) if parts else exactly(0)
    for part in parts:
        found = found.or_(part.known_size)
    return found


def _sum(parts: Any, start: int = 0) -> int:
    return bounded(start + sum(part.cost for part in parts))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 1


def _size_of_type(type_: Type) -> Size | None:
    if type_.name == "optional_type":
        type_ = type_.of[0]
    return exactly(1) if type_ in _SCALARS else None
