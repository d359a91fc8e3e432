"""One agent at a time has a folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.agent.claims import InUse, held


def test_a_folder_is_of_one_agent_and_left_as_it_was_found(tmp_path: Path) -> None:
    made, found = tmp_path / "made", tmp_path / "found"
    found.mkdir()
    for root in (made, found):
        with held(root):
            with pytest.raises(InUse, match=f"a node agent runs with {root} already"), held(root):
                pass
            assert root.exists()
    assert not made.exists()
    assert list(found.iterdir()) == []


def test_a_folder_in_which_something_is_left_keeps_its_lock(tmp_path: Path) -> None:
    with held(tmp_path):
        (tmp_path / "pods").mkdir()
    assert {path.name for path in tmp_path.iterdir()} == {"agent.lock", "pods"}


def test_however_often_folders_come_and_go_nobody_shares_one(tmp_path: Path) -> None:
    inside, most, entered = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, entered
        for _ in range(1500):
            try:
                with held(tmp_path / "root"):
                    inside += 1
                    most, entered = max(most, inside), entered + 1
                    inside -= 1
            except InUse:
                pass

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work) for _ in range(4)]:
            done.result()
    assert most == 1 and entered > 0


def test_a_lock_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "agent.lock").symlink_to(tmp_path / "not" / "there")
    with pytest.raises(OSError, match="symbolic links"), held(tmp_path):
        pass


@pytest.mark.parametrize("below", ["", "below"])
def test_what_is_no_folder_is_an_error(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name in ("file", "link"):
        with pytest.raises((FileExistsError, NotADirectoryError)), held(tmp_path / name / below):
            pass
