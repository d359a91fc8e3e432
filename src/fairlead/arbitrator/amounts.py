"""Amounts between what people write and what is counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.api.quantity import parse

#: How the names of quotas begin; a bare name is a request (S2-20).
REQUESTS: Final = "requests."
LIMITS: Final = "limits."
_SIZES: Final = (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def read(
    amounts: Mapping[str, str | int] | None, capacity: Mapping[str, int], prefix: str = REQUESTS
) -> dict[str, int]:
    """By resource, in whole numbers; a percentage is of the capacity. Of requests and limits, only what the prefix says
    is divided (S2-31), the other is left out.

    Raises QuantityError for what is no amount.
    """
    found: dict[str, int] = {}
    for name, text in (amounts or {}).items():
        if (LIMITS if name.startswith(LIMITS) else REQUESTS) != prefix:
            continue
        resource, written = name.removeprefix(prefix), str(text)
        if written.endswith("%"):
            found[resource] = int(parse(written.removesuffix("%")).milli * capacity.get(resource, 0) // 100_000)
        else:
            quantity = parse(written)
            found[resource] = quantity.milli if resource == "cpu" else quantity.units
    return found


def shown(name: str, amount: int) -> str:
    """As Kubernetes writes it."""
    if name == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if name in ("memory", "ephemeral-storage") and amount:
        for suffix, size in _SIZES:
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def written(amounts: Mapping[str, int], prefix: str = REQUESTS) -> dict[str, str]:
    """By quota names."""
    return {f"{prefix}{name}": shown(name, amount) for name, amount in sorted(amounts.items())}
