"""What Go knows about every built-in type and JSON Schema does not say.

The OpenAPI definitions tell which fields exist. They do not tell which of them Go keeps by pointer, which it writes
even when empty, what Go calls a type in its error texts, or which number a field has in protobuf. Without these facts
a stored object could not look like one that a Kubernetes API server wrote. They stand in `wire.txt`, one line a type
(the notation is explained at its top), and are read only for the types that are used.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
from msgspec.structs import replace

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
OBJECT_META: Final = f"{META}.ObjectMeta"

#: Go's basic types, by the JSON type that stands for them.
INTEGERS: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
BASIC: Final = frozenset({"string", "bool", "float64", *INTEGERS})


class WireType(msgspec.Struct, frozen=True):
    """A Go type, looked at through its names: a named string is a string.

    `form` is a basic type, `bytes`, `list`, `map`, `struct`, or the special form of a type that writes its own JSON
    (`quantity`, `time`, `microtime`, `intstr`, `raw`, `fields`, `json`, `schema-or-…`).
    """

    form: str
    go: str  # as Go's error texts spell it: int32, []v1.Container
    pointer: bool = False
    definition: str = ""  # of a struct or a special form
    element: WireType | None = None  # of a list or a map
    wrapped: bool = False  # protobuf puts the list into a message of its own

    @property
    def is_nullable(self) -> bool:
        """Whether Go's zero value of this is null in JSON."""
        return self.pointer or self.form in _NULL_WHEN_ZERO


_NULL_WHEN_ZERO: Final = frozenset({
    "list", "map", "bytes", "raw", "json", "time", "microtime", "schema-or-array", "schema-or-strings",
})  # fmt: skip


class WireField(msgspec.Struct, frozen=True):
    """A field of a struct. An inlined struct has no name: JSON shows its fields among those of the outer one."""

    name: str
    number: int
    shape: WireType
    omit_empty: bool = False
    omit_zero: bool = False

    @property
    def is_always_written(self) -> bool:
        """Whether Go writes this field even if nobody has set it; omitempty never applies to a struct."""
        if self.omit_zero:
            return False
        return not self.omit_empty or (self.shape.form not in _CAN_BE_EMPTY and not self.shape.pointer)


_CAN_BE_EMPTY: Final = BASIC | {"list", "map", "bytes"}


def is_known(definition: str) -> bool:
    """Whether this is a built-in type; a custom resource is none."""
    package, _, name = definition.rpartition(".")
    return name in _table().get(package, ())


@cache
def declared(definition: str) -> tuple[WireField, ...]:
    """The fields of a struct as Go declares them, inlined structs included as such."""
    package, _, line = _line(wire_type_of(definition).definition)
    return tuple(_field(word, package) for word in line.removeprefix(":").split(",") if word.strip())


@cache
def fields(definition: str) -> dict[str, WireField]:
    """The fields of a struct as JSON shows them, by name."""
    found: dict[str, WireField] = {}
    for field in declared(definition):
        if field.name:
            found[field.name] = field
        else:
            found |= fields(field.shape.definition)
    return found


@cache
def wire_type_of(definition: str) -> WireType:
    """The type that a definition names."""
    package, _name, line = _line(definition)
    kind, rest = line[0], line[1:].strip()
    spelled = ".".join(definition.rsplit(".", 2)[-2:])
    if kind == ":":
        return WireType("struct", spelled, definition=definition)
    if kind == "!":
        return WireType(rest, spelled, definition=definition)
    return replace(_shape(rest, package), go=spelled, wrapped=kind == "~")


def _line(definition: str) -> tuple[str, str, str]:
    package, _, name = definition.rpartition(".")
    return package, name, _table()[package][name]


def _field(text: str, package: str) -> WireField:
    parts = text.split()
    if parts[0] == "^meta":
        return WireField("", 0, wire_type_of(f"{META}.TypeMeta"))
    flags = parts[3] if len(parts) > 3 else ""
    name = parts[0].removeprefix("^")
    return WireField(name, int(parts[1]), _shape(parts[2], package), "e" in flags, "z" in flags)


def _shape(text: str, package: str) -> WireType:
    if text.startswith("*"):
        return replace(_shape(text[1:], package), pointer=True)
    if text == "[]byte":
        return WireType("bytes", "[]uint8")
    if text.startswith("[]"):
        element = _shape(text[2:], package)
        return WireType("list", f"[]{_spelled(element)}", element=element)
    if text.startswith("map["):
        key, _, value = text[4:].partition("]")
        element = _shape(value, package)
        return WireType("map", f"map[{_shape(key, package).go}]{_spelled(element)}", element=element)
    if text in BASIC:
        return WireType(text, text)
    if text.startswith("meta."):
        return wire_type_of(f"{META}.{text[5:]}")
    return wire_type_of(text if "." in text else f"{package}.{text}")


def _spelled(shape: WireType) -> str:
    return f"*{shape.go}" if shape.pointer else shape.go


@cache
def _table() -> dict[str, dict[str, str]]:
    """Package, then type name, to the rest of the line."""
    found: dict[str, dict[str, str]] = {}
    types: dict[str, str] = {}
    for line in files(__package__).joinpath("wire.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            types = found[line] = {}
            continue
        name, _, rest = line.strip().partition(" ")
        if name.endswith(":"):
            name, rest = name[:-1], f":{rest}"
        types[name] = rest
    return found
