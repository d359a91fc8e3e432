"""Real containers, by conmon and crun."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.probes import least_oom_score_adj
from fairlead.agent.cgroups.usage import CgroupUsage, usage_of
from fairlead.agent.kubelet_api.log_files import LogFiles
from fairlead.agent.kubelet_api.log_lines import LineFormatter, Shown
from fairlead.agent.pods.log_rotation import LogPolicy, LogRotation
from fairlead.agent.runtimes.base import CannotStart, ContainerSpec, ContainerStatus, SandboxSpec, State
from fairlead.agent.runtimes.oci.keeper import find_programs
from fairlead.agent.runtimes.oci.runtime import OciRuntime
from fairlead.node.cgroups.containers import ContainerValues
from tests.agent.machine import in_loop, mounts_below, own_cgroup, real_containers, root_file_system, until

pytestmark = real_containers

MIB = 1 << 20


@dataclass
class Place:
    """A runtime with one sandbox."""

    runtime: OciRuntime
    cgroups: Cgroups
    cgroup: str
    folder: Path
    rootfs: Path
    ended: asyncio.Queue[ContainerStatus] = field(default_factory=asyncio.Queue)

    @property
    def pod(self) -> str:
        return f"{self.cgroup}/podu1"

    async def run(self, id_: str, *argv: str, memory: int = 0) -> None:
        values = ContainerValues(
            cpu_shares=2,
            cpu_quota=0,
            cpu_period=100_000,
            memory_limit=memory,
            memory_swap_limit=memory,
            oom_score_adj=-997,
        )
        spec = ContainerSpec(
            id=id_,
            pod_uid="u1",
            name="c",
            attempt=0,
            image="busybox",
            image_id="sha256:1",
            layers=[self.rootfs],
            argv=argv,
            env={"GREETING": "hello"},
            resources=values,
            log=self.log(id_),
            termination_message_path="/dev/termination-log",
        )
        await self.runtime.create(spec)
        await self.runtime.start(id_)

    def log(self, id_: str) -> Path:
        return self.folder / f"{id_}.log"

    def logs(self, id_: str) -> list[str]:
        """The names of its log and of what was rotated."""
        return sorted(path.name for path in self.folder.glob(f"{id_}.log*"))

    def lines(self, id_: str) -> list[str]:
        """What it has said, without when and where to."""
        return [line.split(" ", 3)[3] for line in self.log(id_).read_text().splitlines()]

    async def end(self) -> ContainerStatus:
        return await asyncio.wait_for(self.ended.get(), 10)


async def _opened(folder: Path, cgroups: Cgroups, cgroup: str) -> OciRuntime:
    runtime = OciRuntime(folder / "root", find_programs(), cgroups, f"{cgroup}/conmon", least_oom_score_adj())
    await runtime.adopt()
    return runtime


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    cgroups = Cgroups(hierarchies())
    rootfs = root_file_system(folder / "rootfs")
    with own_cgroup(cgroups) as cgroup:
        runtime = await _opened(folder, cgroups, cgroup)
        found = Place(runtime, cgroups, cgroup, folder, rootfs)
        runtime.subscribe(found.ended.put_nowait)
        cgroups.ensure(found.pod, {})
        await runtime.create_sandbox(
            SandboxSpec(uid="u1", namespace="ns", name="p", hostname="web-0", cgroup=found.pod)
        )
        try:
            yield found
        finally:
            await found.runtime.remove_sandbox("u1")
            found.runtime.close()
            assert mounts_below(folder / "root") == [folder / "root"]
            linux.unmount(folder / "root")


@in_loop
async def test_a_container_says_something_and_ends(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        script = "hostname; echo $GREETING; echo bad >&2; echo -n last words > /dev/termination-log; exit 3"
        await here.run("c1", "sh", "-c", script)
        status = await here.end()
        assert (status.state, status.exit_code, status.is_oom_killed) == (State.EXITED, 3, False)
        assert status.started_at <= status.finished_at
        assert sorted(here.lines("c1")) == ["bad", "hello", "web-0"]
        assert here.runtime.last_words("c1", 4) == b"ords"


@in_loop
async def test_the_kernel_kills_a_container_at_its_limit(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.run("hog", "sh", "-c", "x=a; while true; do x=$x$x; done", memory=16 * MIB)
        status = await here.end()
        assert (status.exit_code, status.is_oom_killed) == (137, True)


@in_loop
async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        with pytest.raises(CannotStart, match="nonsense"):
            await here.run("c1", "nonsense")
        status = here.runtime.status("c1")
        assert status is not None and status.state is State.EXITED and "nonsense" in status.start_error


@in_loop
async def test_commands_in_a_container(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.run("c1", "sleep", "1000")
        done = await here.runtime.run_in("c1", ["sh", "-c", "hostname; exit 4"], 10)
        assert done == (4, b"web-0\n")
        with pytest.raises(TimeoutError):
            await here.runtime.run_in("c1", ["sleep", "1000"], 0.2)


@in_loop
async def test_what_a_container_uses_is_counted_in_the_cgroup_of_its_pod(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        fill = "dd if=/dev/zero of=/dev/shm/x bs=1M count=8 2>/dev/null; sleep 1000"
        await here.run("c1", "sh", "-c", fill)

        def used() -> CgroupUsage:
            return usage_of(here.cgroups, here.pod) or CgroupUsage()

        await until(lambda: used().working_set_bytes >= 8 * MIB)
        assert used().processes >= 1 and used().cpu_nanoseconds > 0


@in_loop
async def test_a_new_agent_finds_what_runs_and_what_ended_meanwhile(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.run("lasting", "sh", "-c", "trap 'exit 5' TERM; while true; do sleep 0.05; done")
        await here.run("short", "sh", "-c", "sleep 0.3; exit 6")
        here.runtime.close()
        await until((tmp_path / "root/containers/short/exits/short").exists)
        here.runtime = await _opened(tmp_path, here.cgroups, here.cgroup)
        here.runtime.subscribe(here.ended.put_nowait)
        found = {status.id: status for status in here.runtime.containers()}
        assert (found["lasting"].state, found["short"].state) == (State.RUNNING, State.EXITED)
        assert found["short"].exit_code == 6
        await here.runtime.signal("lasting", signal.SIGTERM)
        assert (await here.end()).exit_code == 5


_TALKATIVE = """
for round in 1 2 3 4 5 6 7; do
  number=0
  while [ $number -lt 2000 ]; do echo $round.$number; number=$((number+1)); done
  sleep 0.5
