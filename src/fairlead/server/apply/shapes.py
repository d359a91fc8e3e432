"""The structure that merging needs to know of every place in an object, compiled from OpenAPI v3.

OpenAPI answers three questions that ownership hangs on: is this value owned as a whole or piece by piece, what tells
the elements of a list apart, and may there be fields that nobody declared. Built-in kinds and custom ones answer them
in the same vocabulary, so whoever has OpenAPI for a kind can have its objects applied. An atom is compiled when it is
first looked at, which is also what makes types that contain themselves possible.

Source: kube-openapi `pkg/schemaconv`, structured-merge-diff `schema/elements.go` and `typed/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from fairlead.api.fields import quoted
from fairlead.api.objects import Obj
from fairlead.caches import bounded_cache
from fairlead.server.apply import elements
from fairlead.server.crds.schema import ABSENT

#: Finds the definition that a `$ref` names.
Resolve = Callable[[str], Obj]
#: The path element of a list element.
ElementOf = Callable[[Any], str]

_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"


class SchemaMismatch(ValueError):
    """A value does not fit its type, so nothing can be said about who owns it."""


class Declared(Protocol):
    """The type of a declared field, made when it is asked for."""

    default: Any  # ABSENT if the schema names none

    def __call__(self) -> Atom: ...


class Atom:
    """One place: what it is when it holds a scalar, a list, a map. Most places allow one of them only."""

    __slots__ = ("list", "map", "scalar")

    def __init__(self, scalar: str = "", list_: ListShape | None = None, map_: MapShape | None = None) -> None:
        self.scalar = scalar  # string, numeric, boolean, untyped; empty where none may be
        self.list = list_
        self.map = map_


class Children(dict[str, "Atom | None"]):
    """The atoms below a map: those of declared fields by name, and one for every other key (None: there are none)."""

    def __init__(self, declared: Mapping[str, Declared], undeclared: Callable[[], Atom] | None) -> None:
        super().__init__()
        self.declared = declared
        self._undeclared = undeclared

    @cached_property
    def undeclared(self) -> Atom | None:
        return self._undeclared() if self._undeclared else None

    def __missing__(self, key: str) -> Atom | None:
        make = self.declared.get(key)
        if make is None:
            return self.undeclared  # not remembered: the keys of a map are data
        self[key] = atom = make()
        return atom


class Spelled(dict[str, str]):
    """The path elements of fields, so that declared ones need not be spelled for every object."""

    def __init__(self, declared: Container[str]) -> None:
        super().__init__()
        self._declared = declared

    def __missing__(self, key: str) -> str:
        element = elements.field(key)
        if key in self._declared:
            self[key] = element
        return element


class MapShape:
    """A struct or a map."""

    __slots__ = ("children", "is_atomic", "spelled")

    def __init__(self, children: Children, is_atomic: bool) -> None:
        self.children = children
        self.is_atomic = is_atomic
        self.spelled = Spelled(children.declared)

    def are_texts(self, value: Obj) -> bool:
        """Whether it is a map of texts, as labels, annotations and most data are: there is nothing below them."""
        undeclared = self.children.undeclared
        is_of_texts = not self.children.declared and undeclared is not None and undeclared.scalar == "string"
        return is_of_texts and set(map(type, value.values())) == {str}

    @property
    def is_free(self) -> bool:
        """Whether nothing is declared and everything allowed."""
        undeclared = self.children.undeclared
        return not self.children.declared and undeclared is not None and undeclared.scalar == "untyped"


class ListShape:
    """A list; `element_of` is None where it is owned as a whole."""

    def __init__(self, items: Callable[[], Atom], keys: Sequence[str] | None) -> None:
        self._items = items
        self._keys = keys  # None: owned as a whole; empty: a set
        self.is_atomic = keys is None

    @cached_property
    def items(self) -> Atom:
        return self._items()

    @cached_property
    def element_of(self) -> ElementOf:
        if self._keys is None:
            raise SchemaMismatch("invalid indexing of non-associative list")
        return _by_keys(self._keys, self.items) if self._keys else _by_value


def _by_value(item: Any) -> str:
    if isinstance(item, dict):
        raise SchemaMismatch("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise SchemaMismatch("not supported: associative list with lists as elements")
    if item is None:
        raise SchemaMismatch("associative list without keys has an element that's an explicit null")
    return elements.value(item)


def _by_keys(keys: Sequence[str], items: Atom) -> ElementOf:
    if items.map is None:
        raise SchemaMismatch("associative list may not have non-map types")
    declared = items.map.children.declared
    defaults = {key: declared[key].default if key in declared else ABSENT for key in sorted(keys)}
    only_key = next(iter(defaults)) if len(defaults) == 1 else ""

    @bounded_cache(maxsize=1024)
    def named(value: str) -> str:
        return elements.key([(only_key, value)])

    def element_of(item: Any) -> str:
        if type(item) is not dict:
            kind = "a null element" if item is None else "non-map elements"
            raise SchemaMismatch(f"associative list with keys may not have {kind}")
        if only_key in item and type(item[only_key]) is str:
            return named(item[only_key])
        values = ((key, item.get(key, default)) for key, default in defaults.items())
        pairs = [(key, value) for key, value in values if value is not ABSENT]
        if not pairs:
            all_keys = " ".join(quoted(key) for key in keys)
            raise SchemaMismatch(
                f"associative list with keys has an element that omits all key fields [{all_keys}] (and doesn't have "
                "default values for any key fields)"
            )
        return elements.key(pairs)

    return element_of


# --- from OpenAPI ---------------------------------------------------------------------------------------------------


class _Lazy:
    """A schema that becomes an atom when it is needed."""

    __slots__ = ("_compiler", "_schema", "default")

    def __init__(self, compiler: Compiler, schema: Obj) -> None:
        self._compiler, self._schema = compiler, schema
        found = schema.get("default")
        self.default = ABSENT if found is None else found

    def __call__(self) -> Atom:
        return self._compiler.place(self._schema)


class Compiler:
    """Makes atoms of schemas and of the definitions that a resolver knows."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._named: dict[str, Atom] = {_QUANTITY: Atom("untyped"), _RAW: UNTYPED}

    def named(self, name: str) -> Atom:
        """The atom of a definition."""
        found = self._named.get(name)
        if found is None:
            found = self._named[name] = self._inline(self._resolve(name))
        return found

    def place(self, schema: Obj) -> Atom:
        """The atom of a schema, which may be a reference with more to say beside it."""
        ref = schema.get("$ref", "")
        every = schema.get("allOf") or []
        if not ref and len(every) == 1:
            ref = every[0].get("$ref", "")
        if not ref:
            return self._inline(schema)
        atom = self.named(ref.rpartition("/")[2])
        kind = schema.get("x-kubernetes-map-type")
        if kind is None or atom.map is None:
            return atom
        return Atom(atom.scalar, atom.list, MapShape(atom.map.children, kind == "atomic"))

    def _inline(self, schema: Obj) -> Atom:
        compiler = _Preserving(self) if schema.get(_PRESERVE) is True else self
        type_ = schema.get("type", "")
        if type_ == "":
            return Atom("untyped", compiler._list(schema), compiler._map(schema))
        if type_ == "object":
            return Atom(map_=compiler._map(schema))
        if type_ == "array":
            return Atom(list_=compiler._list(schema))
        return Atom(_scalar(type_, schema.get("format", "")))

    def _map(self, schema: Obj) -> MapShape:
        declared = {name: _Lazy(self, below) for name, below in (schema.get("properties") or {}).items()}
        children = Children(declared, self._undeclared_values(schema, bool(declared)))
        return MapShape(children, schema.get("x-kubernetes-map-type") == "atomic")

    def _undeclared_values(self, schema: Obj, has_fields: bool) -> Callable[[], Atom] | None:
        additional = schema.get("additionalProperties")
        if additional is None:
            return self._undeclared(has_fields)
        if isinstance(additional, dict):
            return _Lazy(self, additional)
        return deduced if additional else None

    def _undeclared(self, has_fields: bool) -> Callable[[], Atom] | None:
        return None if has_fields else deduced

    def _list(self, schema: Obj) -> ListShape:
        items = schema.get("items")
        return ListShape(_Lazy(self, items) if items else lambda: UNTYPED, _keys_of(schema))


