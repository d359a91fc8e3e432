"""Go durations, as configurations and some kinds have them: how long something may take, so none is negative."""

from __future__ import annotations

from fairlead.api.gonumbers import parse_duration


def seconds_of(text: str) -> float:
    """A Go duration such as `1m30s`; ValueError for anything else."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f"{text!r} is not a duration: write 15s or 1m30s")
    return seconds
