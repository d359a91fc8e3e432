"""Every page is whole: nothing that a merge left behind is published."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_marker_of_a_merge_is_left(page: Path) -> None:
    left = [line for line in page.read_text().splitlines() if line.startswith(("<<<<<<< ", ">>>>>>> "))]
    assert left == []
