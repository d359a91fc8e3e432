"""The books of a run, at times as they are: seconds since the epoch."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.sim.report import UTILISATION_SLOTS, _averages

BEGAN = 1_767_225_600.0  # 2026-01-01


def test_a_constant_use_is_the_same_in_every_part() -> None:
    assert _averages([(BEGAN, 5)], BEGAN, BEGAN + 1000.1) == pytest.approx([5.0] * UTILISATION_SLOTS)


def test_what_lasts_half_the_run_fills_half_the_parts() -> None:
    half = UTILISATION_SLOTS // 2
    found = _averages([(BEGAN, 4), (BEGAN + 3600, 0)], BEGAN, BEGAN + 7200)
    assert found == pytest.approx([4.0] * half + [0.0] * half)


def test_a_run_of_no_length_has_no_parts() -> None:
    assert _averages([(BEGAN, 1)], BEGAN, BEGAN) == []


@given(st.floats(0.01, 1e8), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 10**12)), max_size=30))
@example(0.3, [(0.0, 1)])
def test_the_mean_of_the_parts_is_the_area_over_the_length(length: float, changes: list[tuple[float, int]]) -> None:
    end = BEGAN + length
    samples = sorted((BEGAN + part * length, value) for part, value in changes)
    slots = _averages(samples, BEGAN, end)
    ends = [*(at for at, _ in samples), end][1:]
    area = sum(value * (until - at) for (at, value), until in zip(samples, ends, strict=True))
    assert sum(slots) / len(slots) == pytest.approx(area / (end - BEGAN), rel=1e-6, abs=1e-6)
    assert all(-1e-6 <= mean <= max((value for _, value in samples), default=0) * (1 + 1e-6) + 1e-6 for mean in slots)
