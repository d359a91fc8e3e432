"""A level over time, in bounded space: nothing of it is lost, however long the run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.sim.mean_series import MeanSeries

CHANGES = st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 10)), max_size=40)


@given(changes=CHANGES, began=st.sampled_from([0.0, 1.8e9]), parts=st.integers(1, 48))
def test_the_parts_together_are_the_whole(changes: list[tuple[int, float]], began: float, parts: int) -> None:
    series, area, at = MeanSeries(began), 0.0, 0.0
    level = 0.0
    for seconds, next_level in changes:
        series.change(began + at + seconds, next_level)
        area += level * seconds
        at, level = at + seconds, next_level
    assert series.area == pytest.approx(area, rel=1e-6, abs=1e-3)
    means = series.means(parts)
    assert len(means) == (parts if at > 0 else 0)
    if at > 0:
        assert sum(means) * at / parts == pytest.approx(area, rel=1e-3, abs=at * 1e-3)


def test_each_part_has_the_mean_of_its_own_time() -> None:
    series = MeanSeries(1000.0)
    series.change(1000.0, 1.0)
    series.change(1000.0 + 43_200, 0.5)
    series.change(1000.0 + 64_800, 0.0)
    series.advance(1000.0 + 86_400)
    assert series.means(4) == pytest.approx([1.0, 1.0, 0.5, 0.0], abs=0.01)
    assert series.means(2) == pytest.approx([1.0, 0.25], abs=0.01)