class _Preserving(Compiler):
    """Below `x-kubernetes-preserve-unknown-fields` structs take undeclared fields, except those of named types."""

    def __init__(self, outer: Compiler) -> None:
        super().__init__(outer._resolve)
        self._outer = outer

    def named(self, name: str) -> Atom:
        return self._outer.named(name)

    def _undeclared(self, has_fields: bool) -> Callable[[], Atom] | None:
        return deduced


def _keys_of(schema: Obj) -> Sequence[str] | None:
    """The keys that tell the elements of a list apart, none for a set; None for a list owned as a whole."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if list_type is not None:
        return () if list_type == "set" else None
    if schema.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        merge_key = schema.get("x-kubernetes-patch-merge-key")
        return (merge_key,) if merge_key else ()
    return None


def _scalar(type_: str, format_: str) -> str:
    if type_ == "string":
        return "string" if format_ in ("", "byte") else "untyped"
    return {"integer": "numeric", "number": "numeric", "boolean": "boolean"}.get(type_, "untyped")


def deduced() -> Atom:
    """The atom of a place without a schema: maps are owned by key, lists as a whole."""
    return _DEDUCED


def _untyped() -> Atom:
    """The atom of a place without a schema that is owned as a whole."""
    return UNTYPED


UNTYPED: Final = Atom("untyped", ListShape(_untyped, None), MapShape(Children({}, _untyped), is_atomic=True))
_DEDUCED: Final = Atom("untyped", ListShape(_untyped, None), MapShape(Children({}, deduced), is_atomic=False))
