"""Processes whose streams somebody far away reads and writes: over pipes, or in a terminal of their own.

A container's command is one: `crun exec` runs here, and what it is given it gives to the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fairlead.runtime.streaming.duplex import EndingSink, Source
from fairlead.runtime.streaming.remote_command import Size, Wanted

_READ_BYTES: Final = 64 << 10
#: What Ctrl-D is to a terminal: the end of what is typed.
_END_OF_INPUT: Final = b"\x04"


async def begin(
    command: Sequence[str], wanted: Wanted, env: Mapping[str, str] | None = None
) -> PipedProcess | TerminalProcess:
    """Start a program with the streams that are wanted. OSError: it cannot be started."""
    return await (_in_terminal(command, env) if wanted.is_terminal else _over_pipes(command, wanted, env))


async def _over_pipes(command: Sequence[str], wanted: Wanted, env: Mapping[str, str] | None) -> PipedProcess:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=pipe if wanted.stdin else nothing,
        stdout=pipe if wanted.stdout else nothing,
        stderr=pipe if wanted.stderr else nothing,
        env=env,
    )
    return PipedProcess(process)


async def _in_terminal(command: Sequence[str], env: Mapping[str, str] | None) -> TerminalProcess:
    master, slave = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=env
        )
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    return TerminalProcess(process, Terminal(master))


class Input:
    """What a process reads."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.close()


class Output:
    """What a process writes."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes:
        return await self._reader.read(_READ_BYTES)


class PipedProcess:
    """`ProcessStreams` over pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.stdin: EndingSink | None = Input(process.stdin) if process.stdin else None
        self.stdout: Source | None = Output(process.stdout) if process.stdout else None
        self.stderr: Source | None = Output(process.stderr) if process.stderr else None

    async def resize(self, size: Size) -> None:
        """It has no terminal."""

    async def wait(self) -> int:
        return exit_code(await self._process.wait())

    async def close(self) -> None:
        await _kill(self._process)


class TerminalProcess:
    """`ProcessStreams` in a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: Terminal) -> None:
        self._process, self._terminal = process, terminal
        self.stdin: EndingSink | None = terminal
        self.stdout: Source | None = terminal
        self.stderr: Source | None = None

    async def resize(self, size: Size) -> None:
        self._terminal.resize(size)

    async def wait(self) -> int:
        return exit_code(await self._process.wait())

    async def close(self) -> None:
        await _kill(self._process)
        self._terminal.close()


class Terminal:
    """Our side of a pseudo-terminal: it is read as fast as somebody takes what it shows, and no faster."""

    def __init__(self, master: int) -> None:
        os.set_blocking(master, False)
        self._master = master
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        while True:
            try:
                return os.read(self._master, _READ_BYTES)
            except BlockingIOError:
                await until_ready(self._master, self._loop.add_reader, self._loop.remove_reader)
            except OSError as error:
                if error.errno == errno.EIO:  # nobody has the other side any more
                    return b""
                raise

    async def write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                await until_ready(self._master, self._loop.add_writer, self._loop.remove_writer)
            except OSError as error:
                raise BrokenPipeError(str(error)) from error

    async def end(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self.write(_END_OF_INPUT)

    def resize(self, size: Size) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))

    def close(self) -> None:
        os.close(self._master)


async def until_ready(descriptor: int, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
    """Return once it can be read, or written: `add` and `remove` are the loop's, for the one or the other."""
    ready = asyncio.get_running_loop().create_future()
    add(descriptor, _set, ready)
    try:
        await ready
    finally:
        remove(descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def exit_code(returned: int) -> int:
    """As a shell tells it: 128 and the signal, if that ended it."""
    return 128 - returned if returned < 0 else returned


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
