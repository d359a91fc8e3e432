"""Amounts and durations by chance, as people write them: `2`, `choice(1, 2, 4)`, `uniform(1Gi, 4Gi)`,
`exponential(20m)`, `lognormal(10m, 1.5)` (median, sigma).
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from fairlead.api.quantity import Format, Quantity, QuantityError, parse
from fairlead.sim.durations import seconds_of

_CALL: Final = re.compile(r"\s*(?P<name>[a-z]+)\((?P<arguments>[^()]*)\)\s*")
#: How far a random amount may be from its mean or median.
_MOST_TIMES: Final = 1000.0


class Distribution(msgspec.Struct, frozen=True):
    """Draws numbers: nanos of a quantity, or seconds."""

    draw: Callable[[random.Random], float]
    style: Format = Format.DECIMAL_SI


def amounts(text: str) -> Distribution:
    """Of quantities. Raises ValueError."""
    styles: list[Format] = []

    def read(argument: str) -> float:
        try:
            quantity = parse(argument)
        except QuantityError:
            raise ValueError(f"{argument!r} is no quantity") from None
        if quantity.nanos < 0:
            raise ValueError(f"{argument!r} is less than 0")
        styles.append(quantity.format)
        return float(quantity.nanos)

    draw = _distribution(text, read)
    return Distribution(draw, Format.BINARY_SI if Format.BINARY_SI in styles else Format.DECIMAL_SI)


def durations(text: str) -> Distribution:
    """Of seconds. Raises ValueError."""
    return Distribution(_distribution(text, seconds_of))


def quantity_text(nanos: float, style: Format) -> str:
    """To the whole thousandth, or the whole byte."""
    unit = 1_000_000 if style is Format.DECIMAL_SI else 1_000_000_000
    return str(Quantity(max(round(nanos / unit), 1) * unit, style))


def _distribution(text: str, read: Callable[[str], float]) -> Callable[[random.Random], float]:
    call = _CALL.fullmatch(text)
    if call is None:
        constant = read(text.strip())
        return lambda rng: constant
    arguments = [argument.strip() for argument in call["arguments"].split(",")]
    make = _MAKERS.get(call["name"])
    if make is None:
        raise ValueError(f"unknown distribution {call['name']!r}: there are {', '.join(_MAKERS)}")
    return make(arguments, read)


Maker = Callable[[Sequence[str], Callable[[str], float]], Callable[[random.Random], float]]


def _choice(arguments: Sequence[str], read: Callable[[str], float]) -> Callable[[random.Random], float]:
    values = [read(argument) for argument in arguments]
    return lambda rng: rng.choice(values)


def _uniform(arguments: Sequence[str], read: Callable[[str], float]) -> Callable[[random.Random], float]:
    if len(arguments) != 2:
        raise ValueError("uniform takes the least and the most")
    least, most = map(read, arguments)
    if most < least:
        raise ValueError(f"uniform: {arguments[1]} is less than {arguments[0]}")
    return lambda rng: rng.uniform(least, most)


def _exponential(arguments: Sequence[str], read: Callable[[str], float]) -> Callable[[random.Random], float]:
    if len(arguments) != 1 or (mean := read(arguments[0])) <= 0:
        raise ValueError("exponential takes its mean, more than 0")
    return lambda rng: min(rng.expovariate(1 / mean), mean * _MOST_TIMES)


def _lognormal(arguments: Sequence[str], read: Callable[[str], float]) -> Callable[[random.Random], float]:
    if len(arguments) != 2:
        raise ValueError("lognormal takes its median and sigma")
    median, sigma = read(arguments[0]), _number(arguments[1])
    if median <= 0 or not 0 <= sigma <= 10:
        raise ValueError("lognormal takes a median of more than 0 and a sigma from 0 to 10")
    return lambda rng: min(median * math.exp(rng.gauss(0, sigma)), median * _MOST_TIMES)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


_MAKERS: Final[dict[str, Maker]] = {
    "choice": _choice,
    "uniform": _uniform,
    "exponential": _exponential,
    "lognormal": _lognormal,
}
