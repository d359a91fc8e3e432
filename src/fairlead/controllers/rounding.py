"""Numbers that a user may give as a percentage (k8s.io/apimachinery/pkg/util/intstr)."""

from __future__ import annotations

import math

from fairlead.golang.numbers import clamped_int


def rounded_up(value: int | str, total: int) -> int:
    """`3` is 3, `25%` is that part of the total, rounded up."""
    return math.ceil(_part(value, total)) if isinstance(value, str) else value


def rounded_down(value: int | str, total: int) -> int:
    """`3` is 3, `25%` is that part of the total, rounded down."""
    return math.floor(_part(value, total)) if isinstance(value, str) else value


def _part(value: str, total: int) -> float:
    return clamped_int(value.removesuffix("%")) * total / 100
