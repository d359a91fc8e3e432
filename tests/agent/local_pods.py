"""`PodStreams` over plain processes of this machine: what the kubelet's API is tested with where there is no runtime.

A container is a process whose output is written to a log in CRI's format, rotated as the kubelet rotates it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import struct
import termios
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import NodeMeasurements, PodMeasurements
from fairlead.runtime.streaming.duplex import EndingSink, Inbox, Source
from fairlead.runtime.streaming.remote_command import Size, Wanted
from tests import measured_nodes


class LogWriter:
    """A log in CRI's format."""

    def __init__(self, path: Path, most_bytes: int = 10 << 20) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._most_bytes = path, most_bytes
        self._file = path.open("ab", buffering=0)
        self._rotations = count(1)

    def write(self, stream: str, text: bytes, tag: str = "F") -> None:
        time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "000Z")
        self._file.write(f"{time} {stream} {tag} ".encode() + text + b"\n")
        if self._file.tell() >= self._most_bytes:
            self.rotate()

    def rotate(self) -> None:
        """As kubelet and runtime do: renamed first, reopened then."""
        self.path.rename(self.path.with_name(f"{self.path.name}.20260101-{next(self._rotations):06}"))
        self._file.close()
        self._file = self.path.open("ab", buffering=0)


class _Input:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.close()


class _Output:
    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def read(self) -> bytes:
        return await self._reader.read(1 << 16)


class PipedProcess:
    """A command of a client, over pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.stdin: EndingSink | None = _Input(process.stdin) if process.stdin else None
        self.stdout: Source | None = _Output(process.stdout) if process.stdout else None
        self.stderr: Source | None = _Output(process.stderr) if process.stderr else None

    async def resize(self, size: Size) -> None:
        pass

    async def wait(self) -> int:
        return _exit_code(await self._process.wait())

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _exit_code(returned: int) -> int:
    return 128 - returned if returned < 0 else returned


class Terminal:
    """The master of a pseudo-terminal, as input and output."""

    def __init__(self, master: int) -> None:
        self._master, self._output = master, Inbox()
        os.set_blocking(master, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(master, self._readable)
        self._reading: set[asyncio.Task[None]] = set()
        self._is_open = True

    def _readable(self) -> None:
        try:
            data = os.read(self._master, 1 << 16)
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody has the other end any more
            data = b""
        if not data:
            self._stop()
            self._output.end()
            return
        task = self._loop.create_task(self._output.put(data))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def read(self) -> bytes:
        return await self._output.read()

    async def write(self, data: bytes) -> None:
        os.write(self._master, data)

    async def end(self) -> None:
        os.write(self._master, b"\x04")

    def resize(self, size: Size) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))

    def _stop(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._master)

    def close(self) -> None:
        self._stop()
        os.close(self._master)


class TerminalProcess:
    """A command of a client, in a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: Terminal) -> None:
        self._process, self._terminal = process, terminal
        self.stdin: EndingSink | None = terminal
        self.stdout: Source | None = terminal
        self.stderr: Source | None = None

    async def resize(self, size: Size) -> None:
        self._terminal.resize(size)

    async def wait(self) -> int:
        return _exit_code(await self._process.wait())

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._terminal.close()


