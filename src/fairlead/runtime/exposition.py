"""Metrics as text, in the format that Prometheus reads (version 0.0.4), as Go's library writes it.

prometheus_client is not asked: it gives every counter a name that ends in `_total`, and not all of Kubernetes' do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Final

from fairlead.runtime.metrics import Counts, Family, Labels, Reading
from fairlead.runtime.offload import offload

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: More series than this are written beside the loop.
_MANY: Final = 50
#: Numbers from here on, or nearer to zero than that, are written with an exponent.
_LARGE: Final = 1e6
_SMALL: Final = 1e-4


async def exposition(families: Iterable[Family]) -> bytes:
    """The text of these families. They are read at once, and written while others have their turn."""
    readings = [(family, list(family.read())) for family in sorted(families, key=lambda family: family.name)]
    series = sum(len(found) for _, found in readings)
    return await offload(partial(_text, readings), is_long=series > _MANY)


def _text(readings: list[tuple[Family, list[tuple[Labels, Reading]]]]) -> bytes:
    lines: list[str] = []
    for family, found in readings:
        if found:
            lines.append(f"# HELP {family.name} {_escaped(family.text)}\n# TYPE {family.name} {family.kind}\n")
            lines += _series(family, found)
    return "".join(lines).encode()


def _series(family: Family, found: list[tuple[Labels, Reading]]) -> Iterator[str]:
    order = sorted(range(len(family.labels)), key=family.labels.__getitem__)
    names = [family.labels[index] for index in order]
    ends = [f'le="{_number(bound)}"}}' for bound in family.bounds]
    for labels in sorted((tuple(labels[index] for index in order), reading) for labels, reading in found):
        values, reading = labels
        inner = ",".join(f'{name}="{_quoted(value)}"' for name, value in zip(names, values, strict=True))
        if isinstance(reading, Counts):
            yield from _histogram(family.name, inner, ends, reading)
        else:
            yield f"{family.name}{{{inner}}} {_number(reading)}\n" if inner else f"{family.name} {_number(reading)}\n"


def _histogram(name: str, inner: str, ends: list[str], counts: Counts) -> Iterator[str]:
    beginning = f"{name}_bucket{{{inner}," if inner else f"{name}_bucket{{"
    reached = 0
    for end, count in zip(ends, counts.buckets, strict=False):
        reached += count
        yield f"{beginning}{end} {_number(reached)}\n"
    reached += counts.buckets[-1]
    braced = f"{{{inner}}}" if inner else ""
    yield f'{beginning}le="+Inf"}} {_number(reached)}\n'
    yield f"{name}_sum{braced} {_number(counts.total)}\n{name}_count{braced} {_number(reached)}\n"


def _number(value: float) -> str:
    """As Go's `strconv.FormatFloat(value, 'g', -1, 64)`: the fewest digits, with an exponent from a million on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if abs(value) < _LARGE and value == (whole := int(value)):
        return str(whole)
    if _SMALL <= abs(value) < _LARGE:
        return repr(value)
    exact = Decimal(repr(float(value))).normalize()
    digits = "".join(map(str, exact.as_tuple().digits))
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{fraction}e{exact.adjusted():+03d}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return text if text.isalnum() else _escaped(text).replace('"', '\\"')
