"""crun and runc take the same commands; these are the ones that are used of a container that is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.runtimes.base import CannotStart, Executed, RuntimeFailure

#: How much of a command's output is kept.
MOST_OUTPUT: Final = 1 << 20
#: crun leaves a command the oom_score_adj of who starts it, and that is the node agent's.
_SCORE: Final = "read score < /proc/$1/oom_score_adj && echo $score > /proc/self/oom_score_adj"
_AS_KILLABLE_AS: Final = ("sh", "-c", f'{{ {_SCORE}; }} 2> /dev/null; shift; exec "$@"', "sh")
#: A kubelet's exec probe without a timeout of its own still ends.
_COMMAND_SECONDS: Final = 60.0


class Commands(msgspec.Struct, frozen=True):
    program: str
    state: Path

    async def version(self) -> str:
        code, output = await self._output(self.program, "--version")
        words = output.split()
        if code != 0 or len(words) < 3:
            raise RuntimeFailure(f"{self.program} does not tell its version: {output.strip()}")
        return words[2]

    async def run(self, *arguments: str) -> None:
        """CannotStart with what it said if it fails."""
        code, output = await self._output(self.program, f"--root={self.state}", *arguments)
        if code != 0:
            raise CannotStart(output.strip() or f"{self.program} {arguments[0]} failed with {code}")

    async def state_of(self, id_: str) -> str:
        """`created`, `running` or `stopped`; empty if it knows of none."""
        code, output = await self._output(self.program, f"--root={self.state}", "state", id_)
        return str(json.loads(output)["status"]) if code == 0 else ""

    async def delete(self, id_: str) -> None:
        """Whatever state it is in; that there is none is well."""
        await self._output(self.program, f"--root={self.state}", "delete", "--force", id_)

    def exec_command(self, id_: str, first: int, argv: Sequence[str], *, has_terminal: bool = False) -> list[str]:
        """`first` is the pid of the container's first process."""
        terminal = ["--tty"] if has_terminal else []
        return [*_AS_KILLABLE_AS, str(first), self.program, f"--root={self.state}", "exec", *terminal, id_, *argv]

    async def _output(self, *command: str) -> tuple[int, str]:
        """RuntimeFailure: the program is not there, as while another version of it is installed."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            raise RuntimeFailure(f"{self.program} cannot be run: {error.strerror or error}") from None
        async with asyncio.timeout(_COMMAND_SECONDS):
            output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(errors="replace")


async def run_in(command: Sequence[str], seconds: float) -> Executed:
    """Run what runs a command in a container, to its end; TimeoutError if it takes longer."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            output = await process.stdout.read(MOST_OUTPUT)
            while rest := await process.stdout.read(MOST_OUTPUT):
                output = (output + rest)[:MOST_OUTPUT]
            return Executed(await process.wait(), output)
    finally:
        if process.returncode is None:
            process.kill()
