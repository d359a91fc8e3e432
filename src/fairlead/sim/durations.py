"""How long a run is and when its steps are due, as people write it: 90s, 12h, 1d12h."""

from __future__ import annotations

from typing import Final

from fairlead.golang.durations import non_negative_seconds
from fairlead.golang.numbers import parse_uint

_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def seconds_of(text: str) -> float:
    """The seconds of a Go duration, where a bare number means seconds and days may come first. Raises ValueError."""
    days, has_days, rest = text.rpartition("d")
    try:
        hours = f"{24 * parse_uint(days)}h" if has_days else ""
        return non_negative_seconds(hours + (f"{rest}s" if rest.isdecimal() else rest))
    except ValueError:
        raise ValueError(f"{text!r} is no duration: write 90s, 15m, 12h or 7d") from None


def span(seconds: float) -> str:
    """A duration in its two largest units: `1d 12h`."""
    rest, parts = int(seconds), []
    for unit, size in _UNITS:
        amount, rest = divmod(rest, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts[:2]) or "0s"
