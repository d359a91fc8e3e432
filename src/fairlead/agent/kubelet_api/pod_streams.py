"""`PodStreams`: what the kubelet's API asks of whoever runs the containers, a runtime or plain processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.metrics import Family
from fairlead.runtime.streaming.duplex import EndingSink, Source
from fairlead.runtime.streaming.remote_command import Size, Wanted


class NotRun(Exception):
    """A command that did not come to run, or whose end nobody knows; the text says why."""


class ProcessStreams(Protocol):
    """A process in a container, and its streams; those that were not wanted are None."""

    stdin: EndingSink | None
    #: Both outputs, where there is a terminal.
    stdout: Source | None
    stderr: Source | None

    async def resize(self, size: Size) -> None:
        """Give its terminal this size; nothing happens where there is none."""

    async def wait(self) -> int:
        """Its exit code, once it has ended; 128 and the signal, if that ended it. NotRun: it has none."""
        ...

    async def close(self) -> None:
        """Nobody is there any more: end a process that was only for them, leave the container's own alone."""


class PodStreams(Protocol):
    """The pods of a node. OSError: it could not be done, the message says why."""

    def pods(self) -> Iterable[Encoded]:
        """The pods that belong here, with their status as this node knows it."""
        ...

    def pod(self, namespace: str, name: str) -> Encoded | None:
        """One of them."""
        ...

    def log_path(self, container_id: str) -> Path | None:
        """Where the log of a container is written, by the ID in its status; None: it is gone.

        The file is in CRI's format. Rotated, it is renamed to `NAME.SUFFIX`, with suffixes in the order of time.
        """
        ...

    def is_running(self, container_id: str) -> bool:
        """Whether that container may still write."""
        ...

    async def exec(self, container_id: str, command: Sequence[str], wanted: Wanted) -> ProcessStreams:
        """Run a command in a running container."""
        ...

    async def attach(self, container_id: str, wanted: Wanted) -> ProcessStreams:
        """The streams of a container's own process."""
        ...

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to what listens on that port in the network of a pod."""
        ...

    async def measure(self) -> NodeMeasurements | None:
        """What was measured last; None: nothing yet."""
        ...

    def evictions(self) -> Mapping[str, int]:
        """How many pods the node has evicted since the agent started, by signal."""
        ...

    def metrics(self) -> Iterable[Family]:
        """What is counted of the pods here."""
        ...

    def probe_metrics(self) -> Iterable[Family]:
        """What the probes of the pods here came to."""
        ...

    def configuration(self) -> Obj:
        """The KubeletConfiguration that counts here."""
        ...
