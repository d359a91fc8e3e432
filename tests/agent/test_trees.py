"""Folders deeper than Python recurses and than a path may be long."""

from __future__ import annotations

import os
import stat
from contextlib import chdir
from pathlib import Path

import pytest

from fairlead.agent.measuring.folders import disk_usage
from fairlead.agent.trees import remove_tree, walked
from fairlead.agent.volumes.ownership import give_to_group
from fairlead.agent.volumes.payload import Owner, PayloadFile, write_payload

DEPTH = 3000


def deepen(folder: Path, depth: int = DEPTH) -> None:
    """A folder in a folder in a folder, with a file in the last."""
    folder.mkdir()
    with chdir(folder):
        for _ in range(depth):
            Path("d").mkdir()
            os.chdir("d")
        Path("last").write_bytes(b"x" * 4096)


def test_a_deep_folder_is_removed(tmp_path: Path) -> None:
    deepen(tmp_path / "deep")
    remove_tree(tmp_path / "deep")
    assert list(tmp_path.iterdir()) == []
    remove_tree(tmp_path / "deep")  # nothing is no error


def test_what_is_deep_is_measured_and_given_to_a_group(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    deepen(folder)
    assert disk_usage(folder).inodes == DEPTH + 2
    assert [entry.name for _, entry in walked(folder)][-1] == "last"
    if os.geteuid() == 0:
        give_to_group(folder, 4242)
        found = [entry.stat(follow_symlinks=False) for _, entry in walked(folder)]
        assert {about.st_gid for about in found} == {4242}
        assert all(about.st_mode & stat.S_ISGID for about in found[:-1])
    remove_tree(folder)


def test_no_link_is_followed(tmp_path: Path) -> None:
    folder, other = tmp_path / "mine", tmp_path / "others"
    for made in (folder, other, folder / "below"):
        made.mkdir()
    (other / "kept").write_text("kept")
    for place in (folder, folder / "below"):
        (place / "link").symlink_to(other)
    assert sorted(entry.name for _, entry in walked(folder)) == ["below", "link", "link"]
    remove_tree(folder)
    assert not folder.exists()
    assert (other / "kept").read_text() == "kept"
    (tmp_path / "link").symlink_to(other)
    with pytest.raises(OSError):
        remove_tree(tmp_path / "link")
    assert (other / "kept").exists()


def test_names_that_are_taken_are_no_obstacle(tmp_path: Path) -> None:
    """Folders are moved to names that nobody knows of beforehand, so somebody may have them."""
    folder = tmp_path / "x"
    for number in range(3):
        (folder / f"removed-{number}" / "removed-1" / f"removed-{number}" / "file").mkdir(parents=True)
        (folder / f"removed-{number}" / "removed-0").write_text("")
    remove_tree(folder)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_what_cannot_be_removed_is_told_or_left(tmp_path: Path) -> None:
    from fairlead.agent import linux

    folder = tmp_path / "x"
    for made in (folder, folder / "a", folder / "a" / "mounted", folder / "b"):
        made.mkdir()
    (folder / "b" / "secret").write_text("s")
    linux.mount("tmpfs", folder / "a" / "mounted", "tmpfs", 0, "size=64k")
    try:
        with pytest.raises(OSError):
            remove_tree(folder)
        remove_tree(folder, ignore_errors=True)
        assert [entry.name for _, entry in walked(folder) if entry.is_file()] == []
    finally:
        linux.unmount_below(tmp_path)
    remove_tree(folder)
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_what_is_mounted_within_is_not_emptied(tmp_path: Path) -> None:
    from fairlead.agent import linux

    folder, other = tmp_path / "mine", tmp_path / "others"
    for made in (folder / "mounted", folder / "a" / "mounted", other / "below"):
        made.mkdir(parents=True)
    kept = other / "kept", other / "below" / "kept"
    for file in kept:
        file.write_text("kept")
    for target in (folder / "mounted", folder / "a" / "mounted"):
        linux.mount(str(other), target, flags=linux.MS_BIND)
    try:
        remove_tree(folder, ignore_errors=True)
        with pytest.raises(OSError):
            remove_tree(folder)
        assert all(file.exists() for file in kept)
    finally:
        linux.unmount_below(tmp_path)
    remove_tree(folder)
    assert not folder.exists() and all(file.exists() for file in kept)


def test_a_key_may_have_a_path_of_a_thousand_parts(tmp_path: Path) -> None:
    file = PayloadFile(b"content", 0o644)
    deep = "/".join(["a"] * 1200)
    assert write_payload(tmp_path, {deep: file, "plain": file}, "1", Owner())
    assert (tmp_path / deep).read_bytes() == b"content"
    assert not write_payload(tmp_path, {deep: file, "plain": file}, "2", Owner())
    assert write_payload(tmp_path, {"plain": file}, "3", Owner())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["..3", "..data", "plain"]
