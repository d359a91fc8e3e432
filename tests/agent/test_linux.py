"""What is asked of the kernel directly."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from tests.agent.machine import real_containers


@real_containers
def test_mount_points_are_found_whatever_they_are_called(tmp_path: Path) -> None:
    names = ["a b", "tab\there", "back\\slash", "übung", "a b/deeper", "new\nline", "form\ffeed\u3000and\u2028line"]
    folders = [tmp_path / name for name in (*names, os.fsdecode(b"na\xefve"))]
    ours = hierarchies()
    try:
        for folder in folders:
            folder.mkdir()
            linux.mount("tmpfs", folder, "tmpfs")
        assert linux.mount_points(tmp_path) == folders[::-1]
        assert linux.mount_points(tmp_path / "a b") == [tmp_path / "a b/deeper", tmp_path / "a b"]
        assert linux.mount_points(tmp_path / "a") == []
        assert set(folders) <= set(linux.mount_points(Path("/")))
        assert hierarchies() == ours  # which are mounted beside them
    finally:
        linux.unmount_below(tmp_path)
    assert linux.mount_points(tmp_path) == []
