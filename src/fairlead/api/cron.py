"""The vocabulary of cron schedules: the five fields, the names of months and days, the descriptors.

The server says what is wrong with a schedule and the CronJob controller when one fires; both read this table. Source:
github.com/robfig/cron/v3 (parser.go, spec.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values of one field, and the names that some of them have."""

    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

#: Minute, hour, day, month, day of the week.
FIELDS: Final = (
    Bounds(0, 59),
    Bounds(0, 23),
    Bounds(1, 31),
    Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
DESCRIPTORS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
EVERY: Final = "@every "
