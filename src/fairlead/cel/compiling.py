"""Type check and compilation in one walk: every node becomes a closure over the closures below it.

What is known of types when an expression is compiled is not looked at again when it is evaluated: a call of which one
overload remains is that function. Only where a type is `dyn` do values choose among the overloads that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from fairlead.cel import macros
from fairlead.cel.errors import CelError, TooCostlyError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload
from fairlead.cel.functions.table import OVERLOADS
from fairlead.cel.scope import METER, Compiled, Findings, Frame, Run, Scope
from fairlead.cel.syntax import Call, Ident, ListLiteral, Literal, Logic, Macro, MapLiteral, Node, ObjectLiteral, Select
from fairlead.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    OPEN,
    STRING,
    TYPE,
    UINT,
    Bindings,
    ObjectType,
    Type,
    accepts,
    are_alike,
    fits,
    list_of,
    map_of,
    more_general,
    optional_of,
    shown,
)
from fairlead.cel.values import NONE, OptionalValue, TypeName, Uint, map_key, some, type_name

#: Names that stand for types.
_TYPE_NAMES: Final = frozenset(
    (
        *("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"),
        *("google.protobuf.Timestamp", "google.protobuf.Duration", "net.IP", "net.CIDR"),
        *("kubernetes.Quantity", "kubernetes.URL", "kubernetes.Semver", "kubernetes.NamedFormat"),
    )
)
_LITERALS: Final[Mapping[type, Type]] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}
#: From how many elements or characters on it is remembered what a value was read as.
_LONG: Final = 64
_UNKNOWN: Final = Compiled(DYN, lambda frame: None, 0)


class Compiler:
    """Compiles one expression; what is wrong is gathered, and what depends on it is taken for `dyn`."""

    def __init__(self, scope: Scope, objects: Mapping[str, ObjectType]) -> None:
        self.scope = scope
        self.findings = Findings()
        self._objects = objects
        #: The type of each node, and what each call may be, by the ids of the nodes.
        self.types: dict[int, Type] = {}
        self.calls: dict[int, Sequence[Overload]] = {}

    def compile(self, node: Node) -> Compiled:
        found = self._compiled(node)
        self.types[id(node)] = found.type
        return found

    def _compiled(self, node: Node) -> Compiled:
        match node:
            case Literal():
                value = node.value
                return _constant(_LITERALS[type(value)], value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case Logic():
                return self._logic(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case ObjectLiteral():
                return self._object(node)
            case Macro():
                return macros.compiled(self, node)

    def expect(self, part: Compiled, wanted: Type, at: int) -> None:
        """Note it if a part is of another type."""
        if not fits(wanted, part.type):
            self.findings.add(at, f"expected type '{wanted}' but found '{part.type}'")

    # -- names

    def _ident(self, node: Ident) -> Compiled:
        found = self.scope.find(node.name)
        if found is not None:
            place, type_ = found
            return Compiled(type_, lambda frame: frame[place], 1)
        if node.name in _TYPE_NAMES:
            value = TypeName(node.name)
            return Compiled(TYPE, lambda frame: value, 1)
        self.findings.add(node.at, f"undeclared reference to '{node.name}' (in container '')")
        return _UNKNOWN

    def _select(self, node: Select) -> Compiled:
        if isinstance(node.operand, Ident) and self.scope.find(f"{node.operand.name}.{node.field}"):
            return self._ident(Ident(f"{node.operand.name}.{node.field}", node.at))
        if (name := self._qualified(node)) in _TYPE_NAMES:
            return self._ident(Ident(name, node.at))
        operand = self.compile(node.operand)
        type_, is_chained = operand.type, False
        if type_.name == "optional_type":
            type_, is_chained = type_.of[0], True
        key, found, read = node.field, DYN, None
        if isinstance(type_, ObjectType):
            declared = type_.fields.get(node.field)
            if declared is None:
                self.findings.add(node.at, f"undefined field '{node.field}'")
                return _UNKNOWN
            key, found, read = declared.key, declared.type, declared.read
        elif type_.name == "map":
            found = type_.of[1]
        elif type_ != DYN:
            self.findings.add(node.at, f"type '{type_}' does not support field selection")
            return _UNKNOWN
        if node.is_test:
            return Compiled(BOOL, _tested(operand.run, key), operand.weight + 1)
        if node.is_optional or is_chained:
            return Compiled(optional_of(found), _optionally(operand.run, key, read), operand.weight + 1)
        run = _selected(operand.run, key)
        if read is not None:
            run = _read(run, read)
        return Compiled(found, run, operand.weight + 1)

    # -- literals of many parts

    def _list(self, node: ListLiteral, *, is_mixed: bool = False) -> Compiled:
        parts = [self.compile(element) for element in node.elements]
        types = [
            self._held(part, index in node.optionals, element.at)
            for index, (part, element) in enumerate(zip(parts, node.elements, strict=True))
        ]
        element_type = DYN if is_mixed else self._common(types, [element.at for element in node.elements])
        runs, optionals = [part.run for part in parts], node.optionals
        weight = costs.NEW_LIST + sum(part.weight for part in parts)

        def run(frame: Frame) -> list[Any]:
            if not optionals:
                return [part(frame) for part in runs]
            made = []
            for index, part in enumerate(runs):
                value = part(frame)
                if index not in optionals:
                    made.append(value)
                elif value.is_present:
                    made.append(value.value)
            return made

        if not optionals and all(part.is_constant for part in parts):
            return _constant(list_of(element_type), run([]))
        return Compiled(list_of(element_type), run, weight)

    def _held(self, part: Compiled, is_optional: bool, at: int) -> Type:
        """The type that an element has in its list or map."""
        if not is_optional:
            return part.type
        self.expect(part, optional_of(DYN), at)
        return part.type.of[0] if part.type.of else DYN

    def _common(self, types: Sequence[Type], places: Sequence[int]) -> Type:
        """The one type of all elements."""
        if not types:
            return OPEN
        common = types[0]
        for type_, at in zip(types[1:], places[1:], strict=True):
            if not are_alike(common, type_):
                self.findings.add(at, f"expected type '{common}' but found '{type_}'")
                return DYN
            common = more_general(common, type_)
        return common

    def _map(self, node: MapLiteral) -> Compiled:
        keys = [self.compile(entry.key) for entry in node.entries]
        values = [self.compile(entry.value) for entry in node.entries]
        places = [entry.value.at for entry in node.entries]
        key_type = self._common([key.type for key in keys], [entry.key.at for entry in node.entries])
        held = [
            self._held(value, entry.is_optional, entry.value.at)
            for value, entry in zip(values, node.entries, strict=True)
        ]
        weight = costs.NEW_MAP + sum(part.weight for part in (*keys, *values))
        entries = [
            (key.run, value.run, entry.is_optional)
            for key, value, entry in zip(keys, values, node.entries, strict=True)
        ]

        def run(frame: Frame) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key_run, value_run, is_optional in entries:
                key, value = map_key(key_run(frame)), value_run(frame)
                if is_optional:
                    if not value.is_present:
                        continue
                    value = value.value
                if key in made:
                    raise CelError(f"Failed with repeated key: {key}")
                made[key] = value
            return made

        return Compiled(map_of(key_type, self._common(held, places)), run, weight)

    def _object(self, node: ObjectLiteral) -> Compiled:
        type_ = self._objects.get(node.type_name)
        if type_ is None:
            self.findings.add(node.at, f"undeclared reference to '{node.type_name}' (in container '')")
            return _UNKNOWN
        entries: list[tuple[str, Run, bool]] = []
        weight = costs.NEW_OBJECT
        for entry in node.entries:
            assert isinstance(entry.key, Ident)
            value, declared = self.compile(entry.value), type_.fields.get(entry.key.name)
            weight += value.weight
            if declared is None:
                self.findings.add(entry.at, f"undefined field '{entry.key.name}'")
                continue
            held = self._held(value, entry.is_optional, entry.value.at)
            if not fits(declared.type, held):
                text = f"expected type of field '{entry.key.name}' is '{declared.type}' but provided type is '{held}'"
                self.findings.add(entry.at, text)
            entries.append((declared.key, value.run, entry.is_optional))

        def run(frame: Frame) -> dict[Any, Any]:
            made = {}
            for key, value_run, is_optional in entries:
                value = value_run(frame)
                if not is_optional:
                    made[key] = value
                elif value.is_present:
                    made[key] = value.value
            return made

        return Compiled(type_, run, weight)

    # -- calls

    def _logic(self, node: Logic) -> Compiled:
        parts = [self.compile(operand) for operand in node.operands]
        name = "_&&_" if node.is_and else "_||_"
        for part, operand in zip(parts, node.operands, strict=True):
            if not fits(BOOL, part.type):
                text = f"found no matching overload for '{name}' applied to '{shown([p.type for p in parts[:2]])}'"
                self.findings.add(operand.at, text)
                break
        return Compiled(BOOL, _joined(parts, decisive=not node.is_and), parts[0].weight)

    def _call(self, node: Call) -> Compiled:
        if node.function == "_?_:_":
            return self._conditional(node)
        if node.function in ("_[?_]", "_[_]") and (found := self._optional_index(node)) is not None:
            return found
        target, function = node.target, node.function
        if target is not None and (name := self._qualified(target)) and f"{name}.{function}" in OVERLOADS:
            target, function = None, f"{name}.{function}"
        parts = [] if target is None else [self.compile(target)]
        for argument in node.arguments:
            if function == "format" and isinstance(argument, ListLiteral):
                parts.append(self._list(argument, is_mixed=True))
                self.types[id(argument)] = parts[-1].type
            else:
                parts.append(self.compile(argument))
        if function not in OVERLOADS:
            self.findings.add(node.at, f"undeclared reference to '{function}' (in container '')")
            return _UNKNOWN
        return self.call(node, function, parts, is_method=target is not None)

    def _qualified(self, target: Node) -> str:
        """The name of a type, or of a namespace of functions; "" if the target is a value."""
        if isinstance(target, Ident):
            return "" if self.scope.find(target.name) else target.name
        if isinstance(target, Select) and not target.is_test and (name := self._qualified(target.operand)):
            return f"{name}.{target.field}"
        return ""

    def call(self, node: Call | Macro, function: str, parts: Sequence[Compiled], *, is_method: bool) -> Compiled:
        """The call of a known function; the target of a method is the first part."""
        types = [part.type for part in parts]
        remaining: list[tuple[Overload, Type]] = []
        for overload in OVERLOADS[function]:
            if overload.is_method != is_method or len(overload.parameters) != len(types):
                continue
            bindings = Bindings()
            if all(bindings.fit(wanted, given) for wanted, given in zip(overload.parameters, types, strict=True)):
                remaining.append((overload, bindings.resolved(overload.result)))
        if not remaining:
            applied = shown(types[1:], types[0]) if is_method else shown(types)
            self.findings.add(node.at, f"found no matching overload for '{function}' applied to '{applied}'")
            return _UNKNOWN
        overloads = self.calls[id(node)] = [overload for overload, _ in remaining]
        results = {result for _, result in remaining}
        if function == "@in" and parts[1].is_constant and (is_among := _member(parts[1].run([]))) is not None:
            wanted = parts[0].run
            return Compiled(BOOL, lambda frame: is_among(wanted(frame)), parts[0].weight)
        weight = 1 + sum(part.weight for part in parts)
        run = _called(overloads, _written(node), [part.run for part in parts], types)
        return Compiled(results.pop() if len(results) == 1 else DYN, run, weight)

    def _conditional(self, node: Call) -> Compiled:
        condition, yes, no = (self.compile(argument) for argument in node.arguments)
        if not fits(BOOL, condition.type) or not fits(yes.type, no.type):
            applied = shown([condition.type, yes.type, no.type])
            self.findings.add(node.at, f"found no matching overload for '_?_:_' applied to '{applied}'")
            return _UNKNOWN
        is_so, then, otherwise = condition.run, yes.paid_run(), no.paid_run()

        def run(frame: Frame) -> Any:
            value = is_so(frame)
            if value is True:
                return then(frame)
            if value is False:
                return otherwise(frame)
            raise CelError("no such overload")

        return Compiled(more_general(yes.type, no.type), run, condition.weight)

    def _optional_index(self, node: Call) -> Compiled | None:
        """`a[?b]`, and `a[b]` of an optional `a`; None for an ordinary index."""
        operand, key = (self.compile(argument) for argument in node.arguments)
        type_ = operand.type
        if type_.name == "optional_type":
            type_ = type_.of[0]
        elif node.function == "_[_]":
            return None
        held = type_.of[-1] if type_.name in ("list", "map") else DYN
        weight = operand.weight + key.weight + 1
        return Compiled(optional_of(held), _indexed_optionally(operand.run, key.run), weight)


# -- closures


def _constant(type_: Type, value: Any) -> Compiled:
    return Compiled(type_, lambda frame: value, 0, is_constant=True)


def _member(values: Any) -> Callable[[Any], bool] | None:
    """Whether a value is among those, if they are all texts or whole numbers; however many, that takes as long."""
    if not isinstance(values, list) or not all(type(value) in (str, int) for value in values):
        return None
    members = frozenset(values)
    return lambda value: isinstance(value, str | int | float) and type(value) is not bool and value in members


def _selected(operand: Run, key: str) -> Run:
    def run(frame: Frame) -> Any:
        value = operand(frame)
        try:
            return value[key]
        except (KeyError, TypeError, IndexError):
            raise _no_such(value, key) from None

    return run


def _read(select: Run, read: Callable[[Any], Any]) -> Run:
    def run(frame: Frame) -> Any:
        value = select(frame)
        if not isinstance(value, list | dict | str) or len(value) < _LONG:
            return read(value)
        known = frame[METER].read
        if (found := known.get(id(value))) is None:
            found = known[id(value)] = (read(value), value)
        return found[0]

    return run


def _no_such(value: Any, key: str) -> CelError:
    if isinstance(value, dict):
        return CelError(f"no such key: {key}")
    return CelError(f"no such overload: {type_name(value)} has no fields")


def _tested(operand: Run, key: str) -> Run:
    def run(frame: Frame) -> bool:
        value = operand(frame)
        if isinstance(value, OptionalValue):
            value = value.value if value.is_present else {}
        if not isinstance(value, dict):
            raise _no_such(value, key)
        return key in value

    return run


def _optionally(operand: Run, key: str, read: Callable[[Any], Any] | None) -> Run:
    def run(frame: Frame) -> OptionalValue:
        value = operand(frame)
        if isinstance(value, OptionalValue):
            if not value.is_present:
                return NONE
            value = value.value
        if not isinstance(value, dict):
            raise _no_such(value, key)
        if key not in value:
            return NONE
        return some(value[key] if read is None else read(value[key]))

    return run


def _indexed_optionally(operand: Run, key: Run) -> Run:
    def run(frame: Frame) -> OptionalValue:
        value, wanted = operand(frame), key(frame)
        if isinstance(value, OptionalValue):
            if not value.is_present:
                return NONE
            value = value.value
        if isinstance(value, dict):
            held = map_key(wanted)
            return some(value[held]) if held in value else NONE
        if isinstance(value, list) and type(wanted) is int:
            return some(value[wanted]) if 0 <= wanted < len(value) else NONE
        raise CelError("no such overload")

    return run


def _joined(parts: Sequence[Compiled], *, decisive: bool) -> Run:
    """One operand that decides is enough, whatever others fail."""
    runs = [parts[0].run, *(part.paid_run() for part in parts[1:])]

    def run(frame: Frame) -> bool:
        failed: CelError | None = None
        for part in runs:
            try:
                value = part(frame)
            except TooCostlyError:
                raise
            except CelError as error:
                failed = failed or error
                continue
            if value is decisive:
                return value is True
            if type(value) is not bool:
                failed = failed or CelError("no such overload")
        if failed is not None:
            raise failed
        return not decisive

    return run


def _written(node: Call | Macro) -> Any:
    """The second argument of a call, the target of a method being the first, if it is written out."""
    if not isinstance(node, Call):
        return None
    parts = node.arguments if node.target is None else (node.target, *node.arguments)
    return parts[1].value if len(parts) == 2 and isinstance(parts[1], Literal) else None


def _called(overloads: Sequence[Overload], written: Any, parts: Sequence[Run], types: Sequence[Type]) -> Run:
    only = overloads[0]
    if only.is_lazy:
        return _lazily(only.call, *parts)
    is_certain = len(overloads) == 1 and all(
        given != DYN or not wanted.classes for wanted, given in zip(only.parameters, types, strict=True)
    )
    if not is_certain:
        return _dispatched(overloads, parts)
    if only.prepare is not None and written is not None:
        with suppress(CelError):  # which is told when the expression is whole (`literals.py`)
            return _prepared(*only.prepare(written), parts[0])
    if only.cost is not None:
        return _metered(only.call, only.cost, parts)
    call = only.call
    if len(parts) == 1:
        (single,) = parts
        return lambda frame: call(single(frame))
    if len(parts) == 2:
        left, right = parts
        return lambda frame: call(left(frame), right(frame))
    return lambda frame: call(*[part(frame) for part in parts])


def _lazily(call: Callable[..., Any], first: Run, second: Run) -> Run:
    """The call gets what it may not need as something to be asked."""
    return lambda frame: call(first(frame), lambda: second(frame))


def _prepared(call: Callable[[Any], Any], cost: Callable[[Any], int], only: Run) -> Run:
    def run(frame: Frame) -> Any:
        argument = only(frame)
        frame[METER].take(cost(argument))
        return call(argument)

    return run


def _metered(call: Callable[..., Any], cost: Callable[..., int], parts: Sequence[Run]) -> Run:
    def run(frame: Frame) -> Any:
        arguments = [part(frame) for part in parts]
        frame[METER].take(cost(*arguments))
        return call(*arguments)

    return run


def _dispatched(overloads: Sequence[Overload], parts: Sequence[Run]) -> Run:
    def run(frame: Frame) -> Any:
        arguments = [part(frame) for part in parts]
        for overload in overloads:
            if all(map(accepts, overload.parameters, arguments)):
                if overload.cost is not None:
                    frame[METER].take(overload.cost(*arguments))
                return overload.call(*arguments)
        listed = ", ".join(map(type_name, arguments))
        raise CelError(f"no such overload: {overloads[0].function}({listed})")

    return run
