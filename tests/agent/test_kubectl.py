"""Real kubectl reaches into containers of a real node: over SPDY as 1.30 does, over WebSocket as later ones do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fairlead.runtime.loops import run
from fairlead.runtime.streaming import duplex
from tests.agent.real_node import RealNode, real_node
from tests.kubectl import kubectl

SLEEPING = {"name": "main", "command": ["sleep", "infinity"]}
both = pytest.mark.parametrize("minor", ["1.30", "1.36"])
Story = Callable[[RealNode, Path], Awaitable[None]]


def on_real_node(folder: Path, minor: str, story: Story) -> None:
    async def main() -> None:
        async with real_node(folder) as node:
            await story(node, kubectl(minor))

    run(main())


@both
def test_exec_tells_output_errors_and_exit_code(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)
        done = await node.run(client, "exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 3", check=False)
        assert (done.code, done.out) == (3, "out\n")
        assert done.err == "err\ncommand terminated with exit code 3\n"
        done = await node.run(client, "exec", "p", "--", "printf", "%s|", "a b", "&=?", "käse €")
        assert (done.out, done.err) == ("a b|&=?|käse €|", "")

    on_real_node(tmp_path, minor, story)


@both
def test_the_end_of_input_ends_the_command(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)
        done = await node.run(client, "exec", "-i", "p", "--", "cat", stdin=b"x\n")
        assert done.out == "x\n"
        large = b"0123456789abcde\n" * (1 << 17)  # 2 MiB, both ways at once
        done = await node.run(client, "exec", "-i", "p", "--", "cat", stdin=large)
        assert done.out.encode() == large
        done = await node.run(client, "exec", "-i", "p", "--", "true", stdin=large)  # which nobody reads
        assert done.out == ""

    on_real_node(tmp_path, minor, story)


@both
def test_a_command_that_does_not_exist_and_containers_that_do_not(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        pod = await node.start("p", SLEEPING, {"name": "other"})
        done = await node.run(client, "exec", "p", "-c", "main", "--", "no-such-program", check=False)
        assert done.code == 1
        assert "Internal error occurred: error executing command in container: " in done.err
        assert "no-such-program" in done.err
        done = await node.run(client, "exec", "p", "-c", "nope", "--", "true", check=False)
        assert "container nope is not valid for pod p" in done.err or 'container "nope"' in done.err
        node.pods.set_status(pod, {"containerStatuses": []})
        done = await node.run(client, "exec", "p", "-c", "main", "--", "true", check=False)
        assert done.code == 1
        assert 'container not found ("main")' in done.err

    on_real_node(tmp_path, minor, story)


@both
def test_a_terminal_has_the_size_of_the_clients_and_follows_it(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)
        until = 'until [ "$(stty size)" = "{}" ]; do sleep 0.05; done; echo at {}'
        remote = f"{until.format('40 100', 'first')}; {until.format('50 120', 'last')}; read x; echo $x; exit 4"
        # `script` gives kubectl a terminal, whose size is set from inside of it
        flag = tmp_path / "larger"
        larger = f"(until [ -e {flag} ]; do sleep 0.05; done; stty rows 50 cols 120 < /dev/tty) &"
        inside = f"stty rows 40 cols 100; {larger} {client} exec -it p -- sh -c '{remote}'; echo code $?"
        process = await node.begin("script", "-qec", inside, "/dev/null")
        assert process.stdin is not None and process.stdout is not None
        async with asyncio.timeout(60):
            await process.stdout.readuntil(b"at first")
            flag.touch()
            await process.stdout.readuntil(b"at last")
            process.stdin.write(b"typed\n")
            await process.stdout.readuntil(b"typed\r\ntyped\r\n")  # as the terminal echoes it, and the command
            await process.stdout.readuntil(b"code 4")

    on_real_node(tmp_path, minor, story)


@both
def test_files_are_copied_there_and_back(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)
        source, there, back = (tmp_path / name for name in ("source", "there", "back"))
        source.write_bytes(bytes(range(256)) * 8192)
        await node.run(client, "cp", source, f"default/p:{there}")
        assert there.read_bytes() == source.read_bytes()
        await node.run(client, "cp", f"default/p:{there}", back)
        assert back.read_bytes() == source.read_bytes()

    on_real_node(tmp_path, minor, story)


@both
def test_attaching_shows_what_is_written_from_then_on(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", {"name": "main", "command": ["cat"], "stdin": True})
        done = await node.run(client, "attach", "-i", "p", stdin=b"one\ntwo\n")
        assert done.out == "one\ntwo\n"
        log = await node.run(client, "logs", "p")
        assert log.out == "one\ntwo\n"

    on_real_node(tmp_path, minor, story)


@both
def test_who_leaves_ends_the_command(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)
        script = "echo $$; while true; do sleep 0.1; echo on; done"
        process = await node.begin(client, "exec", "p", "--", "sh", "-c", script)
        assert process.stdout is not None
        pid = int(await process.stdout.readline())
        process.kill()
        async with asyncio.timeout(30):
            await _ended(pid)

    on_real_node(tmp_path, minor, story)


@pytest.mark.slow
@both
def test_who_leaves_is_missed_even_where_nobody_reads_what_was_sent(
    tmp_path: Path, minor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)
        script = "echo $$; exec sleep 600"
        process = await node.begin(client, "exec", "-i", "p", "--", "sh", "-c", script)
        assert process.stdin is not None and process.stdout is not None
        pid = int(await process.stdout.readline())
        process.stdin.write(bytes(64 << 20))  # more than all buffers on the way
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await process.stdin.drain()
                raise AssertionError("somebody takes it")
        process.kill()
        async with asyncio.timeout(30):
            await _ended(pid)

    monkeypatch.setattr(duplex, "PING_SECONDS", 0.1)
    on_real_node(tmp_path, minor, story)


@both
def test_who_does_not_read_makes_the_command_wait(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)
        counted = tmp_path / "counted"
        counting = "f.seek(0); f.write(str(n)); f.flush()"
        script = f"f = open('{counted}', 'w')\nfor n in range(10**9):\n print('x' * 1023); {counting}"
        process = await node.begin(client, "exec", "p", "--", sys.executable, "-c", script)
        assert process.stdout is not None
        process.stdout._transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(30):
            before = -1
            while (now := _number(counted)) != before or now < 0:
                before = now
                await asyncio.sleep(1)
        assert now < 32 << 10  # KiB: what the machine keeps of three connections

    on_real_node(tmp_path, minor, story)


@both
def test_ports_are_forwarded_both_ways_and_many_at_once(tmp_path: Path, minor: str) -> None:
    async def story(node: RealNode, client: Path) -> None:
        await node.start("p", SLEEPING)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Everything back, once the other end has said all of it."""
            writer.write(b"got " + await reader.read())
            writer.close()

        backend = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        forwarding = await node.begin(client, "port-forward", "p", f":{port}", ":1")
        assert forwarding.stdout is not None
        local = await _local_ports(forwarding.stdout, 2)

        async def ask(number: int) -> None:
            said = f"{number} ".encode() * 50_000
            reader, writer = await asyncio.open_connection("127.0.0.1", local[port])
            writer.write(said)
            writer.write_eof()
            assert await reader.read() == b"got " + said
            writer.close()

        async with asyncio.timeout(60):
            await asyncio.gather(*(ask(number) for number in range(20)))
            reader, writer = await asyncio.open_connection("127.0.0.1", local[1])
            assert await reader.read() == b""  # nothing listens there
            writer.close()
        assert forwarding.stderr is not None
        async with asyncio.timeout(30):
            said = await forwarding.stderr.readline()
        assert b"error forwarding port 1 to pod p, uid" in said
        backend.close()

    on_real_node(tmp_path, minor, story)


def _number(path: Path) -> int:
    text = path.read_text() if path.exists() else ""
    return int(text or -1)


async def _ended(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.05)


async def _local_ports(output: asyncio.StreamReader, wanted: int) -> dict[int, int]:
    """`Forwarding from 127.0.0.1:40001 -> 80`, for IPv4 and IPv6."""
    found: dict[int, int] = {}
    async with asyncio.timeout(30):
        while len(found) < wanted:
            line = (await output.readline()).decode()
            assert line
            local, _, remote = line.removeprefix("Forwarding from ").partition(" -> ")
            found[int(remote)] = int(local.rpartition(":")[2])
    return found
