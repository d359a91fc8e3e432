"""Makes a received object look as if Go had decoded it and encoded it again: its *normal form*.

Everything behind the decoder relies on it: types are right, unknown fields and nulls are gone, what Go always writes is
there, empty things that Go leaves out are not, quantities and times have their canonical text. Without one place that
guarantees this, every default and every rule would have to ask again whether a list is a list.

A walker is a closure over one type of `wire`. It gets a value, its path and the report, and returns the normal value;
containers are changed in place. Fields are compiled when they are first seen, so a process pays for what it uses.
Refusals carry Go's texts (sigs.k8s.io/json, which decodes for upstream). A path is a chain of links, because a path is
only ever spelled out for an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, TypeAlias

from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.quantity import QuantityError, from_json
from fairlead.golang import base64 as gobase64
from fairlead.golang import times as timestamps
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import JSON_TYPES
from fairlead.server.codec import wire
from fairlead.server.codec.wire import WireType

#: The link to the value above, then a field name, map key or list index, then the struct that has the field.
Path: TypeAlias = "tuple[Path, str | int, str] | None"
Walker: TypeAlias = "Callable[[Any, Path, DecodeReport], Any]"
Zero: TypeAlias = Callable[[], Any]

#: The largest number of strict errors that are reported (kubernetes_patch.go).
MOST_STRICT_ERRORS: Final = 100


class DecodeReport:
    """The problems found while one object was normalised."""

    __slots__ = ("mismatch", "unknown")

    def __init__(self) -> None:
        self.unknown: dict[str, None] = {}  # an ordered set of paths
        self.mismatch = ""  # only the first is reported

    def unknown_field(self, path: Path, key: str) -> None:
        if len(self.unknown) < MOST_STRICT_ERRORS:
            self.unknown[spelled((path, key, ""))] = None

    def wrong_type(self, value: Any, path: Path, go: str, json_type: str = "") -> None:
        """Go goes on after a value of a wrong type, so a graver error further down wins."""
        if not self.mismatch:
            self.mismatch = type_error(value, path, go, json_type)


def normalise(obj: Obj, definition: str) -> list[str]:
    """Make the object normal, in place.

    Returns what strict decoding objects to (`unknown field "spec.nope"`), in the order of the document. Raises
    BadRequest with Go's text if a value cannot be of the type that its field has.
    """
    report = DecodeReport()
    try:
        walker(definition)(obj, None, report)
    except RecursionError:  # JSON cannot be nested that deeply (gojson), but protobuf can
        raise BadRequest("exceeded max depth") from None
    if report.mismatch:
        raise BadRequest(report.mismatch)
    return [f"unknown field {go_quote(path)}" for path in report.unknown]


def zero_object(definition: str) -> Obj:
    """The normal form of `{}`."""
    obj: Obj = zero(wire.wire_type_of(definition))()
    return obj


# --- paths and texts ------------------------------------------------------------------------------------------------


def _links(path: Path) -> Iterator[tuple[str | int, str]]:
    """The steps to a value, the last one first."""
    while path is not None:
        path, key, struct = path
        yield key, struct


def spelled(path: Path) -> str:
    """`spec.containers[0].image`."""
    steps = [f"[{key}]" if isinstance(key, int) else f".{key}" for key, _ in _links(path)]
    return "".join(reversed(steps)).removeprefix(".")


def type_error(value: Any, path: Path, go: str, json_type: str = "") -> str:
    """`json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32`."""
    kind = json_type or JSON_TYPES.get(type(value), type(value).__name__)
    named = [(key, struct) for key, struct in _links(path) if struct]
    if not named:
        return f"json: cannot unmarshal {kind} into Go value of type {go}"
    names = ".".join(str(key) for key, _ in reversed(named))
    return f"json: cannot unmarshal {kind} into Go struct field {named[0][1]}.{names} of type {go}"


# --- structs --------------------------------------------------------------------------------------------------------

#: Of a field: the JSON type that needs no further look, whether an empty value is treated as absent, the walker.
_FieldRule: TypeAlias = "tuple[type | None, bool, Walker]"


@cache
def walker(definition: str) -> Walker:
    """The walker of a type that has a definition."""
    shape = wire.wire_type_of(definition)
    return _walker(shape) if shape.form != "struct" else _struct(shape)


def _struct(shape: WireType) -> Walker:
    struct = shape.go.rpartition(".")[2]
    fields = wire.fields(shape.definition)
    always = {name: zero(field.shape) for name, field in fields.items() if field.is_always_written}
    rules: dict[str, _FieldRule] = {}

    def compiled(key: str) -> _FieldRule | None:
        if (field := fields.get(key)) is None:
            return None
        may_be_empty = field.shape.pointer or field.shape.form in _NEVER_EMPTY
        drops_empty = not may_be_empty and (field.omit_empty or field.shape.form in ("list", "map"))
        drops_empty = drops_empty and (shape.definition, key) not in _KEPT_EMPTY
        rules[key] = rule = (_PLAIN.get(field.shape.form), drops_empty, _walker(field.shape))
        return rule

    def walk(obj: Any, path: Path, report: DecodeReport) -> Any:
        if type(obj) is not dict:
            report.wrong_type(obj, path, shape.go)
            return {}
        absent = []
        for key, value in obj.items():
            rule = rules[key] if key in rules else compiled(key)
            if rule is None:
                report.unknown_field(path, key)
                absent.append(key)
                continue
            plain, drops_empty, look = rule
            kind = type(value)
            if kind is plain:
                if kind is int and not _LEAST <= value <= _MOST:
                    look(value, (path, key, struct), report)
                if value:
                    continue
            elif value is not None:
                new = look(value, (path, key, struct), report)
                if new is not value:
                    obj[key] = value = new
            if value is None or (drops_empty and not value):
                absent.append(key)
        for key in absent:
            if key in always:  # in its place: what is normal already must keep its order, and so its bytes
                obj[key] = always[key]()
            else:
                del obj[key]
        for key in always:
            if key not in obj:
                obj[key] = always[key]()
        return obj

    return walk


#: Lists whose defaults are for who says nothing: an empty one is kept, and validation refuses it.
_KEPT_EMPTY: Final = frozenset({("io.k8s.api.autoscaling.v2.HPAScalingRules", "policies")})
_PLAIN: Final[dict[str, type]] = {"string": str, "bool": bool, **dict.fromkeys(wire.INTEGERS, int)}
#: Every integer type of these structs has room for what is in here; greater values are looked at closely.
_LEAST, _MOST = wire.INTEGERS["int32"]
#: Forms whose falsy values mean something: omitempty does not look into them.
_NEVER_EMPTY: Final = frozenset({"struct", "quantity", "time", "microtime", "intstr", "raw", "json", "fields"})


def zero(shape: WireType) -> Zero:
    """Makes what Go writes for a value that nobody has set."""
    if shape.is_nullable:
        return lambda: None
    if shape.form == "struct":
        return _zero_struct(shape.definition)
    value = _ZEROS[shape.form]
    return lambda: value


_ZEROS: Final[dict[str, Any]] = {
    "string": "", "bool": False, "float64": 0, "quantity": "0", "intstr": 0, **dict.fromkeys(wire.INTEGERS, 0),
}  # fmt: skip


@cache
def _zero_struct(definition: str) -> Zero:
    makers = {name: zero(field.shape) for name, field in wire.fields(definition).items() if field.is_always_written}
    return lambda: {name: make() for name, make in makers.items()}


# --- lists and maps -------------------------------------------------------------------------------------------------


def _list(shape: WireType, element: WireType) -> Walker:
    look, make = _walker(element), zero(element)
    plain = {_PLAIN.get(element.form, int)} - {int}

    def walk(value: Any, path: Path, report: DecodeReport) -> Any:
        if type(value) is not list:
            report.wrong_type(value, path, shape.go)
            return []
        if plain and set(map(type, value)) == plain:
            return value
        for index, item in enumerate(value):
            new = make() if item is None else look(item, (path, index, ""), report)
            if new is not item:
                value[index] = new
        return value

    return walk


def _map(shape: WireType, element: WireType) -> Walker:
    look, make = _walker(element), zero(element)
    plain = {_PLAIN.get(element.form, int)} - {int}

    def walk(value: Any, path: Path, report: DecodeReport) -> Any:
        if type(value) is not dict:
            report.wrong_type(value, path, shape.go)
            return {}
        if plain and set(map(type, value.values())) == plain:
            return value
        for key, item in value.items():
            new = make() if item is None else look(item, (path, key, ""), report)
            if new is not item:
                value[key] = new
        return value

    return walk


# --- single values --------------------------------------------------------------------------------------------------


def _walker(shape: WireType) -> Walker:
    if shape.form == "struct":
        return walker(shape.definition)
    if shape.element is not None:
        return _list(shape, shape.element) if shape.form == "list" else _map(shape, shape.element)
    if shape.form in wire.INTEGERS:
        return _integer(shape)
    return _FORMS.get(shape.form) or _exactly(shape)


def _exactly(shape: WireType) -> Walker:
    accepted = _ACCEPTED[shape.form]

    def walk(value: Any, path: Path, report: DecodeReport) -> Any:
        if type(value) not in accepted:
            report.wrong_type(value, path, shape.go)
        return value

    return walk


_ACCEPTED: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "bool": (bool,), "float64": (int, float)}


def _integer(shape: WireType) -> Walker:
    least, most = wire.INTEGERS[shape.form]

    def walk(value: Any, path: Path, report: DecodeReport) -> Any:
        if type(value) is not int:
            report.wrong_type(value, path, shape.go, f"number {value}" if type(value) is float else "")
        elif not least <= value <= most:
            report.wrong_type(value, path, shape.go, f"number {value}")
        return value

    return walk


def _quantity(value: Any, path: Path, report: DecodeReport) -> Any:
    try:
        return from_json(value)
    except QuantityError as error:
        raise BadRequest(str(error)) from None


def _int_or_string(value: Any, path: Path, report: DecodeReport) -> Any:
    if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    json_type = f"number {value}" if type(value) in (int, float) else ""
    raise BadRequest(type_error(value, path, "int32", json_type))


def _moment(read: Callable[[str], str | None]) -> Walker:
    def walk(value: Any, path: Path, report: DecodeReport) -> Any:
        if type(value) is not str:
            raise BadRequest(type_error(value, path, "string"))
        try:
            return read(value)
        except timestamps.TimestampError as error:
            raise BadRequest(str(error)) from None

    return walk


def _as_it_is(value: Any, path: Path, report: DecodeReport) -> Any:
    return value


def _bytes(value: Any, path: Path, report: DecodeReport) -> Any:
    if type(value) is str:
        try:
            return gobase64.canonical(value)
        except gobase64.CorruptInput as error:
            report.mismatch = report.mismatch or str(error)
            return ""
    if type(value) is list and all(type(item) is int and 0 <= item < 256 for item in value):
        return gobase64.encode(bytes(value))
    report.wrong_type(value, path, "[]uint8")
    return ""


# --- JSON schemas (apiextensions v1, marshal.go) --------------------------------------------------------------------

_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _schema(value: Any, path: Path, report: DecodeReport) -> Any:
    """A schema inside of one of the unions below: Go reads it apart, and not strictly."""
    inner = DecodeReport()
    normal = walker(_SCHEMA)(value, None, inner)
    if inner.mismatch:
        raise BadRequest(inner.mismatch)
    return normal


def _schema_or_bool(value: Any, path: Path, report: DecodeReport) -> Any:
    if type(value) is dict:
        return _schema(value, path, report)
    if type(value) is not bool:
        raise BadRequest("boolean or JSON schema expected")
    return value


def _schema_or_array(value: Any, path: Path, report: DecodeReport) -> Any:
    if type(value) is dict:
        return _schema(value, path, report)
    if type(value) is list and value:
        return [_schema({} if item is None else item, path, report) for item in value]
    return None


def _schema_or_strings(value: Any, path: Path, report: DecodeReport) -> Any:
    if type(value) is dict:
        return _schema(value, path, report)
    if type(value) is not list or not value:
        return None
    for item in value:
        if item is not None and type(item) is not str:
            raise BadRequest(type_error(item, None, "string"))
    return [item or "" for item in value]


_FORMS: Final[dict[str, Walker]] = {
    "quantity": _quantity,
    "intstr": _int_or_string,
    "time": _moment(timestamps.seconds),
    "microtime": _moment(timestamps.micros),
    "raw": _as_it_is,
    "fields": _as_it_is,
    "json": _as_it_is,
    "bytes": _bytes,
    "schema-or-bool": _schema_or_bool,
    "schema-or-array": _schema_or_array,
    "schema-or-strings": _schema_or_strings,
}
