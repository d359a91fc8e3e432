"""Go durations, such as `1m30s`."""

from __future__ import annotations

import re

from fairlead.golang.quoting import go_quote

_AMOUNT = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]*", re.ASCII)
_NO_AMOUNT = re.compile(r"[^0-9.]+", re.ASCII)
_NANOSECONDS = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 6e10, "h": 3.6e12}


def parse_duration(text: str) -> float:
    """What `time.ParseDuration` takes, in seconds; ValueError in Go's words."""
    at = 1 if text[:1] in ("+", "-") else 0
    if text[at:] == "0":
        return 0.0
    if at == len(text):
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    nanoseconds = 0.0
    while at < len(text):
        number = _AMOUNT.match(text, at)
        if number is None or number[0] == ".":
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        unit = _NO_AMOUNT.match(text, number.end())
        if unit is None:
            raise ValueError(f"time: missing unit in duration {go_quote(text)}")
        if unit[0] not in _NANOSECONDS:
            raise ValueError(f"time: unknown unit {go_quote(unit[0])} in duration {go_quote(text)}")
        nanoseconds += float(number[0]) * _NANOSECONDS[unit[0]]
        if nanoseconds > 2.0**63:
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        at = unit.end()
    return (-nanoseconds if text[0] == "-" else nanoseconds) / 1e9


def seconds_of(text: str) -> float:
    """A Go duration such as `1m30s`; ValueError for anything else."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f"{text!r} is not a duration: write 15s or 1m30s")
    return seconds
