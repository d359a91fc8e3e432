"""The text format that Prometheus reads: families by name, samples by labels, numbers as Go writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
_ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
#: From this power of ten on, and below the next one, Go writes an exponent.
_LARGE, _SMALL = 6, -4


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float
    #: In seconds since 1970; None: the moment of reading.
    at: float | None = None


class Family(NamedTuple):
    name: str
    type: str
    help: str


def text_of(families: Iterable[tuple[Family, Iterable[Sample]]]) -> bytes:
    """Families without samples are left out."""
    lines: list[str] = []
    for family, samples in sorted(families, key=lambda entry: entry[0].name):
        found = sorted(_line(family.name, sample) for sample in samples)
        if found:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.type}", *found]
    return "".join(f"{line}\n" for line in lines).encode()


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{value.translate(_ESCAPED)}"' for label, value in sorted(sample.labels.items()))
    moment = "" if sample.at is None else f" {math.floor(sample.at * 1000)}"
    return f"{name}{{{labels}}} {number(sample.value)}{moment}" if labels else f"{name} {number(sample.value)}{moment}"


def number(value: float) -> str:
    """What `strconv.FormatFloat(value, 'g', -1, 64)` prints."""
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if not value:
        return "0"
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    texts = "".join(map(str, digits))
    power = len(texts) + exponent - 1
    minus = "-" if sign else ""
    if _SMALL <= power < _LARGE:
        return minus + format(Decimal((0, digits, exponent)), "f")
    fraction = f".{texts[1:]}" if len(texts) > 1 else ""
    return f"{minus}{texts[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
