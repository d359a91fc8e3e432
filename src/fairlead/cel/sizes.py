"""How large values can be: what a schema allows, or at most what fits into a request.

Kubernetes refuses rules by what they could cost (`estimating.py`), so its figures are part of the API. Sizes are
numbers of elements, or of bytes of a text. Source: apiserver/pkg/cel/common/schemas.go and cel-go's checker/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from fairlead.cel.schema import escaped
from fairlead.cel.types import Type

#: The largest request that the estimate assumes.
REQUEST_BYTES: Final = 3 << 20
#: Costs and sizes are not told apart above this.
MOST: Final = (1 << 64) - 1


def bounded(amount: int) -> int:
    return min(amount, MOST)


def scaled(amount: int, factor: float) -> int:
    """A share of an amount, rounded up as Go rounds it."""
    found = float(amount) * factor
    return MOST if found >= float(MOST) else math.ceil(found)


class Size(NamedTuple):
    """Between what and what a size is."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        return Size(bounded(self.least + other.least), bounded(self.most + other.most))

    def times(self, other: Size) -> Size:
        return Size(bounded(self.least * other.least), bounded(self.most * other.most))

    def or_(self, other: Size) -> Size:
        """Either of both."""
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN: Final = Size(0, MOST)


def exactly(amount: int) -> Size:
    return Size(amount, amount)


@dataclass(slots=True)
class Place:
    """What a schema declares at one place. Steps below it are fields, `@items`, `@keys` and `@values`."""

    #: The size of the largest value; None where the schema declares nothing.
    most: int | None
    #: How many bytes of JSON the smallest value has.
    least_bytes: int = 0
    below: Mapping[str, Place] = field(default_factory=dict)

    def step(self, name: str) -> Place:
        return self.below.get(name, _NOWHERE)


class Entries(msgspec.Struct, frozen=True):
    """The sizes of keys and values of a list or map that the expression makes."""

    is_list: bool
    key: Size
    value: Size

    def or_(self, other: Entries | None) -> Entries | None:
        if other is None:
            return None
        return Entries(self.is_list, self.key.or_(other.key), self.value.or_(other.value))


class Part(msgspec.Struct, frozen=True):
    """A part of an expression: what it costs at most, and how large its value can be."""

    cost: int
    type: Type
    size: Size | None = None
    entries: Entries | None = None
    #: What the schema declares of it, if it is a way from a variable; the root again if its way begins at no variable.
    place: Place | None = None
    literal: Any = None

    @property
    def known_size(self) -> Size:
        return UNKNOWN if self.size is None else self.size


class Estimate(msgspec.Struct, frozen=True):
    """What a call costs at most, beside its arguments, and how large its result is if that is known."""

    cost: int
    size: Size | None = None


_NOWHERE: Final = Place(None)
_KEY: Final = Place(0, 2)
_FORMATS: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
_ALWAYS: Final[dict[str, Any]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object", "properties": {name: {"type": "string"} for name in ("name", "generateName")}},
}


def place_of(schema: Mapping[str, Any], *, is_root: bool = False, request_bytes: int = REQUEST_BYTES) -> Place | None:
    """The sizes that a structural schema allows in a request; None for what expressions cannot name.

    Kubernetes asks of the largest request. Of a smaller one, a schema that allows more is taken for one that does not.
    """
    return _Reader(request_bytes).place(schema, is_root=is_root)


class _Reader:
    def __init__(self, request_bytes: int) -> None:
        self._bytes = request_bytes

    def place(self, schema: Mapping[str, Any], *, is_root: bool = False) -> Place | None:
        if schema.get("x-kubernetes-int-or-string"):
            length = schema.get("maxLength")
            return self._at_most(None if length is None else 4 * length, self._bytes - 2, 1)
        match schema.get("type"):
            case "array":
                items = schema.get("items")
                below = self.place(items) if isinstance(items, dict) else None
                if below is None:
                    return None
                fitting = (self._bytes - 2) // (below.least_bytes + 1)
                return self._at_most(schema.get("maxItems"), fitting, 2, {"@items": below, "@values": below})
            case "object":
                return self._object(schema, is_root or bool(schema.get("x-kubernetes-embedded-resource")))
            case "string":
                return self._text(schema)
            case "boolean":
                return Place(0, 4)
            case "integer" | "number":
                return Place(0, 1)
        return None

    def _at_most(
        self, declared: int | None, fitting: int, least_bytes: int, below: Mapping[str, Place] | None = None
    ) -> Place:
        most = fitting if declared is None else max(0, declared)
        if self._bytes < REQUEST_BYTES:
            most = min(most, fitting)
        return Place(most, least_bytes, below or {})

    def _object(self, schema: Mapping[str, Any], is_root: bool) -> Place | None:
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            below = self.place(values)
            if below is None:
                return None
            fitting = (self._bytes - 2) // (below.least_bytes + 6)
            steps = {"@keys": _KEY, "@values": below, "@items": below}
            return self._at_most(schema.get("maxProperties"), fitting, 2, steps)
        properties = (schema.get("properties") or {}) | (_ALWAYS if is_root else {})
        required, least, fields = schema.get("required") or (), 2, dict[str, Place]()
        for name, declared in properties.items():
            below = self.place(declared)
            if below is None:
                continue
            if (spelled := escaped(name)) is not None:
                fields[spelled] = below
            if name in required and declared.get("default") is None:
                least += len(name.encode()) + below.least_bytes + 4
        return Place(0, least, fields)

    def _text(self, schema: Mapping[str, Any]) -> Place:
        format_, length = schema.get("format") or "", schema.get("maxLength")
        if format_ in _FORMATS:
            return Place(*_FORMATS[format_])
        if length is not None:
            return self._at_most(length if format_ == "byte" else 4 * length, self._bytes - 2, 2)
        if format_ != "byte" and (choices := schema.get("enum")):
            return Place(max((len(choice.encode()) for choice in choices if isinstance(choice, str)), default=0), 2)
        return Place(self._bytes - 2, 2)
