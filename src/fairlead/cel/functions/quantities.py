"""Kubernetes quantities: `quantity("1.5Gi").isGreaterThan(quantity("1Gi"))` (library/quantity.go)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead.api import quantity as quantities
from fairlead.api.quantity import Quantity
from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import BOOL, DOUBLE, INT, STRING, opaque
from fairlead.cel.values import INT_MAX, INT_MIN, NANOS, Opaque

_LONGEST = 100


@dataclass(frozen=True, slots=True)
class CelQuantity(Opaque):
    """A quantity as a value."""

    value: Quantity
    type_name = "kubernetes.Quantity"

    def key(self) -> int:
        return self.value.nanos


QUANTITY = opaque(CelQuantity)


def overloads() -> Iterator[Overload]:
    yield from functions(
        ("quantity", [STRING], QUANTITY, _quantity),
        ("isQuantity", [STRING], BOOL, _is_quantity),
        cost=costs.target,
    )
    yield from methods(
        QUANTITY,
        ("sign", [], INT, lambda a: (a.value.nanos > 0) - (a.value.nanos < 0)),
        ("isGreaterThan", [QUANTITY], BOOL, lambda a, b: a.value.nanos > b.value.nanos),
        ("isLessThan", [QUANTITY], BOOL, lambda a, b: a.value.nanos < b.value.nanos),
        ("compareTo", [QUANTITY], INT, lambda a, b: (a.key() > b.key()) - (a.key() < b.key())),
        ("asApproximateFloat", [], DOUBLE, lambda a: a.value.nanos / NANOS),
        ("asInteger", [], INT, _as_integer),
        ("isInteger", [], BOOL, _is_integer),
        ("add", [QUANTITY], QUANTITY, lambda a, b: CelQuantity(a.value + b.value)),
        ("add", [INT], QUANTITY, lambda a, b: CelQuantity(a.value + Quantity.of_units(b))),
        ("sub", [QUANTITY], QUANTITY, lambda a, b: CelQuantity(a.value - b.value)),
        ("sub", [INT], QUANTITY, lambda a, b: CelQuantity(a.value - Quantity.of_units(b))),
    )


def _parsed(text: str) -> Quantity:
    if len(text) > _LONGEST:
        raise ValueError("unable to parse quantity's suffix")
    return quantities.parse(text)


def _quantity(text: str) -> CelQuantity:
    try:
        return CelQuantity(_parsed(text))
    except ValueError as error:
        raise CelError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        _parsed(text)
    except ValueError:
        return False
    return True


def _is_integer(value: CelQuantity) -> bool:
    units, rest = divmod(value.value.nanos, NANOS)
    return rest == 0 and INT_MIN <= units <= INT_MAX


def _as_integer(value: CelQuantity) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return value.value.nanos // NANOS
