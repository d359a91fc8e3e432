"""Go durations, as configurations and some kinds have them."""

from __future__ import annotations

import re
from typing import Final

_FORM: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


def seconds_of(text: str) -> float:
    """A Go duration such as `1m30s`; ValueError for anything else."""
    found = _FORM.fullmatch(text)
    if not text or found is None:
        raise ValueError(f"{text!r} is not a duration: write 15s or 1m30s")
    hours, minutes, seconds, millis = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0) + int(millis or 0) / 1000
