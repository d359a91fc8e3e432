"""Validates the amounts in `hard`, `reserved` and `deserved`, and compares them.

An amount is a quantity, or a percentage of what the cluster has of the resource. Names are those of compute and storage
quotas (S2-16); a plain name means its requests (S2-20).
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Final

import msgspec

from fairlead.api.fields import Errors
from fairlead.api.names import qualified_name
from fairlead.api.quantity import MAX_INT64, Quantity, QuantityError, parse
from fairlead.api.quota import counted_on
from fairlead.api.quota_scopes import CLAIMS, PODS

_NANOS: Final = 10**9
_NEGATIVE: Final = "must be greater than or equal to 0"
_PERCENTAGE: Final = re.compile(r"[+-]?\d+(\.\d+)?%").fullmatch
#: Counted on pods, or in their number: nothing to divide.
_NOT_SHARED: Final = "pods"


class Amount(msgspec.Struct, frozen=True):
    """One amount of a `hard`, `reserved` or `deserved` map."""

    #: Its field path, and the value as written.
    path: str
    text: str
    number: Quantity
    is_percentage: bool = False

    def of(self, whole: Quantity | None) -> Quantity | None:
        """As a quantity; None for a percentage of a resource that the cluster does not have (yet)."""
        if not self.is_percentage:
            return self.number
        if not whole:
            return None
        return Quantity(self.number.nanos * whole.nanos // (100 * _NANOS), whole.format)

    def exceeds(self, limit: Amount, whole: Quantity | None) -> bool:
        """Whether it is more than the limit; False if the two cannot be compared."""
        if self.is_percentage and limit.is_percentage:
            return self.number > limit.number
        own, bound = self.of(whole), limit.of(whole)
        return own is not None and bound is not None and own > bound


def checked(
    amounts: Mapping[str, str | int] | None, path: str, offered: Container[str], errors: Errors
) -> dict[str, Amount]:
    """The valid amounts by full quota name; what is wrong with the others is added to the errors.

    `offered` are node resources that may be divided, besides those that quotas know.
    """
    found: dict[str, Amount] = {}
    for name, value in sorted((amounts or {}).items()):
        where, text, full = f"{path}[{name}]", str(value), full_name(name)
        if not _is_shared(name, offered):
            errors.invalid(where, name, "must be a compute or storage resource of quotas, such as requests.cpu")
        elif full in found:
            errors.duplicate(where, name, f"means the same as {found[full].path}")
        elif (amount := _read(full, where, text, errors)) is not None:
            found[full] = amount
    return found


def full_name(name: str) -> str:
    """`cpu` is short for `requests.cpu`; storage is counted on claims and has one name."""
    is_short = counted_on(name) == PODS and not name.startswith(("requests.", "limits."))
    return f"requests.{name}" if is_short else name


def node_resource(name: str) -> str:
    """The resource of a node that a full quota name counts; empty for what no node has."""
    return "" if counted_on(name) == CLAIMS else name.removeprefix("requests.").removeprefix("limits.")


def _is_shared(name: str, offered: Container[str]) -> bool:
    counted = counted_on(name) in (PODS, CLAIMS) and name != _NOT_SHARED and not name.startswith("count/")
    if counted and not qualified_name(name):
        return True
    return name.startswith("requests.") and name.removeprefix("requests.") in offered


def _read(name: str, where: str, text: str, errors: Errors) -> Amount | None:
    is_percentage = _PERCENTAGE(text) is not None
    try:
        number = parse(text.removesuffix("%") if is_percentage else text)
    except QuantityError as error:
        errors.invalid(where, text, f"{error}, or a percentage such as 50%")
        return None
    if is_percentage and not node_resource(name):
        errors.invalid(where, text, "must be a quantity: nodes have nothing of it to take a percentage of")
    elif is_percentage and not 0 <= number.nanos <= 100 * _NANOS:
        errors.invalid(where, text, "must be between 0% and 100%")
    elif number.nanos < 0:
        errors.invalid(where, text, _NEGATIVE)
    elif number.nanos > MAX_INT64 * _NANOS // (1000 if node_resource(name) == "cpu" else 1):
        errors.invalid(where, text, "is more than can be counted")
    else:
        return Amount(where, text, number, is_percentage)
    return None
