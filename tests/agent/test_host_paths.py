"""Paths of the machine that pods ask for, however deep."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.agent.trees import remove_tree
from fairlead.agent.volumes.host_paths import host_path
from fairlead.agent.volumes.problems import VolumeProblem


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate"])
def test_a_folder_of_more_parts_than_python_recurses_is_made(tmp_path: Path, kind: str) -> None:
    wanted = tmp_path.joinpath(*["d"] * 1500)
    for _ in range(2):  # the second time it is there
        assert host_path({"path": str(wanted), "type": kind}) == wanted
        assert wanted.is_dir()
    remove_tree(tmp_path / "d")


def test_what_is_missing_below_a_symlink_is_made_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    host_path({"path": str(tmp_path / "link/a/b"), "type": "DirectoryOrCreate"})
    assert (tmp_path / "real/a/b").is_dir()


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("d/" * 3000, "DirectoryOrCreate", "mkdir {path}: file name too long"),
        ("a/b/" + "n" * 300, "DirectoryOrCreate", "mkdir {path}: file name too long"),
        ("d/" * 3000, "", "mkdir {path}: file name too long"),
        ("file/below", "DirectoryOrCreate", "mkdir {path}: not a directory"),
        ("missing/file", "FileOrCreate", "open {path}: no such file or directory"),
        ("n" * 300, "Directory", "hostPath type check failed: {path} is not a directory"),
    ],
)
def test_a_path_that_cannot_be_is_told_as_go_tells_it(tmp_path: Path, name: str, kind: str, problem: str) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / name
    with pytest.raises(VolumeProblem) as raised:
        host_path({"path": str(path), "type": kind})
    assert str(raised.value) == problem.format(path=path)
    if len(name) > 4096:
        assert not (tmp_path / "d").exists()
