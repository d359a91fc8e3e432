"""Images and programs that somebody made to get out of their container, or to outlive it; in the world of a user, where
nobody but us keeps them in.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from fairlead.agent import linux
from fairlead.agent.cgroups.usage import CgroupUsage, usage_of
from fairlead.agent.runtimes.base import Mount, RuntimeFailure, State
from fairlead.agent.runtimes.oci.layout import Layout
from fairlead.agent.runtimes.oci.records import keeper_of
from fairlead.agent.runtimes.process.process_groups import ProcessGroups
from fairlead.runtime.streaming.remote_command import Wanted
from tests.agent.machine import in_loop, until
from tests.agent.runtime_place import PROCESS, WORLD, Place, place

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
        assert (await here.end()).exit_code == 0 and "".join(here.lines("c1")) == "mountedmounted"


#: Leaves something behind that has no parent, no session and no ear.
_DAEMON = "trap '' HUP TERM; busybox setsid sleep 4242 > /dev/null 2>&1 & sleep 0.2"
_MIB = 1 << 20
#: What programs of the machine need.
_MACHINE = [Mount(path, str(path), read_only=True) for path in map(Path, ("/usr", "/lib", "/lib64")) if path.exists()]


@in_loop
async def test_who_wishes_to_outlive_its_keeper_does_not(tmp_path: Path) -> None:
    async with place(tmp_path, PROCESS) as here:
        await here.run("c1", "/usr/bin/setpriv", "--pdeathsig", "clear", "/bin/sleep", "1000", mounts=_MACHINE)
        pid = here.found("c1").pid
        await until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"/bin/sleep"))
        _kill_keeper(here)
        assert (await here.end()).exit_code == 137
        await until(lambda: not Path(f"/proc/{pid}").exists())


@in_loop
async def test_what_a_container_leaves_among_the_processes_of_the_machine_ends_with_its_keeper(tmp_path: Path) -> None:
    async with place(tmp_path, PROCESS) as here:
        await here.run("c1", "sh", "-c", f"{_DAEMON}; sleep 1000", host_pid=True)
        await until(lambda: len(_sleeping(here)) == 2)
        _kill_keeper(here)
        assert (await here.end()).state is State.EXITED
        await until(lambda: not _sleeping(here))


@in_loop
async def test_what_a_container_leaves_among_the_processes_of_its_pod_ends_with_it(tmp_path: Path) -> None:
    async with _sharing_pod(tmp_path) as here:
        await here.run("c1", "sh", "-c", _DAEMON, pod="u2")
        assert (await here.end()).exit_code == 0
        assert not _sleeping(here)


@in_loop
async def test_containers_that_see_each_other_are_measured_and_killed_by_themselves(tmp_path: Path) -> None:
    async with _sharing_pod(tmp_path) as here:
        large = "head -c 67108864 /dev/zero | tail -c 67108864 | sleep 1000"
        await here.run("large", "sh", "-c", large, pod="u2")
        small = await here.run("small", "sleep", "1000", pod="u2", memory=32 * _MIB)
        await until(lambda: _used(here, f"{here.cgroup}/podu2") >= 64 * _MIB)
        assert isinstance(here.cgroups, ProcessGroups) and here.cgroups.kill_who_exceeds() == []
        await here.runtime.signal(small, signal.SIGKILL)
        assert (await here.end()).name == "small"
        assert here.found("large").state is State.RUNNING


@in_loop
async def test_whatever_a_program_is_called_it_is_told_why_it_cannot_run(tmp_path: Path) -> None:
    async with place(tmp_path, PROCESS) as here:
        with pytest.raises(RuntimeFailure, match="File name too long"):
            await here.run("c1", "x" * 100_000)


@in_loop
async def test_however_many_attach_the_container_runs_on(tmp_path: Path) -> None:
    async with place(tmp_path, PROCESS) as here:
        id_ = await here.run("c1", "sh", "-c", "while true; do echo x; sleep 0.05; done")
        resource.prlimit(_keeper(here), resource.RLIMIT_NOFILE, (100, 100))
        attached = [await here.runtime.attach(id_, Wanted(False, True, True, False)) for _ in range(150)]
        for streams in attached:
            await streams.close()
        said = b""
        while not said:  # it notices one by one who has gone
            streams = await here.runtime.attach(id_, Wanted(False, True, True, False))
            assert streams.stdout is not None
            said = await streams.stdout.read()
            await streams.close()
        assert here.found("c1").state is State.RUNNING


@in_loop
async def test_a_full_disk_neither_hides_how_a_container_ended_nor_keeps_it(tmp_path: Path) -> None:
    linux.mount("none", tmp_path, "tmpfs", 0, "size=12m")
    async with place(tmp_path, PROCESS) as here:
        id_ = await here.run("c1", "sh", "-c", "while [ ! -e /dev/shm/full ]; do sleep 0.05; done; exit 3")
        with suppress(OSError), (tmp_path / "filling").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        (here.root / "sandboxes/u1/shm/full").touch()
        assert (await here.end()).exit_code == 3
        await here.runtime.remove(id_)
        assert here.runtime.containers() == []


@asynccontextmanager
async def _sharing_pod(folder: Path) -> AsyncIterator[Place]:
    async with place(folder, PROCESS) as here:
        spec = replace(here.sandbox("u2"), shares_processes=True, cgroup=f"{here.cgroup}/podu2")
        here.cgroups.ensure(spec.cgroup, {})
        await here.runtime.create_sandbox(spec)
        yield here
        await here.runtime.remove_sandbox("u2")


def _used(here: Place, cgroup: str) -> int:
    return (usage_of(here.cgroups, cgroup) or CgroupUsage()).working_set_bytes


def _kill_keeper(here: Place) -> None:
    os.kill(_keeper(here), signal.SIGKILL)


def _keeper(here: Place) -> int:
    return keeper_of(Layout(here.root).container(here.found("c1").id))


def _sleeping(here: Place) -> list[int]:
    """What sleeps in containers of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                mounts, command = (entry / "mountinfo").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(b"sleep") and str(here.folder) in mounts:
                found.append(int(entry.name))
    return found
