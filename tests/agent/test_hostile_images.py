"""Images that somebody made to get out of their container; in the world of a user, whose root is made by us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.agent.runtimes.base import Mount
from tests.agent.machine import in_loop
from tests.agent.runtime_place import PROCESS, WORLD, place

pytestmark = pytest.mark.skipif(WORLD not in os.environ, reason="test_user_node.py runs these as a user")


@in_loop
@pytest.mark.parametrize("way_out", ["..", "/proc/self/cwd", "/proc/1/cwd", "/proc/thread-self/root/.."])
async def test_no_symlink_of_an_image_leads_a_mount_out_of_it(tmp_path: Path, way_out: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "file").write_text("mounted")
    async with place(tmp_path, PROCESS) as here:
        (here.rootfs / "link").symlink_to(f"{way_out}{home}")
        targets = ("/link/file", "/link/below/file", f"link/../..{home}/other", f"..{home}/another")
        mounts = [Mount(tmp_path / "file", target) for target in targets]
        await here.run("c1", "sh", "-c", "cat /link/file", mounts=mounts)
        assert (await here.end()).exit_code == 0 and here.lines("c1") == ["mounted"]
        assert list(home.iterdir()) == []


@in_loop
async def test_what_a_dangling_symlink_names_is_made_where_it_would_be_in_the_container(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mounted")
    async with place(tmp_path, PROCESS) as here:
        (here.rootfs / "etc/resolv.conf").symlink_to("../run/resolve/stub.conf")
        mounts = [Mount(tmp_path / "file", "/etc/resolv.conf")]
        await here.run("c1", "cat", "/etc/resolv.conf", "/run/resolve/stub.conf", mounts=mounts)
        assert (await here.end()).exit_code == 0 and here.lines("c1") == ["mountedmounted"]
