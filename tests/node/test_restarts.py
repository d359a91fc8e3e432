"""The back-off of restarts, beyond what was recorded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.restarts import FIRST_SECONDS, LONGEST_SECONDS, first_try


@given(st.lists(st.floats(0, 2000), max_size=3000))
def test_a_back_off_stays_within_its_bounds_however_often_a_container_fails(lives: list[float]) -> None:
    back_off, now = first_try(0.0), 0.0
    for life in lives:
        ended = now + life
        waited = back_off.allowed_at(ended) - ended
        assert waited == 0 or FIRST_SECONDS - 0.001 <= waited <= LONGEST_SECONDS + 0.001
        now = ended + waited
        back_off = back_off.tried(ended, now)
