"""Counters, gauges and histograms: plain numbers that are cheap to raise, put in order when somebody reads them.

A family is one metric with all its series; a series is told from its sisters by the values of the family's labels. What
a process serves is a `MetricsRegistry`. Metrics keep no more than `MOST_SERIES` series each, whatever label values a
client may think of: further ones count together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

Labels: TypeAlias = tuple[str, ...]

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

#: Far more than honest clients make.
MOST_SERIES: Final = 5000
#: The label values of all series beyond that.
_OTHER: Final = "other"


class Counts(NamedTuple):
    """What a histogram has seen: how many values in each bucket and above the last, and the sum of all."""

    buckets: Sequence[int]
    total: float


Reading: TypeAlias = float | Counts


class Family:
    """A metric: how it is called, what it says, and its labels. Subclasses keep its series."""

    kind: str
    #: The upper bounds of a histogram's buckets.
    bounds: tuple[float, ...] = ()

    def __init__(self, name: str, text: str, labels: Labels = ()) -> None:
        self.name, self.text, self.labels = name, text, labels

    def read(self) -> Iterable[tuple[Labels, Reading]]:
        """The present values."""
        raise NotImplementedError


class Counter(Family):
    """Only ever grows."""

    kind = COUNTER

    def __init__(self, name: str, text: str, *labels: str) -> None:
        super().__init__(name, text, labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        try:
            self.values[labels] += amount
        except KeyError:
            if len(self.values) >= MOST_SERIES:
                labels = (_OTHER,) * len(self.labels)
            self.values[labels] = self.values.get(labels, 0) + amount

    def read(self) -> Iterable[tuple[Labels, Reading]]:
        return list(self.values.items())


class Gauge(Counter):
    """Goes up and down."""

    kind = GAUGE

    def set(self, value: float, labels: Labels = ()) -> None:
        self.values.pop(labels, None)
        self.add(labels, value)


class Computed(Family):
    """A family that is worked out when it is read."""

    def __init__(
        self,
        kind: str,
        name: str,
        text: str,
        labels: Labels,
        read: Callable[[], Iterable[tuple[Labels, Reading]]],
        bounds: tuple[float, ...] = (),
    ) -> None:
        super().__init__(name, text, labels)
        self.kind, self.bounds = kind, bounds
        self._read = read

    def read(self) -> Iterable[tuple[Labels, Reading]]:
        return self._read()


class Distribution:
    """One series of a histogram."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def read(self) -> Counts:
        return Counts(self.counts.copy(), self.total)


class Histogram(Family):
    """How values are distributed over buckets."""

    kind = HISTOGRAM

    def __init__(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> None:
        super().__init__(name, text, labels)
        self.bounds = bounds
        self.series: dict[Labels, Distribution] = {}
        if not labels:
            self.series[()] = Distribution(bounds)

    def of(self, labels: Labels = ()) -> Distribution:
        """The series of these labels, for whoever observes often."""
        series = self.series.get(labels)
        if series is None:
            if len(self.series) >= MOST_SERIES:
                labels = (_OTHER,) * len(self.labels)
            series = self.series.setdefault(labels, Distribution(self.bounds))
        return series

    def observe(self, value: float, labels: Labels = ()) -> None:
        self.of(labels).observe(value)

    def read(self) -> Iterable[tuple[Labels, Reading]]:
        return [(labels, series.read()) for labels, series in self.series.items()]


#: Of seconds, as Prometheus' own library has them where nobody says otherwise.
DEFAULT_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket bounds, each so many times the one before it."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class MetricsRegistry:
    """The families that are served together."""

    def __init__(self, *families: Family) -> None:
        self._families: dict[str, Family] = {}
        self.add(*families)

    def add(self, *families: Family) -> None:
        """ValueError for a name that is taken."""
        for family in families:
            if family.name in self._families:
                raise ValueError(f"there is a metric {family.name} already")
            self._families[family.name] = family

    def remove(self, *families: Family) -> None:
        """Of a part that has ended; the next one of its kind brings its own."""
        for family in families:
            del self._families[family.name]

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def __getitem__(self, name: str) -> Family:
        return self._families[name]
