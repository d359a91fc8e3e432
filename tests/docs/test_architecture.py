"""What ARCHITECTURE.md and CONTRIBUTING.md name is there, and no folder is left out."""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fairlead"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
LISTING = ARCHITECTURE.split("```\nsrc/fairlead/\n")[1].split("```")[0]
NAMED = [
    (page, path)
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md")
    for path in sorted(set(re.findall(r"`([a-z_/]+(?:\.py|\.txt|\.md|/))`", (ROOT / page).read_text())))
]


def entries() -> list[tuple[Path, list[str]]]:
    """Each folder of the listing, with the modules and folders that it is said to have."""
    found: list[tuple[Path, list[str]]] = []
    for line in LISTING.splitlines():
        indent = len(line) - len(line.lstrip())
        names = re.findall(r"[a-z_]+(?:\.py\b|/(?=[ ,]|$))", line)
        if indent == 2:
            folder, names = (SOURCE / names[0], names[1:]) if names[0].endswith("/") else (SOURCE, names)
            found.append((folder, []))
        elif indent == 4:
            rooms = list(takewhile(lambda name: name.endswith("/"), names))
            found += [(SOURCE / "server" / room, []) for room in rooms]
            names = names[len(rooms) :]
        found[-1][1].extend(names)
    return found


@pytest.mark.parametrize(("page", "path"), NAMED)
def test_every_path_that_is_named_is_there(page: str, path: str) -> None:
    exact = (ROOT / path).exists() or (SOURCE / path).exists()
    assert exact or any(list(folder.rglob(path.rstrip("/"))) for folder in (SOURCE, ROOT / "tests"))


@pytest.mark.parametrize(("folder", "names"), entries(), ids=lambda value: getattr(value, "name", ""))
def test_every_module_of_the_listing_is_in_its_folder(folder: Path, names: list[str]) -> None:
    assert folder.is_dir()
    assert [name for name in names if not (folder / name).exists()] == []


@pytest.mark.parametrize("parent", [SOURCE, SOURCE / "server"])
def test_every_folder_is_in_the_listing(parent: Path) -> None:
    folders = {path.parent for path in parent.glob("*/__init__.py")}
    assert folders - {folder for folder, _ in entries()} <= {SOURCE / "cli"}  # beside the composition root


def test_every_decision_has_a_number_of_its_own() -> None:
    decisions = [path.name for path in (ROOT / "docs" / "decisions").glob("*.md")]
    numbers = Counter(name.partition("-")[0] for name in decisions)
    assert [number for number, count in numbers.items() if count > 1] == []
    titles = {name: (ROOT / "docs" / "decisions" / name).read_text().splitlines()[0] for name in decisions}
    assert {name for name, title in titles.items() if not title.startswith(f"# {int(name[:4])}. ")} == set()
