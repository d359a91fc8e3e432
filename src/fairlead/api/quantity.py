"""Exact amounts of resources: `500m`, `1.5Gi`, `1e3`.

Quantities are compared, summed and shown back to people all over the cluster, so everybody must agree to the last
digit; floats would not. Upstream never goes below a billionth, hence a quantity here is a whole number of billionths
("nanos") plus the style it was written in. The server rewrites every quantity it receives to its canonical text
(S0-42, X-14), so that path is memoised.

Semantics, quirks included, are those of k8s.io/apimachinery 1.36, pkg/api/resource/quantity.go and suffix.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from fairlead.caches import bounded_cache

BAD_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
BAD_NUMBER: Final = "unable to parse numeric part of quantity"
BAD_SUFFIX: Final = "unable to parse quantity's suffix"

MAX_INT64: Final = 2**63 - 1
_NANO_PLACES: Final = 9
_NANOS: Final = 10**_NANO_PLACES
_NANOS_IN_MILLI: Final = 10**6

#: Texts longer than this, and exponents greater than this, buy nothing but the server's time: the former are refused,
#: the latter are taken as this one.
_SANE: Final = 1000
_REMEMBERED: Final = 8192


class QuantityError(ValueError):
    """The text is no quantity; `str()` of it is upstream's message."""


