"""`PodStreams` over plain processes of this machine: what the kubelet's API is tested with where there is no runtime.

A container is a process whose output is written to a log in CRI's format, rotated as the kubelet rotates it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from fairlead.agent import processes
from fairlead.agent.kubelet_api.pod_streams import ProcessStreams
from fairlead.agent.processes import Input, exit_code
from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import NodeMeasurements, PodMeasurements
from fairlead.runtime.metrics import Family
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
        self.stdin: EndingSink | None = Input(container.process.stdin) if container.process.stdin else None
        self.stdout: Source | None = self._stdout
        self.stderr: Source | None = self._stderr
        container.attached.add(self)

    def output(self, stream: str) -> Inbox:
        return self._stdout if stream == "stdout" else self._stderr

    async def resize(self, size: Size) -> None:
        pass

    async def wait(self) -> int:
        return exit_code(await self._container.process.wait())

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

    async def exec(self, container_id: str, command: Sequence[str], wanted: Wanted) -> ProcessStreams:
        try:
            return await processes.begin(command, wanted)
        except OSError as error:
            raise OSError(f"exec: {command[0]}: {error.strerror}") from error

    async def attach(self, container_id: str, wanted: Wanted) -> Attached:
        return Attached(self.containers[container_id])

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    async def measure(self) -> NodeMeasurements | None:
        return measured_nodes.node(self._node, *self._measured)

    def evictions(self) -> Mapping[str, int]:
        return {"memory.available": 2}

    def metrics(self) -> Iterable[Family]:
        return ()

    def probe_metrics(self) -> Iterable[Family]:
        return ()

    def configuration(self) -> Obj:
        return {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
