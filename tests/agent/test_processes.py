"""Processes with streams, in pipes and in terminals; and those that conmon keeps."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead.agent import conmon_streams, processes
from fairlead.agent.kubelet_api.pod_streams import ProcessStreams
from fairlead.runtime.loops import run
from fairlead.runtime.streaming.duplex import Source
from fairlead.runtime.streaming.remote_command import Size, Wanted

PIPES = Wanted(stdin=True, stdout=True, stderr=True, is_terminal=False)
TERMINAL = Wanted(stdin=True, stdout=True, stderr=False, is_terminal=True)


async def whole(source: Source | None) -> bytes:
    assert source is not None
    found = b""
    async with asyncio.timeout(30):
        while data := await source.read():
            found += data
    return found


async def until(source: Source | None, text: bytes) -> bytes:
    assert source is not None
    found = b""
    async with asyncio.timeout(30):
        while text not in found:
            data = await source.read()
            assert data, found
            found += data
    return found


def test_pipes() -> None:
    async def main() -> None:
        process = await processes.begin(["sh", "-c", "cat; echo err >&2; exit 3"], PIPES)
        assert process.stdin is not None
        await process.stdin.write(b"in")
        await process.stdin.end()
        assert (await whole(process.stdout), await whole(process.stderr)) == (b"in", b"err\n")
        assert await process.wait() == 3
        await process.close()

    run(main())


def test_a_terminal() -> None:
    async def main() -> None:
        process = await processes.begin(["sh", "-c", "read x; stty size; read y; kill -9 $$"], TERMINAL)
        assert process.stdin is not None
        await process.resize(Size(120, 50))
        await process.stdin.write(b"x\n")
        assert b"50 120\r\n" in await until(process.stdout, b"50 120\r\n")
        await process.stdin.end()  # as Ctrl-D
        await whole(process.stdout)
        assert await process.wait() == 137
        await process.close()

    run(main())


def test_much_through_a_terminal_that_is_read_slowly() -> None:
    async def main() -> None:
        process = await processes.begin(["sh", "-c", "seq 100000; echo end"], TERMINAL)
        shown = await until(process.stdout, b"end\r\n")
        assert shown == b"".join(b"%d\r\n" % number for number in range(1, 100_001)) + b"end\r\n"
        await process.close()

    run(main())


def test_who_closes_ends_what_was_only_for_them() -> None:
    async def main() -> None:
        for wanted in (PIPES, TERMINAL):
            process = await processes.begin(["sleep", "600"], wanted)
            await process.close()
            assert await process.wait() == 137

    run(main())


#: Stands in for crun: it starts a program with the streams that conmon gives it, and tells its process id.
RUNTIME = """#!{python}
import os, subprocess, sys
if "create" in sys.argv:
    pid = subprocess.Popen(["sh", "-c", {script!r}]).pid
    with open(sys.argv[sys.argv.index("--pid-file") + 1], "w") as file:
        file.write(str(pid))
"""


async def there(path: Path) -> str:
    """What is in a file, once it is there."""
    while True:
        if (found := _content(path)) is not None:
            return found
        await asyncio.sleep(0.02)


def _content(path: Path) -> str | None:
    if path.is_socket():
        return ""
    return (path.read_text() or None) if path.is_file() else None


@asynccontextmanager
async def kept(folder: Path, script: str) -> AsyncIterator[Path]:
    """A process that conmon keeps as it would a container's; its bundle."""
    conmon = shutil.which("conmon")
    if conmon is None:
        pytest.skip("no conmon here: apt install conmon")
    bundle = folder / ("bundle-" + "x" * 100)  # longer than the address of a socket may be
    bundle.mkdir()
    runtime = folder / "runtime"
    runtime.write_text(RUNTIME.format(python=sys.executable, script=script))
    runtime.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        *(conmon, "--api-version", "1", "--cid", "c", "--cuuid", "c", "--name", "c", "--runtime", str(runtime)),
        *("--bundle", str(bundle), "--container-pidfile", str(folder / "pid"), "--exit-dir", str(folder)),
        *("--log-path", f"k8s-file:{folder / '0.log'}", "--full-attach", "--stdin", "--leave-stdin-open", "--sync"),
    )
    async with asyncio.timeout(30):
        await there(bundle / "attach")
    try:
        yield bundle
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def test_attaching_to_what_conmon_keeps(tmp_path: Path) -> None:
    async def main() -> None:
        async with kept(tmp_path, "read x; echo got $x; echo err >&2; read y; exit 0") as bundle:

            async def wait() -> int:
                return int(await there(tmp_path / "c"))  # conmon's note of how it ended

            first: ProcessStreams = await conmon_streams.attach(bundle, PIPES, wait)
            second = await conmon_streams.attach(bundle, PIPES, wait)
            assert first.stdin is not None and second.stdin is not None
            await first.stdin.write(b"something\n")
            for attached in (first, second):
                assert await until(attached.stdout, b"got something\n") == b"got something\n"
                assert await until(attached.stderr, b"err\n") == b"err\n"
            await first.close()
            await second.stdin.write(b"go\n")
            async with asyncio.timeout(30):
                assert await second.wait() == 0
            assert await whole(second.stdout) == b""
            await second.close()
            log = (tmp_path / "0.log").read_text()
            assert " stdout F got something\n" in log

    run(main())