done
echo end
sleep 1000
"""


@in_loop
async def test_a_log_is_rotated_under_its_reader_who_misses_nothing(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        await here.run("c1", "sh", "-c", _TALKATIVE)
        policy = LogPolicy(max_bytes=20_000, max_files=4, interval_seconds=3.0, workers=1)
        rotation = LogRotation(here.runtime, policy)
        reader, formatter, said = LogFiles(here.log("c1")), LineFormatter(Shown()), b""
        while not said.endswith(b"end\n"):
            await rotation.look()
            while piece := reader.read():
                said += formatter.format(piece)
            await asyncio.sleep(0.01)
        reader.close()
        expected = [f"{round_}.{number}" for round_ in range(1, 8) for number in range(2000)]
        assert said.decode().split() == [*expected, "end"]
        names = here.logs("c1")
        assert len(names) == policy.max_files and names[0] == "c1.log"
        assert [name.endswith(".gz") for name in names[1:]] == [True, True, False]


@in_loop
async def test_an_agent_that_died_halfway_leaves_nothing(tmp_path: Path) -> None:
    """Remnants without a record: of a container that was being made, and of a sandbox."""
    async with place(tmp_path) as here:
        await here.run("c1", "sleep", "1000")
        status = here.runtime.status("c1")
        assert status is not None
        (tmp_path / "root/containers/c1/container.json").unlink()
        half = tmp_path / "root/sandboxes/u2"
        (half / "shm").mkdir(parents=True)
        linux.mount("shm", half / "shm", "tmpfs")
        here.runtime.close()
        here.runtime = await _opened(tmp_path, here.cgroups, here.cgroup)
        assert here.runtime.containers() == [] and not half.exists()
        with pytest.raises(ProcessLookupError):
            os.kill(status.pid, 0)