class Format(StrEnum):
    """How a quantity was written, and so how it is shown."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIX: Final = {
    -9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E",
}  # fmt: skip
_BINARY_SUFFIX: Final = {0: "", 10: "Ki", 20: "Mi", 30: "Gi", 40: "Ti", 50: "Pi", 60: "Ei"}
_SUFFIXES: Final = {
    **{suffix: (power, Format.BINARY_SI) for power, suffix in _BINARY_SUFFIX.items()},
    **{suffix: (power, Format.DECIMAL_SI) for power, suffix in _DECIMAL_SUFFIX.items()},
}
_SHAPE: Final = re.compile(
    r"(?P<sign>[+-]?+)(?P<zeros>0*+)(?P<whole>[0-9]*+)(?:\.(?P<part>[0-9]*+))?+"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?+[0-9]*+)"
).fullmatch


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Equality and order look at the amount alone: `1` equals `1000m`."""

    nanos: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)
    #: The text to show, if it was canonical already when it was parsed.
    written: str = field(default="", compare=False, repr=False)
    #: Whether upstream holds it as int64 and exponent (else as big decimal): decides how it overflows.
    is_small: bool = field(default=True, compare=False, repr=False)

    @classmethod
    def of_units(cls, value: int, style: Format = Format.DECIMAL_SI) -> Quantity:
        return cls(value * _NANOS, style)

    @property
    def units(self) -> int:
        """`Value()`: whole units as an int64, rounded away from zero."""
        return self._as_int64(_NANOS)

    @property
    def milli(self) -> int:
        """`MilliValue()`: thousandths as an int64, rounded away from zero."""
        return self._as_int64(_NANOS_IN_MILLI)

    def _as_int64(self, unit: int) -> int:
        value = _divided_up(self.nanos, unit)
        if -MAX_INT64 <= value <= MAX_INT64:
            return value
        # Go answers 0 for an overflowing int64 amount and the low bits of a big decimal.
        return 0 if self.is_small else (value + 2**63) % 2**64 - 2**63

    def rounded_up_to_milli(self) -> Quantity:
        """`RoundUp(Milli)`, what defaulting does to every resource list (S0-42)."""
        if self.nanos % _NANOS_IN_MILLI == 0:
            return self
        return Quantity(_divided_up(self.nanos, _NANOS_IN_MILLI) * _NANOS_IN_MILLI, self.format, is_small=self.is_small)

    def __add__(self, other: Quantity) -> Quantity:
        return self._combined(self.nanos + other.nanos, other)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._combined(self.nanos - other.nanos, other)

    def _combined(self, nanos: int, other: Quantity) -> Quantity:
        style = self.format if self.nanos else other.format
        return Quantity(nanos, style, is_small=self.is_small and other.is_small)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format, is_small=self.is_small)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        """The canonical text: no fraction, the largest suffix that keeps every digit."""
        if self.written:
            return self.written
        if not self.nanos:
            return "0"
        if self.format is Format.BINARY_SI and abs(self.nanos) >= 1024 * _NANOS and self.nanos % _NANOS == 0:
            amount, power = _factored(self.nanos // _NANOS, 1024, 0, 10)
            return f"{amount}{_BINARY_SUFFIX.get(power, '')}"
        amount, power = _factored(self.nanos, 1000, -_NANO_PLACES, 3)
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{amount}e{power}" if power else str(amount)
        # Beyond E upstream prints no suffix at all.
        return f"{amount}{_DECIMAL_SUFFIX.get(power, '')}"


ZERO: Final = Quantity(0, written="0")


def _divided_up(value: int, divisor: int) -> int:
    """The quotient, rounded away from zero."""
    return -(-value // divisor) if value > 0 else value // divisor


def _factored(amount: int, base: int, power: int, step: int) -> tuple[int, int]:
    """Take every factor `base` out of the amount; each raises the power by `step`."""
    quotient, rest = divmod(amount, base)
    while not rest:
        amount, power = quotient, power + step
        quotient, rest = divmod(amount, base)
    return amount, power


@bounded_cache(maxsize=_REMEMBERED)
def parse(text: str) -> Quantity:
    """The quantity a text stands for; raises `QuantityError`."""
    if text == "0":
        return ZERO
    match = _SHAPE(text)
    if not text or match is None:
        raise QuantityError(BAD_FORMAT)
    if len(text) > _SANE:
        raise QuantityError(BAD_NUMBER)
    sign, zeros, whole, part, suffix = match.groups(default="")
    power, style = _interpreted(suffix)
    # Upstream counts a missing whole part as one digit, here and for the precision below.
    digits = (whole or "0") + part
    mantissa = int(digits)
    if style is Format.BINARY_SI:
        scale = -len(part)
        is_small = not part and len(digits) + power * 3 // 10 <= 14
        is_canonical = mantissa & 7 != 0
        mantissa <<= power
    else:
        scale = power - len(part)
        is_small = len(digits) <= 18 and scale >= -_NANO_PLACES
        is_canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    if not is_small:
        return _big(mantissa, scale, style, sign, has_digits=bool(zeros or whole or part))
    nanos = _scaled(mantissa, scale)
    return Quantity(-nanos if sign == "-" else nanos, style, text if is_canonical else "")


def _big(mantissa: int, scale: int, style: Format, sign: str, *, has_digits: bool) -> Quantity:
    """A quantity too large or too fine for upstream's fast path: it is rounded up to nanos, and capped if binary."""
    if not has_digits:
        raise QuantityError(BAD_NUMBER)
    nanos = _scaled(mantissa, scale)
    if style is Format.BINARY_SI:
        nanos = min(nanos, MAX_INT64 * _NANOS)
        if 0 < nanos < _NANOS:
            style = Format.DECIMAL_SI
    return Quantity(-nanos if sign == "-" else nanos, style, is_small=False)


def _interpreted(suffix: str) -> tuple[int, Format]:
    known = _SUFFIXES.get(suffix)
    if known is not None:
        return known
    if suffix[0] not in "eE":
        raise QuantityError(BAD_SUFFIX)
    try:
        power = int(suffix[1:])
    except ValueError:
        raise QuantityError(BAD_SUFFIX) from None
    if not -(2**63) <= power < 2**63:
        raise QuantityError(BAD_SUFFIX)
    return (power + 2**31) % 2**32 - 2**31, Format.DECIMAL_EXPONENT  # Go keeps an int32


def _scaled(mantissa: int, scale: int) -> int:
    """`mantissa * 10**scale` in nanos, rounded up."""
    places = min(scale, _SANE) + _NANO_PLACES
    if places >= 0:
        return int(mantissa * 10**places)
    # 10**n exceeds every number of n bits, so there is no need to build a gigantic divisor.
    return _divided_up(mantissa, 10 ** min(-places, mantissa.bit_length() + 1))


def _memoised(compute: Callable[[Quantity], int]) -> Callable[[str], int]:
    @bounded_cache(maxsize=_REMEMBERED)
    def computed(text: str) -> int:
        return compute(parse(text))

    return computed


#: `Value()` of a text: whole units (bytes) as int64, rounded up.
units: Final = _memoised(lambda quantity: quantity.units)
#: `MilliValue()` of a text: thousandths (of a core) as int64, rounded up.
milli: Final = _memoised(lambda quantity: quantity.milli)


@bounded_cache(maxsize=_REMEMBERED)
def canonical(text: str) -> str:
    """The text that reads back from the API for the text that was sent."""
    return str(parse(text))


@bounded_cache(maxsize=_REMEMBERED)
def round_up_to_milli(text: str) -> str:
    """The canonical text after rounding up to thousandths, as defaulting does to resource lists (S0-42)."""
    return str(parse(text).rounded_up_to_milli())


def is_integer(text: str) -> bool:
    """Whether upstream thinks so: it looks at the int64 of thousandths, which overflows (so `1Ei` is none)."""
    return milli(text) % 1000 == 0


def from_json(value: Any) -> str:
    """The canonical text of what may stand for a quantity in JSON: a string, a bare number, or null (zero)."""
    if isinstance(value, str):
        return canonical(value.strip())
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(BAD_FORMAT)
    return canonical(_literal(value))


def _literal(value: float) -> str:
    """The number as a client would have typed it; the decoder has forgotten how it did."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return repr(value).replace("e+", "e")
