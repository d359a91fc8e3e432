"""What only the runtime of conmon and crun can do wrong; the rest is tested in `test_runtimes.py`."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.runtime_choice import Ground, conmon
from fairlead.agent.runtimes.base import RuntimeFailure, State
from tests.agent.folder_images import FolderImages
from tests.agent.machine import in_loop, mounts_below, real_containers, until
from tests.agent.runtime_place import OCI, place

pytestmark = real_containers


@in_loop
async def test_an_agent_that_died_halfway_leaves_nothing(tmp_path: Path) -> None:
    """Remnants without a record: of a container that was being made, and of a sandbox."""
    async with place(tmp_path, OCI) as here:
        id_ = await here.run("c1", "sleep", "1000")
        pid = here.found("c1").pid
        (here.root / f"containers/{id_}/container.json").unlink()
        half = here.root / "sandboxes/u2"
        (half / "shm").mkdir(parents=True)
        linux.mount("shm", half / "shm", "tmpfs")
        here.close()
        await here.open()
        assert here.runtime.containers() == [] and not half.exists()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("mark", [",", '"', "\\"])
def test_a_root_folder_that_no_mount_can_name_is_refused_at_the_start(tmp_path: Path, mark: str) -> None:
    ground = Ground(tmp_path / f"a{mark}b", Cgroups(hierarchies()), "", 0, "")
    with pytest.raises(RuntimeFailure, match="no container can be mounted from there"):
        conmon(FolderImages({}))(ground)


@in_loop
async def test_what_is_no_folder_of_a_container_or_sandbox_keeps_no_agent_from_starting(tmp_path: Path) -> None:
    async with place(tmp_path, OCI) as here:
        id_ = await here.run("c1", "sleep", "1000")
        (here.root / "containers/notes").touch()
        (here.root / "sandboxes/notes").touch()
        (here.root / "containers/odd/container.json").mkdir(parents=True)
        here.close()
        await here.open()
        assert [status.id for status in here.runtime.containers()] == [id_]


@in_loop
async def test_a_start_that_cannot_be_written_down_is_no_other_container_the_next_time(tmp_path: Path) -> None:
    """As on a full disk: it runs, and whoever thinks that it does not starts a second one beside it."""
    async with place(tmp_path, OCI) as here:
        id_ = await here.create("c1", "sleep", "1000")
        in_the_way = here.root / f"containers/{id_}/container.new"
        in_the_way.mkdir()
        with pytest.raises(OSError, match="Is a directory"):
            await here.runtime.start(id_)
        in_the_way.rmdir()
        await here.runtime.start(id_)
        found = here.found("c1")
        assert found.state is State.RUNNING and here.cgroups.processes(f"{here.pod}/{id_}") == {found.pid}


@in_loop
async def test_programs_that_are_away_for_a_while_leave_nothing_of_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another version is installed; pods go meanwhile."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("conmon", "crun"):
        shutil.copy2(shutil.which(name) or "", programs)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    async with place(tmp_path, OCI) as here:
        id_ = await here.run("stays", "sleep", "1000")
        for name in ("conmon", "crun"):
            (programs / name).rename(tmp_path / name)
        with pytest.raises(RuntimeFailure, match="crun cannot be run: No such file or directory"):
            await here.run("c1", "sleep", "1000")
        with pytest.raises(RuntimeFailure, match="cannot be run"):
            await here.runtime.remove_sandbox("u1")
        await until(lambda: not here.cgroups.processes(f"{here.pod}/{id_}"))
        with pytest.raises(RuntimeFailure, match="cannot be run"):  # which an agent that starts waits for
            await here.runtime.adopt()
        for name in ("conmon", "crun"):
            (tmp_path / name).rename(programs / name)
        await here.runtime.remove_sandbox("u1")
        assert list(here.root.glob("containers/*")) == [] == list(here.root.glob("state/*/*"))


@pytest.mark.slow
@in_loop
async def test_making_a_container_may_be_given_up_at_any_instant(tmp_path: Path) -> None:
    """As when its pod goes meanwhile: of what was begun by then nothing is left, nor comes later."""
    async with place(tmp_path, OCI) as here:
        for number in range(40):
            making = asyncio.create_task(here.run(f"c{number}", "sleep", "1000"))
            await asyncio.sleep(number * 0.002)
            making.cancel()
            await asyncio.wait([making])
            for status in here.runtime.containers():
                await here.runtime.remove(status.id)
            assert list(here.root.glob("containers/*")) == [], number
            await until(lambda: not _keepers(here.root))
        await until(lambda: not here.cgroups.processes(here.pod))
        assert list(here.root.glob("containers/*")) == [] == list(here.root.glob("state/*/*"))


@pytest.mark.slow
@in_loop
async def test_making_a_sandbox_may_be_given_up_at_any_instant(tmp_path: Path) -> None:
    async with place(tmp_path, OCI) as here:
        before = mounts_below(here.root)
        for number in range(20):
            making = asyncio.create_task(here.runtime.create_sandbox(here.sandbox("u2")))
            await asyncio.sleep(number * 0.001)
            making.cancel()
            await asyncio.wait([making])
            await here.runtime.remove_sandbox("u2")
            assert not (here.root / "sandboxes/u2").exists() and mounts_below(here.root) == before, number


def _keepers(root: Path) -> list[bytes]:
    """What runs of those whose words have that folder among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(f"{root}/containers") in (words := path.read_bytes()):
                found.append(words)
    return found
