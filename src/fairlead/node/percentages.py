"""Shares of a capacity, as a kubelet reckons them: percentages are 32-bit floats there, and it shows.

10% of 100Gi is 10737418400 bytes, not 10737418240. The difference appears in a node's allocatable, in messages and in
the exact point at which a threshold is met, so nothing below may be "more exact" than this.
Source: parsePercentage and GetThresholdQuantity of pkg/kubelet/eviction.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal

import msgspec

from fairlead.api.quantity import Format, Quantity
from fairlead.golang.quoting import go_quote

_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
#: What Go on amd64 makes of a float that no int64 can hold.
_LEAST_INT64 = -(2**63)
_GREATEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def float32(value: float) -> float:
    """The nearest number that 32 bits can hold."""
    if math.isfinite(value) and abs(value) > _GREATEST_FLOAT32:
        return math.copysign(math.inf, value)
    nearest: float = struct.unpack("f", struct.pack("f", value))[0]
    return nearest


def parse_percentage(text: str) -> float:
    """`10%` as a fraction; ValueError in Go's words. Whether it lies between 0 and 1 is for the caller to ask."""
    digits = text.rstrip("%")
    if not _FLOAT.fullmatch(digits):
        raise ValueError(f"strconv.ParseFloat: parsing {go_quote(digits)}: invalid syntax")
    value = float32(float(digits))
    if math.isinf(value) and "inf" not in digits.lower():
        raise ValueError(f"strconv.ParseFloat: parsing {go_quote(digits)}: value out of range")
    return float32(value / 100)


def percentage_text(percentage: float) -> str:
    """The fraction as Go prints it: with as few digits as tell it from its neighbours, so 15% are `15.000001%`."""
    value = float32(percentage * 100)
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    return f"{Decimal(next(text for text in texts if float32(float(text)) == value)):f}%"


def share(percentage: float, capacity: int) -> int:
    """That much of the capacity in whole units, the rest cut off."""
    amount = float(capacity) * percentage
    return int(amount) if abs(amount) < -_LEAST_INT64 else _LEAST_INT64  # `nan%` is no number, and no error either


class ThresholdValue(msgspec.Struct, frozen=True):
    """An amount that is stated, or else a share of what there is."""

    quantity: Quantity | None = None
    percentage: float = 0.0

    def of(self, capacity: Quantity) -> Quantity:
        if self.quantity is not None:
            return self.quantity
        return Quantity.of_units(share(self.percentage, capacity.units), Format.BINARY_SI)

    def nanos_of(self, capacity: int) -> int:
        """The same of so many whole units, in billionths: asked in every pass of every node."""
        if self.quantity is not None:
            return self.quantity.nanos
        return share(self.percentage, capacity) * 10**9

    def __str__(self) -> str:
        return str(self.quantity) if self.quantity is not None else percentage_text(self.percentage)
