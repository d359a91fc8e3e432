"""How tables write things: ages, labels, short lists.

People compare these columns with those of a real cluster, and scripts parse them; so the rounding of an age and the
words for "nothing" are part of the interface (apimachinery pkg/util/duration, pkg/printers/internalversion, 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
#: Up to how many of its seconds a duration is shown in which two units.
_SCALES: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * 365 * _DAY, _DAY, "d", 0, ""),
    (8 * 365 * _DAY, 365 * _DAY, "y", _DAY, "d"),
)


def human_duration(seconds: float) -> str:
    """`5s`, `2m30s`, `3d4h`: two or three significant figures. Clocks may disagree by less than two seconds."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    for limit, unit, name, smaller_unit, smaller_name in _SCALES:
        if whole < limit:
            rest = whole % unit // smaller_unit if smaller_unit else 0
            return f"{whole // unit}{name}{rest}{smaller_name}" if rest else f"{whole // unit}{name}"
    return f"{whole // (365 * _DAY)}y"


def labels_text(labels: Mapping[str, str] | None) -> str:
    """`a=b,c=d`, by key."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else NONE


def shortened(words: Sequence[str], limit: int, total: int, separator: str = ",") -> str:
    """The first words and how many more there are of the total."""
    text = separator.join(words[:limit])
    return f"{text} + {total - limit} more..." if len(words) > limit else text


def yes_or_no(value: bool | None) -> str:
    if value is None:
        return UNSET
    return "True" if value else "False"
