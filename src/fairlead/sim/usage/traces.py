"""Recorded usage: CSV with a time and an amount per row, or what Prometheus answers to a range query.

Times count from the first row, so it does not matter whether they are seconds or dates.
"""

from __future__ import annotations

import math
from datetime import datetime
from itertools import pairwise
from typing import Final

import msgspec

from fairlead.api.quantity import QuantityError, parse
from fairlead.sim.usage.models import LONGEST_SECONDS, Series
from fairlead.sim.usage.range_maximum import RangeMaximum

#: Two weeks, minute by minute.
MOST_ROWS: Final = 20_160
#: The longest text of a trace, in characters.
LONGEST_TEXT: Final = 2**20
#: Rows are a second apart at least; a float of seconds since 1970 may show a little less.
_LEAST_GAP: Final = 0.999


class _Response(msgspec.Struct):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class _Head(msgspec.Struct, rename="camel"):
    result_type: str


class _RangeVector(msgspec.Struct):
    values: list[tuple[float, str]]


class _Matrix(msgspec.Struct):
    result: list[_RangeVector]


def csv_series(text: str) -> Series:
    """The rows of a CSV; a first row that is none is its header. ValueError names the line that makes no sense."""
    _check_length(text)
    rows: list[tuple[float, float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        moment, comma, amount = line.partition(",")
        try:
            if not comma:
                raise ValueError(f"{line!r} is no row: write TIME,AMOUNT")
            rows.append((_time(moment.strip()), _amount(amount.strip())))
        except ValueError as error:
            is_header = not rows and number == 1 and comma and not line[0].isdigit()
            if not is_header:
                raise ValueError(f"line {number}: {error}") from None
    return _series(rows)


def prometheus_series(text: str) -> Series:
    """The only series of a range query's answer. ValueError says what is wrong with it."""
    _check_length(text)
    try:
        response = msgspec.json.decode(text, type=_Response)
        if response.status != "success":
            raise ValueError(f"Prometheus answered with status {response.status!r}: {response.error}")
        kind = msgspec.json.decode(response.data, type=_Head).result_type
        if kind != "matrix":
            raise ValueError(f"a result of type {kind!r} has no course: ask for a range (query_range)")
        results = msgspec.json.decode(response.data, type=_Matrix).result
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"this is no answer of Prometheus: {error}") from None
    if len(results) != 1:
        raise ValueError(f"the answer has {len(results)} series: a trace is exactly one")
    return _series([(moment, _number(amount)) for moment, amount in results[0].values])


def _check_length(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a trace has at most {LONGEST_TEXT} characters, this one {len(text)}")


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text!r} is neither seconds nor a time such as 2026-01-01T14:00:00Z")


def _amount(text: str) -> float:
    try:
        return parse(text).nanos / 10**9
    except (QuantityError, OverflowError):
        raise ValueError(f"{text!r} is no amount: write one such as 300Mi, 250m or 1e9") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None


def _series(rows: list[tuple[float, float]]) -> Series:
    if not 2 <= len(rows) <= MOST_ROWS:
        raise ValueError(f"a trace has from 2 to {MOST_ROWS} rows, this one {len(rows)}")
    for number, (moment, amount) in enumerate(rows, 1):
        if not (math.isfinite(moment) and math.isfinite(amount)) or amount < 0:
            raise ValueError(f"row {number}: {amount:g} at {moment:g} is not an amount at a time")
    for number, ((moment, _), (following, _)) in enumerate(pairwise(rows), 2):
        if following - moment < _LEAST_GAP:
            raise ValueError(f"row {number}: rows must follow each other by a second at least")
    start = rows[0][0]
    if rows[-1][0] - start > LONGEST_SECONDS:
        raise ValueError("a trace lasts at most a century")
    amounts = tuple(amount for _, amount in rows)
    return Series(tuple(moment - start for moment, _ in rows), amounts, RangeMaximum(amounts))
