"""Programs of the machine (nft, ip, CNI plugins) are run with an end: nobody waits for ever for one that hangs.

They inherit the network namespace of the thread that runs the loop, as everything else of this package does.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final

TIMEOUT_SECONDS: Final = 60.0
#: How much of what a program complains about is shown.
_LONGEST_COMPLAINT: Final = 2000


class CommandFailed(Exception):
    """A program could not be run, ended badly, or did not end."""

    def __init__(self, message: str, output: bytes = b"") -> None:
        super().__init__(message)
        self.output = output


async def run(
    *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout_seconds: float = TIMEOUT_SECONDS
) -> bytes:
    """What the program printed; CommandFailed unless it ended with 0."""
    process = await _started(argv, stdin, env)
    try:
        async with asyncio.timeout(timeout_seconds):  # wait_for may forget that it was cancelled, before Python 3.12
            output, complaint = await process.communicate()
    except TimeoutError:
        raise CommandFailed(f"{' '.join(argv)}: no end after {timeout_seconds:g} s") from None
    finally:
        if process.returncode is None:  # too long, or nobody waits for it any more
            await _killed(process)
    if process.returncode != 0:
        text = complaint.decode(errors="replace").strip()[:_LONGEST_COMPLAINT]
        raise CommandFailed(f"{' '.join(argv)}: {text or f'exit code {process.returncode}'}", output)
    return output


async def _started(argv: Sequence[str], stdin: bytes, env: Mapping[str, str] | None) -> asyncio.subprocess.Process:
    """Whoever is cancelled meanwhile leaves no program behind that nobody knows."""
    pipe = asyncio.subprocess.PIPE
    with _readable(stdin) as given:
        start = asyncio.create_subprocess_exec(*argv, stdin=given, stdout=pipe, stderr=pipe, env=env)
        starting = asyncio.ensure_future(start)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(OSError):
                await _killed(await starting)
            raise
        except OSError as error:
            raise CommandFailed(f"{argv[0]} cannot be run: {error.strerror}") from error


async def _killed(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _readable(content: bytes) -> BinaryIO:
    """A file in memory: a program that ends before it has read all breaks a pipe, which uvloop does not take well."""
    file = os.fdopen(os.memfd_create("stdin"), "w+b")
    file.write(content)
    file.seek(0)
    return file


async def run_json(*argv: str) -> Any:
    """What the program printed, which is JSON; `ip -j` prints nothing where there is nothing."""
    return json.loads(await run(*argv) or b"[]")
