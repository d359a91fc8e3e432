"""Converts amounts between quota syntax (`requests.cpu: 500m`) and whole numbers by resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.quantity import parse

#: How the names of quotas begin; a bare name is a request (S2-20).
REQUESTS: Final = "requests."
LIMITS: Final = "limits."
_SIZES: Final = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


class _Read(msgspec.Struct, frozen=True):
    """What was read, how, and what came of it."""

    amounts: Mapping[str, str | int]
    prefix: str
    capacity: Mapping[str, int]
    found: dict[str, int]


class KnownAmounts:
    """What was read in one cycle and is asked for in the next: the amounts of a Consumer may be a megabyte, and seldom
    change.
    """

    def __init__(self) -> None:
        self._before: dict[int, _Read] = {}
        self._now: dict[int, _Read] = {}

    def begin(self) -> None:
        """Forget what the last cycle did not ask for."""
        self._before, self._now = self._now, {}

    def parse(
        self, amounts: Mapping[str, str | int] | None, capacity: Mapping[str, int], prefix: str
    ) -> dict[str, int]:
        """`parse_amounts`; the answer is shared."""
        if not amounts:
            return {}
        known = self._before.get(id(amounts))  # of these, as long as it keeps them
        if known is None or known.amounts is not amounts or (known.prefix, known.capacity) != (prefix, capacity):
            known = _Read(amounts, prefix, capacity, parse_amounts(amounts, capacity, prefix))
        self._now[id(amounts)] = known
        return known.found


def parse_amounts(
    amounts: Mapping[str, str | int] | None, capacity: Mapping[str, int], prefix: str = REQUESTS
) -> dict[str, int]:
    """By resource, in whole numbers; percentages are of the capacity. Names without the prefix are left out: either
    requests or limits are divided (S2-31).

    Raises QuantityError for an invalid amount.
    """
    found: dict[str, int] = {}
    for name, text in (amounts or {}).items():
        if (LIMITS if name.startswith(LIMITS) else REQUESTS) != prefix:
            continue
        resource, format_amounts = name.removeprefix(prefix), str(text)
        if format_amounts.endswith("%"):
            found[resource] = int(parse(format_amounts.removesuffix("%")).milli * capacity.get(resource, 0) // 100_000)
        else:
            quantity = parse(format_amounts)
            found[resource] = quantity.milli if resource == "cpu" else quantity.units
    return found


def format_amount(name: str, amount: int) -> str:
    """One amount in Kubernetes' notation."""
    if name == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if name in ("memory", "ephemeral-storage") and amount:
        for suffix, size in _SIZES:
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def format_amounts(amounts: Mapping[str, int], prefix: str = REQUESTS) -> dict[str, str]:
    """All amounts in Kubernetes' notation, by quota name."""
    return {f"{prefix}{name}": format_amount(name, amount) for name, amount in sorted(amounts.items())}
