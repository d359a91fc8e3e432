"""Real containers: what every runtime is held to."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fairlead.agent.cgroups.usage import CgroupUsage, usage_of
from fairlead.agent.kubelet_api.log_files import LogFiles
from fairlead.agent.kubelet_api.log_lines import LineFormatter, Shown
from fairlead.agent.kubelet_api.pod_streams import NotRun, ProcessStreams
from fairlead.agent.pods.log_rotation import LogRotation
from fairlead.agent.runtimes.base import CannotStart, State
from fairlead.node.log_rotation import LogPolicy
from fairlead.runtime.streaming.duplex import Source
from fairlead.runtime.streaming.remote_command import Size, Wanted
from tests.agent.machine import in_loop, until
from tests.agent.runtime_place import CONTAINERD, Place, on_each, place

pytestmark = on_each

MIB = 1 << 20


@in_loop
async def test_a_container_says_something_and_ends(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        script = "hostname; echo $GREETING; echo bad >&2; echo -n last words > /dev/termination-log; exit 3"
        id_ = await here.run("c1", "sh", "-c", script)
        status = await here.end()
        assert (status.id, status.state, status.exit_code, status.is_oom_killed) == (id_, State.EXITED, 3, False)
        assert 0 < status.created_at <= status.started_at <= status.finished_at
        assert sorted(here.lines("c1")) == ["bad", "hello", "web-0"]
        assert here.runtime.last_words(id_, 4) == b"ords"


@in_loop
async def test_the_kernel_kills_a_container_at_its_limit(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        await here.run("hog", "sh", "-c", "x=a; while true; do x=$x$x; done", memory=16 * MIB)
        status = await here.end()
        assert (status.exit_code, status.is_oom_killed) == (137, True)


@in_loop
async def test_a_program_that_is_not_there(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        with pytest.raises(CannotStart, match="nonsense"):
            await here.run("c1", "nonsense")
        status = here.found("c1")
        assert status.state is State.EXITED and "nonsense" in status.start_error


@in_loop
async def test_commands_in_a_container(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        id_ = await here.run("c1", "sleep", "1000")
        done = await here.runtime.run_in(id_, ["sh", "-c", "hostname; exit 4"], 10)
        assert done == (4, b"web-0\n")
        with pytest.raises(TimeoutError):
            await here.runtime.run_in(id_, ["sleep", "1000"], 0.2)


@in_loop
async def test_a_command_reads_and_writes_and_hears_the_end_of_its_input(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        id_ = await here.run("c1", "sleep", "1000")
        wanted = Wanted(stdin=True, stdout=True, stderr=True, is_terminal=False)
        process = await here.runtime.exec(id_, ["sh", "-c", "cat; echo bad >&2; exit 7"], wanted)
        assert process.stdin is not None
        text = b"word\n" * 100_000
        feeding = asyncio.create_task(_feed(process, text))
        said, bad = await asyncio.gather(_all(process.stdout), _all(process.stderr))
        await feeding
        assert (said, bad, await process.wait()) == (text, b"bad\n", 7)
        await process.close()


@in_loop
async def test_a_command_in_a_terminal_knows_its_size(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        id_ = await here.run("c1", "sleep", "1000")
        wanted = Wanted(stdin=True, stdout=True, stderr=False, is_terminal=True)
        process = await here.runtime.exec(id_, ["sh", "-c", "while true; do stty size; sleep 0.05; done"], wanted)
        await process.resize(Size(width=123, height=45))
        said = b""
        assert process.stdout is not None
        while b"45 123" not in said:
            said += await process.stdout.read()
        await process.close()


@in_loop
async def test_a_command_that_is_not_there(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        id_ = await here.run("c1", "sleep", "1000")
        process = await here.runtime.exec(id_, ["nonsense"], Wanted(False, True, True, False))
        said = await asyncio.gather(_all(process.stdout), _all(process.stderr))
        if kind != CONTAINERD:
            assert b"nonsense" in b"".join(said) and await process.wait() != 0
        else:
            with pytest.raises(NotRun, match="nonsense"):
                await process.wait()
        await process.close()


@in_loop
async def test_whoever_attaches_reads_and_writes_with_the_process(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        script = "while read line; do echo said $line; [ $line = end ] && exit 0; done"
        id_ = await here.run("c1", "sh", "-c", script, has_stdin=True)
        for word in ("one", "end"):
            process = await here.runtime.attach(id_, Wanted(True, True, True, False))
            assert process.stdin is not None and process.stdout is not None
            await process.stdin.write(f"{word}\n".encode())
            said = b""
            while not said.endswith(b"\n"):
                said += await process.stdout.read()
            assert said == f"said {word}\n".encode()
            if word == "end":
                assert await process.wait() == 0
            await process.close()
        assert (await here.end()).exit_code == 0


@in_loop
async def test_stdin_that_is_given_once_ends_with_the_first_who_attaches(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        await here.run("c1", "cat", has_stdin=True, has_stdin_once=True)
        process = await here.runtime.attach(here.found("c1").id, Wanted(True, True, True, False))
        assert process.stdin is not None
        await process.stdin.write(b"once\n")
        await process.stdin.end()
        assert (await here.end()).exit_code == 0
        assert here.lines("c1") == ["once"]
        await process.close()


@in_loop
async def test_what_a_container_uses_is_counted_in_the_cgroup_of_its_pod(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        fill = "echo x > /written; head -c 12582912 /dev/zero | tail -c 10485760 | sleep 1000"
        id_ = await here.run("c1", "sh", "-c", fill)

        def used(cgroup: str) -> CgroupUsage:
            return usage_of(here.cgroups, cgroup) or CgroupUsage()

        await until(lambda: used(f"{here.pod}/{id_}").working_set_bytes >= 8 * MIB)
        assert used(here.pod).processes >= 1 and used(here.pod).cpu_nanoseconds > 0
        await until(lambda: (here.runtime.writable_layer(id_) / "written").exists())


@in_loop
async def test_a_new_agent_finds_what_runs_and_what_ended_meanwhile(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        lasting = await here.run("lasting", "sh", "-c", "trap 'exit 5' TERM; while true; do sleep 0.05; done")
        await here.run("short", "sh", "-c", "sleep 0.5; exit 6")
        short = here.found("short")
        here.close()
        await until(lambda: not Path(f"/proc/{short.pid}").exists())
        await here.open()
        for _ in range(500):  # the runtime hears of it after the kernel
            if here.found("short").state is State.EXITED:
                break
            here.close()
            await here.open()
        assert (here.found("lasting").state, here.found("short").exit_code) == (State.RUNNING, 6)
        await here.runtime.signal(lasting, signal.SIGTERM)
        assert (await here.end()).exit_code == 5


@in_loop
async def test_a_killed_container_was_not_out_of_memory(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
        id_ = await here.run("deaf", "sh", "-c", "trap '' TERM; while true; do sleep 0.05; done")
        await here.runtime.signal(id_, signal.SIGKILL)
        status = await here.end()
        assert (status.exit_code, status.is_oom_killed) == (137, False)
        await here.runtime.remove(id_)
        await here.runtime.remove(id_)
        assert here.runtime.containers() == []


async def _feed(process: ProcessStreams, text: bytes) -> None:
    assert process.stdin is not None
    await process.stdin.write(text)
    await process.stdin.end()


async def _all(source: Source | None) -> bytes:
    assert source is not None
    said = b""
    while piece := await source.read():
        said += piece
    return said


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
async def test_a_log_is_rotated_under_its_reader_who_misses_nothing(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path, kind) as here:
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


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has one CPU")
@in_loop
async def test_a_container_runs_on_the_cpus_that_it_is_given(tmp_path: Path, kind: str) -> None:
    """With what it has started, and with commands that are sent in; also after it was moved."""
    first, second = (str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2])
    async with place(tmp_path, kind) as here:
        id_ = await here.run("c", "sh", "-c", "sleep 1000 & wait", cpus=first)
        assert await _cpus_within(here, id_) == {first}
        await here.runtime.run_on(id_, second)
        assert await _cpus_within(here, id_) == {second}


async def _cpus_within(here: Place, id_: str) -> set[str]:
    """Where all that is in the container may run."""
    text = "grep -h Cpus_allowed_list /proc/1/status /proc/self/status"
    done = await here.runtime.run_in(id_, ["sh", "-c", text], 10)
    inside = {line.split()[1] for line in done.output.decode().splitlines()}
    status = here.runtime.status(id_)
    assert status is not None
    pids = here.cgroups.processes(f"{here.pod}/{status.cgroup_name}")
    return inside | {str(*os.sched_getaffinity(pid)) for pid in pids}
