"""Numbers and samples as Prometheus reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.stats.exposition import GAUGE, Family, Sample, number, text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1"),
        (0.5, "0.5"),
        (524288, "524288"),
        (2097152, "2.097152e+06"),
        (1395066363, "1.395066363e+09"),
        (7e-09, "7e-09"),
        (0.053643567, "0.053643567"),
        (479.424566378, "479.424566378"),
        (1000000, "1e+06"),
        (-1.5, "-1.5"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost(value: float) -> None:
    assert float(number(value)) == value


def test_families_and_samples_are_in_order_and_values_of_labels_are_quoted() -> None:
    first, second = Family("a", GAUGE, "First."), Family("b", GAUGE, "Second.")
    text = text_of(
        [
            (second, [Sample({"pod": 'x"\\\n', "container": "c"}, 2, 1.5)]),
            (Family("none", GAUGE, "Nothing."), []),
            (first, [Sample({"z": "2"}, 1), Sample({"z": "1"}, 1)]),
        ]
    )
    assert text.decode().splitlines() == [
        "# HELP a First.",
        "# TYPE a gauge",
        'a{z="1"} 1',
        'a{z="2"} 1',
        "# HELP b Second.",
        "# TYPE b gauge",
        'b{container="c",pod="x\\"\\\\\\n"} 2 1500',
    ]
