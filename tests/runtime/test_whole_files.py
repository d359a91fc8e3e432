"""Files that appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.runtime.whole_files import replace_durably, written_whole


def test_what_was_there_stays_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), written_whole(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    with written_whole(path) as file:
        file.write(b"after")
        assert path.read_text() == "before"
    assert [path.read_text(), *tmp_path.iterdir()] == ["after", path]


def test_of_a_link_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with written_whole(tmp_path / "link") as file:
        file.write(b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"x"


def test_of_what_outlives_us_the_old_one_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    replace_durably(path, b"old")
    (tmp_path / "state.json.new").mkdir()
    with pytest.raises(OSError, match=r"state\.json\.new"):
        replace_durably(path, b"new")
    assert path.read_bytes() == b"old"
    (tmp_path / "state.json.new").rmdir()
    replace_durably(path, b"new")
    assert path.read_bytes() == b"new" and [each.name for each in tmp_path.iterdir()] == ["state.json"]
