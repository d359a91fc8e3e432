"""A runtime that speaks CRI over a real socket and runs nothing: it has what a test says, and tells it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream

from fairlead.agent.grpc.client import Codec
from fairlead.agent.grpc.methods import Method, Nothing
from fairlead.agent.grpc.protobuf import decode
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri.specs import CGROUP, RUN


class _Decoding(Codec):
    def decode(self, data: bytes, message_type: Any) -> Any:
        return decode(data, message_type)


@dataclass
class TinyRuntime:
    version: str = "1.0"
    tells_events: bool = True
    features: cri.RuntimeFeatures = field(default_factory=cri.RuntimeFeatures)
    handlers: list[cri.RuntimeHandler] = field(default_factory=list)
    #: None: it does not answer what it has, as before containerd 2.
    cgroup_driver: int | None = cri.CGROUPFS
    #: What a pull ends with.
    pull_error: GRPCError | None = None
    #: By id: the state of a container of pod `u1`.
    containers: dict[str, int] = field(default_factory=dict)
    #: Of each container, as `ContainerStatus` tells it.
    pid: int = 0
    annotations: dict[str, str] = field(default_factory=dict)
    cgroups_path: str = ""
    #: That of pod `u1`, which has sandbox `s` then.
    pod_cgroup: str = ""
    #: Whose it has.
    network: int = cri.POD
    #: The container that it tells of, whichever it is asked for.
    told_id: str = ""
    #: Bytes in the place of an answer, with what gRPC puts before a message; then the stream ends.
    raw_version: bytes | None = None
    raw_events: bytes | None = None
    #: How often each call was made.
    calls: Counter[str] = field(default_factory=Counter)
    _listeners: list[asyncio.Queue[cri.ContainerEvent]] = field(default_factory=list)

    def end(self, id_: str) -> None:
        self.containers[id_] = cri.EXITED

    def tell(self, id_: str, type_: int = cri.STOPPED_EVENT) -> None:
        for listener in self._listeners:
            listener.put_nowait(cri.ContainerEvent(container_id=id_, type=type_))

    async def listened_to(self) -> None:
        while not self._listeners:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def __mapping__(self) -> dict[str, Handler]:
        return {
            **self._unary(cri.VERSION, lambda _: self._version()),
            **self._unary(cri.STATUS, lambda _: self._status()),
            **self._unary(cri.RUNTIME_CONFIG, lambda _: self._configuration()),
            **self._unary(cri.PULL, lambda _: self._pull()),
            **self._unary(cri.LIST_SANDBOXES, lambda _: self._sandboxes()),
            **self._unary(cri.SANDBOX_STATUS, lambda _: self._sandbox()),
            **self._unary(cri.STOP_SANDBOX, lambda _: self._stop_sandbox()),
            **self._unary(cri.REMOVE_SANDBOX, lambda _: Nothing()),
            **self._unary(cri.STOP, self._stop),
            **self._unary(cri.LIST, lambda _: self._list()),
            **self._unary(cri.CONTAINER_STATUS, self._container),
            **self._unary(cri.LIST_IMAGES, lambda _: cri.ListImagesResponse()),
            **self._unary(cri.IMAGE_FS, lambda _: cri.ImageFsInfoResponse()),
            cri.CONTAINER_EVENTS.path: Handler(self._events, Cardinality.UNARY_STREAM, Nothing, cri.ContainerEvent),
        }

    def _unary(self, method: Method[Any, Any], answer: Any) -> dict[str, Handler]:
        async def handle(stream: Stream[Any, Any]) -> None:
            self.calls[method.path.rpartition("/")[2]] += 1
            asked = await stream.recv_message()
            if method is cri.VERSION and self.raw_version is not None:
                await _send_raw(stream, self.raw_version)
            else:
                await stream.send_message(answer(asked))

        return {method.path: Handler(handle, Cardinality.UNARY_UNARY, method.asked, method.answer)}

    async def _events(self, stream: Stream[Nothing, cri.ContainerEvent]) -> None:
        await stream.recv_message()
        self.calls["GetContainerEvents"] += 1
        if self.raw_events is not None:
            await _send_raw(stream, self.raw_events)
            return
        if not self.tells_events:
            raise GRPCError(Status.UNIMPLEMENTED, "unknown method GetContainerEvents")
        queue: asyncio.Queue[cri.ContainerEvent] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            while True:
                await stream.send_message(await queue.get())
        finally:
            self._listeners.remove(queue)

    def _version(self) -> cri.VersionResponse:
        return cri.VersionResponse(runtime_name="tiny", runtime_version=self.version)

    def _status(self) -> cri.StatusResponse:
        return cri.StatusResponse(runtime_handlers=self.handlers, features=self.features)

    def _configuration(self) -> cri.RuntimeConfigResponse:
        if self.cgroup_driver is None:
            raise GRPCError(Status.UNIMPLEMENTED, "unknown method RuntimeConfig")
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=self.cgroup_driver))

    def _pull(self) -> cri.PullImageResponse:
        if self.pull_error is not None:
            raise self.pull_error
        return cri.PullImageResponse(image_ref="sha256:1")

    def _sandboxes(self) -> cri.ListPodSandboxResponse:
        if not self.pod_cgroup:
            return cri.ListPodSandboxResponse()
        meta = cri.PodSandboxMetadata(name="p", uid="u1", namespace="ns")
        return cri.ListPodSandboxResponse(
            items=[cri.PodSandbox(id="s", metadata=meta, annotations={CGROUP: self.pod_cgroup})]
        )

    def _sandbox(self) -> cri.PodSandboxStatusResponse:
        options = cri.NamespaceOption(network=self.network)
        linux = cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=options))
        own = {"runtimeSpec": {"linux": {"namespaces": [{"type": "network", "path": "/proc/1/ns/net"}]}}}
        return cri.PodSandboxStatusResponse(cri.PodSandboxStatus(linux=linux), {"info": json.dumps(own)})

    def _stop(self, asked: cri.StopContainerRequest) -> Nothing:
        self.end(asked.container_id)
        return Nothing()

    def _stop_sandbox(self) -> Nothing:
        if cri.RUNNING in self.containers.values():
            raise GRPCError(Status.DEADLINE_EXCEEDED, "waiting for what runs")
        return Nothing()

    def _list(self) -> cri.ListContainersResponse:
        every = [cri.Container(id=id_, state=state) for id_, state in self.containers.items()]
        return cri.ListContainersResponse(containers=every)

    def _container(self, asked: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        if (state := self.containers.get(asked.container_id)) is None:
            raise GRPCError(Status.NOT_FOUND, "no such container")
        status = cri.ContainerStatus(
            id=self.told_id or asked.container_id,
            metadata=cri.ContainerMetadata(name=asked.container_id),
            state=state,
            labels={"io.kubernetes.pod.uid": "u1"},
            annotations={RUN: asked.container_id, **self.annotations},
        )
        return cri.ContainerStatusResponse(status=status, info={"info": self._info()})

    def _info(self) -> str:
        return json.dumps({"pid": self.pid, "runtimeSpec": {"linux": {"cgroupsPath": self.cgroups_path}}})


async def _send_raw(stream: Stream[Any, Any], answer: bytes) -> None:
    await stream.send_initial_metadata()
    await stream._stream.send_data(answer)  # grpclib itself has no way to send what is no message
    stream._send_message_done = True


@asynccontextmanager
async def serving(runtime: TinyRuntime, socket: Path) -> AsyncIterator[None]:
    server = Server([runtime], codec=_Decoding())
    await server.start(path=str(socket))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
