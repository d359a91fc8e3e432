"""Programs of the machine end, whatever they do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import uvloop

from fairlead.agent.network.commands import CommandFailed, run


def test_what_a_program_prints_is_returned_and_what_it_complains_of_is_told() -> None:
    assert uvloop.run(run("cat", stdin=b"x" * 1_000_000)) == b"x" * 1_000_000
    assert uvloop.run(run("true", stdin=b"x" * 1_000_000)) == b"", "it may end before it has read"
    with pytest.raises(CommandFailed, match=r"^sh -c .*: so it is$"):
        uvloop.run(run("sh", "-c", "echo so it is >&2; exit 3"))
    with pytest.raises(CommandFailed, match="exit code 3"):
        uvloop.run(run("sh", "-c", "exit 3"))
    with pytest.raises(CommandFailed, match="nothing-like-it cannot be run: No such file"):
        uvloop.run(run("nothing-like-it"))


def test_one_that_hangs_is_killed() -> None:
    with pytest.raises(CommandFailed, match=r"no end after 0\.1 s"):
        uvloop.run(run("sleep", "1000", timeout_seconds=0.1))


def test_one_that_nobody_waits_for_any_more_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        running = asyncio.create_task(run("sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000"))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110  (a file tells)
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    uvloop.run(main())
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
