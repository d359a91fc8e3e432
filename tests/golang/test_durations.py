from __future__ import annotations

import pytest

from fairlead.golang.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90.0), ("1.5h", 5400.0), ("500ms", 0.5), ("30s1m", 90.0), ("0", 0.0), ("2540400h", 2540400 * 3600.0)],
)
def test_a_duration_is_what_go_takes(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "-5s", "1 m", "s", "٣s", "2562048h", "9" * 400 + "h", "9" * 5000 + "s"])
def test_what_is_none_is_told_of(text: str) -> None:
    """Go's are of 64 bits, in nanoseconds: an end that is later has no date."""
    with pytest.raises(ValueError, match="is not a duration: write 15s or 1m30s"):
        seconds_of(text)
