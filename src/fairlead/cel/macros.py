"""Macros: what walks over the elements of a list or the keys of a map, and what names the value of an optional."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fairlead.cel.errors import CelError, TooCostlyError
from fairlead.cel.functions import costs
from fairlead.cel.functions.lists import SORT_BY_KEYS
from fairlead.cel.scope import METER, Compiled, Frame, Run
from fairlead.cel.syntax import Literal, Macro, MapLiteral, ObjectLiteral
from fairlead.cel.types import BOOL, DYN, INT, Type, list_of, map_of, optional_of
from fairlead.cel.values import NONE, OptionalValue, from_map_key, keys_of, map_key, some, type_name

if TYPE_CHECKING:
    from fairlead.cel.compiling import Compiler

#: Where `sortBy` keeps its list: no expression can name it.
_SORTED: Final = "@sorted"
_TESTS: Final = ("all", "exists", "exists_one", "existsOne", "filter")
#: What one element is enough for.
_DECISIVE: Final = {"all": False, "exists": True}


def compiled(compiler: Compiler, node: Macro) -> Compiled:
    """The closure of a macro."""
    target = compiler.compile(node.target)
    if node.name in ("optMap", "optFlatMap"):
        return _opt_mapped(compiler, node, target)
    if node.name == "bind":
        return _bound(compiler, node, target)
    if node.name == "sortBy" and isinstance(node.target, Literal | MapLiteral | ObjectLiteral):
        text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        compiler.findings.add(node.target.at, text)
    types = _element_types(compiler, node, target)
    declared = [compiler.scope.declare(name, type_) for name, type_ in zip(node.variables, types, strict=True)]
    bodies = [compiler.compile(body) for body in node.bodies]
    for name, (_, before) in reversed(list(zip(node.variables, declared, strict=True))):
        compiler.scope.restore(name, before)
    conditions = bodies if node.name in _TESTS else bodies[:-1]
    for body, source in zip(conditions, node.bodies, strict=False):
        compiler.expect(body, BOOL, source.at)
    places = [place for place, _ in declared]
    if node.name == "sortBy":
        return _sorted(compiler, node, target, bodies[0], places)
    own = costs.macro(node.name)
    if node.name in _DECISIVE:
        walk = _walk(target.run, places, own.each + bodies[0].weight)
        result: Type = BOOL
        run: Run = _decided(walk, bodies[0].run, _DECISIVE[node.name], own.early)
    else:
        walk = _chosen(target.run, places, node.name, bodies)
        result, run = _MACROS[node.name](target.type, types, bodies[-1], walk, places)
    return Compiled(result, run, target.weight + own.end)


def _element_types(compiler: Compiler, node: Macro, target: Compiled) -> list[Type]:
    """The types of the variables: an element or key; an index or key and its value."""
    type_ = target.type
    if type_.name == "list":
        return [type_.of[0]] if len(node.variables) == 1 else [INT, type_.of[0]]
    if type_.name == "map":
        return [type_.of[0]] if len(node.variables) == 1 else list(type_.of)
    if type_ != DYN:
        text = f"expression of type '{type_}' cannot be range of a comprehension (must be list, map, or dynamic)"
        compiler.findings.add(node.target.at, text)
    return [DYN] * len(node.variables)


#: Sets the variables to one element after the other, and says how many there are behind it.
_Walk = Callable[[Frame], Iterator[int]]


def _walk(target: Run, places: list[int], weight: int) -> _Walk:
    """All elements; each costs so much."""

    def elements(frame: Frame) -> Iterator[int]:
        values, meter = target(frame), frame[METER]
        if isinstance(values, list):
            pairs: Iterable[tuple[Any, Any]] = enumerate(values)
            first = 1
        elif isinstance(values, dict):
            pairs = zip(keys_of(values), values.values(), strict=True)
            first = 0
        else:
            raise CelError(f"no such overload: comprehension over {type_name(values)}")
        left = len(values)
        for pair in pairs:
            meter.take(weight)
            if len(places) == 1:
                frame[places[0]] = pair[first]
            else:
                frame[places[0]], frame[places[1]] = pair
            left -= 1
            yield left

    return elements


def _chosen(target: Run, places: list[int], name: str, bodies: list[Compiled]) -> _Walk:
    """Those that fulfil a condition, if there is one; what is made of each costs what it weighs."""
    own, made = costs.macro(name), 0 if name in _TESTS else bodies[-1].weight
    if name not in _TESTS and len(bodies) == 1:
        return _walk(target, places, own.each + own.chosen + made)
    walk, test, weight = _walk(target, places, own.each + bodies[0].weight), bodies[0].run, own.chosen + made

    def elements(frame: Frame) -> Iterator[int]:
        for left in walk(frame):
            if _is_so(test(frame)):
                frame[METER].take(weight)
                yield left

    return elements


def _is_so(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise CelError("no such overload")


_Made = tuple[Type, Run]


def _decided(walk: _Walk, test: Run, decisive: bool, early: int) -> Run:
    """`all` and `exists`: one element that decides is enough, whatever others fail."""

    def run(frame: Frame) -> bool:
        failed: CelError | None = None
        for left in walk(frame):
            try:
                if _is_so(test(frame)) is decisive:
                    if left:
                        frame[METER].take(early)
                    return decisive
            except TooCostlyError:
                raise
            except CelError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not decisive

    return run


def _exactly_one(target: Type, types: list[Type], body: Compiled, walk: _Walk, places: list[int]) -> _Made:
    return BOOL, lambda frame: sum(1 for _ in walk(frame)) == 1


def _filtered(target: Type, types: list[Type], body: Compiled, walk: _Walk, places: list[int]) -> _Made:
    (place,) = places
    return list_of(types[0]), lambda frame: [frame[place] for _ in walk(frame)]


def _listed(target: Type, types: list[Type], body: Compiled, walk: _Walk, places: list[int]) -> _Made:
    """`map` and `transformList`."""
    make = body.run
    return list_of(body.type), lambda frame: [make(frame) for _ in walk(frame)]


def _mapped(target: Type, types: list[Type], body: Compiled, walk: _Walk, places: list[int]) -> _Made:
    """`transformMap`: the keys stay, or are the indexes of a list."""
    place, make = places[0], body.run

    def run(frame: Frame) -> dict[Any, Any]:
        return {map_key(frame[place]): make(frame) for _ in walk(frame)}

    return map_of(types[0], body.type), run


def _entries(target: Type, types: list[Type], body: Compiled, walk: _Walk, places: list[int]) -> _Made:
    """`transformMapEntry`: each body is a map, and the result has all their entries."""
    make = body.run

    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for _ in walk(frame):
            entries = make(frame)
            if not isinstance(entries, dict):
                raise CelError("no such overload")
            for key, value in entries.items():
                if key in made:
                    raise CelError(f"insert failed: key {from_map_key(key)} already exists")
                made[key] = value
        return made

    return body.type if body.type.name == "map" else map_of(DYN, DYN), run


def _sorted(compiler: Compiler, node: Macro, target: Compiled, key: Compiled, places: list[int]) -> Compiled:
    """`sortBy`: the elements in the order of what the body makes of each."""
    kept, before = compiler.scope.declare(_SORTED, target.type)
    compiler.scope.restore(_SORTED, before)
    give, make = target.run, key.run
    own = costs.macro("map")

    def listed(frame: Frame) -> Any:
        frame[kept] = give(frame)
        return frame[kept]

    walk = _walk(lambda frame: frame[kept], places, own.each + own.chosen + key.weight)
    parts = [
        Compiled(target.type, listed, target.weight),
        Compiled(list_of(key.type), lambda frame: [make(frame) for _ in walk(frame)], own.end),
    ]
    return compiler.call(node, SORT_BY_KEYS, parts, is_method=True)


_MACROS: Final[dict[str, Callable[..., _Made]]] = {
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    "filter": _filtered,
    "map": _listed,
    "transformList": _listed,
    "transformMap": _mapped,
    "transformMapEntry": _entries,
}


def _bound(compiler: Compiler, node: Macro, target: Compiled) -> Compiled:
    """The body, in which the value has a name."""
    (name,), (source,) = node.variables, node.bodies
    place, before = compiler.scope.declare(name, target.type)
    body = compiler.compile(source)
    compiler.scope.restore(name, before)
    give, use = target.run, body.run

    def run(frame: Frame) -> Any:
        frame[place] = give(frame)
        return use(frame)

    return Compiled(body.type, run, target.weight + body.weight)


def _opt_mapped(compiler: Compiler, node: Macro, target: Compiled) -> Compiled:
    """It costs what cel-go makes of it: a question whether there is a value, then the target once more, or nothing."""
    (name,), (source,) = node.variables, node.bodies
    compiler.expect(target, optional_of(DYN), node.target.at)
    place, before = compiler.scope.declare(name, target.type.of[0] if target.type.of else DYN)
    body = compiler.compile(source)
    compiler.scope.restore(name, before)
    is_flat = node.name == "optFlatMap"
    if is_flat:
        compiler.expect(body, optional_of(DYN), source.at)
    give, use = target.run, body.run
    present = target.weight + 1 + body.weight + (not is_flat)

    def run(frame: Frame) -> OptionalValue:
        value = give(frame)
        if not isinstance(value, OptionalValue):
            raise CelError("no such overload")
        if not value.is_present:
            frame[METER].take(1)
            return NONE
        frame[METER].take(present)
        frame[place] = value.value
        made = use(frame)
        return made if is_flat else some(made)

    return Compiled(body.type if is_flat else optional_of(body.type), run, target.weight + 1)
