"""Metrics keep what is counted, as text that Prometheus reads, and never more series than there may be."""

from __future__ import annotations

import asyncio
import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.runtime.exposition import exposition
from fairlead.runtime.metrics import (
    GAUGE,
    MOST_SERIES,
    Computed,
    Counter,
    Counts,
    Family,
    Gauge,
    Histogram,
    MetricsRegistry,
    exponential,
)


def text_of(*families: Family) -> str:
    return asyncio.run(exposition(families)).decode()


def test_families_are_written_as_go_writes_them() -> None:
    counter = Counter("b_total", "Counted\nlines \\ slashes", "zeta", "alpha")
    counter.add(("z", 'quoted "\\\n'), 2)
    counter.add(("a", "b"))
    gauge = Gauge("a", "First")
    gauge.set(0.25)
    assert text_of(counter, gauge) == (
        "# HELP a First\n# TYPE a gauge\na 0.25\n"
        "# HELP b_total Counted\\nlines \\\\ slashes\n# TYPE b_total counter\n"
        'b_total{alpha="b",zeta="a"} 1\n'
        'b_total{alpha="quoted \\"\\\\\\n",zeta="z"} 2\n'
    )


def test_a_value_is_in_the_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram("h", "Values", (0.1, 1.0), "of")
    for value in (0.1, 0.5, 1.0, 7):
        histogram.observe(value, ("x",))
    assert text_of(histogram) == (
        "# HELP h Values\n# TYPE h histogram\n"
        'h_bucket{of="x",le="0.1"} 1\nh_bucket{of="x",le="1"} 3\nh_bucket{of="x",le="+Inf"} 4\n'
        'h_sum{of="x"} 8.6\nh_count{of="x"} 4\n'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1e-5, "1e-05"),
        (1.5e-7, "1.5e-07"),
        (123456.789, "123456.789"),
        (999999.5, "999999.5"),
        (1e6, "1e+06"),
        (1234567, "1.234567e+06"),
        (1e22, "1e+22"),
        (-2.5, "-2.5"),
        (math.inf, "+Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    gauge = Gauge("a", "A number")
    gauge.set(value)
    assert text_of(gauge).splitlines()[-1] == f"a {text}"


def test_nobody_makes_more_series_than_there_may_be() -> None:
    counter, histogram = Counter("c_total", "Counted", "name"), Histogram("h", "Values", (1.0,), "name")
    for number in range(MOST_SERIES + 50):
        counter.add((f"n{number}",))
        histogram.observe(1, (f"n{number}",))
    for family in (counter, histogram):
        read = dict(family.read())
        assert len(read) == MOST_SERIES + 1
        other = read["other",]
        assert (sum(other.buckets) if isinstance(other, Counts) else other) == 50


def test_what_nobody_has_counted_yet_is_not_written_but_where_there_are_no_labels() -> None:
    text = text_of(Counter("a_total", "A", "label"), Counter("b_total", "B"), Histogram("h", "H", exponential(1, 2, 3)))
    assert [family.name for family in text_string_to_metric_families(text)] == ["b", "h"]


def test_two_families_cannot_have_one_name() -> None:
    registry = MetricsRegistry(Counter("a_total", "A"))
    with pytest.raises(ValueError, match="a_total"):
        registry.add(Computed(GAUGE, "a_total", "A", (), list))