class Container:
    """A process that runs for itself, and whoever is attached to it."""

    def __init__(self, process: asyncio.subprocess.Process, log: LogWriter) -> None:
        self.process, self.log = process, log
        self.attached: set[Attached] = set()
        self.reading = [
            asyncio.create_task(self._read(name, reader))
            for name, reader in (("stdout", process.stdout), ("stderr", process.stderr))
            if reader is not None
        ]

    async def _read(self, stream: str, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            self.log.write(stream, line.removesuffix(b"\n"), "F" if line.endswith(b"\n") else "P")
            for attached in self.attached:
                await attached.output(stream).put(line)
        for attached in self.attached:
            attached.output(stream).end()

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await asyncio.gather(*self.reading)


class Attached:
    """A client at the streams of a container's own process."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._stdout, self._stderr = Inbox(), Inbox()
        self.stdin: EndingSink | None = _Input(container.process.stdin) if container.process.stdin else None
        self.stdout: Source | None = self._stdout
        self.stderr: Source | None = self._stderr
        container.attached.add(self)

    def output(self, stream: str) -> Inbox:
        return self._stdout if stream == "stdout" else self._stderr

    async def resize(self, size: Size) -> None:
        pass

    async def wait(self) -> int:
        return _exit_code(await self._container.process.wait())

    async def close(self) -> None:
        self._container.attached.discard(self)


class LocalPods:
    """Pods whose containers are processes here."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder, self._node = folder, node
        self._pods: dict[tuple[str, str], Obj] = {}
        self.containers: dict[str, Container] = {}
        self.logs: dict[str, LogWriter] = {}
        self._measured: list[PodMeasurements] = []

    def use(self, pod: Obj, *, milli: int, mebibytes: int) -> None:
        """Let its first container be measured as using that."""
        meta, name = pod["metadata"], pod["spec"]["containers"][0]["name"]
        container = measured_nodes.container(name, milli, mebibytes << 20)
        self._measured.append(measured_nodes.pod(meta["name"], meta["uid"], container))

    async def run(self, pod: Obj, *, log_bytes: int = 10 << 20) -> Obj:
        """Start the containers of a pod; its status, as the node knows it."""
        meta = pod["metadata"]
        statuses = []
        for container in pod["spec"]["containers"]:
            container_id = f"local://{meta['uid']}-{container['name']}"
            process = await asyncio.create_subprocess_exec(
                *container.get("command", ["sleep", "infinity"]),
                stdin=asyncio.subprocess.PIPE if container.get("stdin") else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            log = LogWriter(self._folder / meta["uid"] / container["name"] / "0.log", log_bytes)
            self.logs[container_id] = log
            self.containers[container_id] = Container(process, log)
            running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
            statuses.append({"name": container["name"], "containerID": container_id, "state": running, "ready": True})
        conditions = [{"type": type_, "status": "True"} for type_ in ("Ready", "ContainersReady")]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}
        return self.set_status(pod, status)

    def set_status(self, pod: Obj, status: Obj) -> Obj:
        """What the node knows of a pod from now on."""
        found: Obj = json.loads(json.dumps(pod)) | {"status": status}
        self._pods[found["metadata"]["namespace"], found["metadata"]["name"]] = found
        return found

    async def stop(self) -> None:
        for container in self.containers.values():
            await container.stop()

    # -- PodStreams

    def pods(self) -> Iterable[Encoded]:
        return [encoded(pod) for pod in self._pods.values()]

    def pod(self, namespace: str, name: str) -> Encoded | None:
        found = self._pods.get((namespace, name))
        return None if found is None else encoded(found)

    def log_path(self, container_id: str) -> Path | None:
        log = self.logs.get(container_id)
        return None if log is None else log.path

    def is_running(self, container_id: str) -> bool:
        container = self.containers.get(container_id)
        return container is not None and not all(task.done() for task in container.reading)

    async def exec(self, container_id: str, command: Sequence[str], wanted: Wanted) -> PipedProcess | TerminalProcess:
        try:
            return await (_in_terminal(command) if wanted.is_terminal else _over_pipes(command, wanted))
        except OSError as error:
            raise OSError(f"exec: {command[0]}: {error.strerror}") from error

    async def attach(self, container_id: str, wanted: Wanted) -> Attached:
        return Attached(self.containers[container_id])

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    async def measure(self) -> NodeMeasurements | None:
        return measured_nodes.node(self._node, *self._measured)

    def configuration(self) -> Obj:
        return {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}


async def _in_terminal(command: Sequence[str]) -> TerminalProcess:
    master, slave = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
    finally:
        os.close(slave)
    return TerminalProcess(process, Terminal(master))


async def _over_pipes(command: Sequence[str], wanted: Wanted) -> PipedProcess:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=pipe if wanted.stdin else nothing,
        stdout=pipe if wanted.stdout else nothing,
        stderr=pipe if wanted.stderr else nothing,
    )
    return PipedProcess(process)
