"""What of other people's is in the dashboard's page: little, with its licence, and nothing that asks the network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.dashboard_assets import FOLDER, PACKAGES

STATIC = FOLDER.parent


def test_what_is_there_is_what_the_table_says() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {here for package in PACKAGES for here in package.files.values()}
    assert all(any(here.endswith(".LICENSE") for here in package.files.values()) for package in PACKAGES)


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file()) < 300_000


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.*")), ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere_or_made_into_html(path: Path) -> None:
    text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert re.findall(r"https?://|innerHTML|insertAdjacentHTML|dangerouslySet|eval\(", text) == []
