"""Lists of CPUs: `0-3,8`. Source: k8s.io/utils/cpuset."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.golang.numbers import atoi
from fairlead.golang.quoting import go_quote


class CpuSet(msgspec.Struct, frozen=True):
    #: From and to, both included; sorted, without overlap.
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def size(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset(cpu for first, last in self.ranges for cpu in range(first, last + 1))

    def is_within(self, count: int) -> bool:
        """Whether a machine of so many CPUs has all of them."""
        return not self.ranges or (self.ranges[0][0] >= 0 and self.ranges[-1][1] < count)


def parse_cpu_set(text: str) -> CpuSet:
    """ValueError in Go's words."""
    return CpuSet(_merged(_range(part) for part in text.split(",")) if text else ())


def listed(cpus: Iterable[int]) -> str:
    """`0-3,8`: what `parse_cpu_set` reads."""
    ranges = _merged((cpu, cpu) for cpu in cpus)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _range(text: str) -> tuple[int, int]:
    start, is_range, end = text.partition("-")
    first = atoi(start)
    last = atoi(end) if is_range else first
    if first > last:
        raise ValueError(f"invalid range {go_quote(text)} ({first} > {last})")
    return first, last
