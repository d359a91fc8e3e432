"""A CRI-O of a test's own, in the place of a containerd: where `FAIRLEAD_CRIO` names the folder of its programs.

CRI-O takes no archives in, so its images come from a registry of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from fairlead.agent.grpc.client import Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.runtimes.cri import messages as cri
from tests.agent.containerd import PLUGINS, START_SECONDS, Containerd, entries
from tests.agent.images.archives import layer
from tests.agent.images.registries import LocalRegistry

Answer = TypeVar("Answer")

_CONFIG = """
[crio]
root = "{folder}/root"
runroot = "{folder}/run"
storage_driver = "overlay"
log_dir = "{folder}/pods"
version_file = "{folder}/version"
version_file_persist = "{folder}/version-kept"
clean_shutdown_file = "{folder}/clean"
[crio.api]
listen = "{folder}/containerd.sock"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
conmon = "{programs}/conmon"
pinns_path = "{programs}/pinns"
container_exits_dir = "{folder}/exits"
container_attach_socket_dir = "{folder}/attach"
namespaces_dir = "{folder}/namespaces"
hooks_dir = []
irqbalance_config_restore_file = "disable"
enable_criu_support = false
enable_pod_events = true
default_runtime = "runc"
[crio.runtime.runtimes.runc]
runtime_path = "{programs}/runc"
runtime_root = "{folder}/runc"
monitor_path = "{programs}/conmon"
monitor_cgroup = "pod"
[crio.runtime.runtimes.crun]
runtime_path = "{programs}/crun"
runtime_root = "{folder}/crun"
monitor_path = "{programs}/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "{pause}"
pause_command = "/bin/sleep 1000000"
signature_policy = "{folder}/policy.json"
signature_policy_dir = "{folder}/policies"
[crio.network]
network_dir = "{folder}/cni"
plugin_dirs = ["{plugins}"]
[crio.nri]
enable_nri = false
"""
_REGISTRIES = """
unqualified-search-registries = []
[[registry]]
prefix = "*.io"
location = "{address}"
insecure = true
[[registry]]
prefix = "fairlead.test"
location = "{address}"
insecure = true
"""


@dataclass
class Crio(Containerd):
    name: ClassVar = "cri-o"
    registry: LocalRegistry = field(default_factory=LocalRegistry)

    def configure(self, pause: str) -> None:
        values = {"folder": self.folder, "programs": os.environ["FAIRLEAD_CRIO"], "plugins": PLUGINS, "pause": pause}
        (self.folder / "config.toml").write_text(_CONFIG.format(**values))
        (self.folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        (self.folder / "registries.conf").write_text(_REGISTRIES.format(address=self.registry.address))
        for name in ("attach", "namespaces", "more"):
            (self.folder / name).mkdir()

    def _command(self) -> Sequence[str]:
        return [
            f"{os.environ['FAIRLEAD_CRIO']}/crio",
            f"--config={self.folder}/config.toml",
            f"--config-dir={self.folder}/more",
            f"--registries-conf={self.folder}/registries.conf",
        ]

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
            client.connect(f"{self.folder}/containerd.sock")
            return True
        return False

    def kill_empty_shims(self) -> None:
        """It has none."""

    def containers(self) -> list[str]:
        return _apart(self._containers())

    async def _containers(self) -> list[str]:
        client = Client(self.endpoint)
        every = cri.ListContainersRequest(filter=cri.ContainerFilter())
        pods = cri.ListPodSandboxRequest(filter=cri.LabelFilter())
        containers = (await client.call(cri.LIST, every)).containers
        sandboxes = (await client.call(cri.LIST_SANDBOXES, pods)).items
        client.close()
        return [*(each.id for each in containers), *(each.id for each in sandboxes)]

    def images(self) -> list[str]:
        return _apart(self._images())

    async def _images(self) -> list[str]:
        client = Client(self.endpoint)
        found = (await client.call(cri.LIST_IMAGES, Nothing())).images
        client.close()
        return [name for each in found for name in each.repo_tags]

    def load(self, name: str, rootfs: Path, **config: Any) -> None:
        self.registry.tag(name.rpartition(":")[2], self.registry.image([layer(*entries(rootfs))], **config))
        _apart(self._pull(name))

    async def _pull(self, name: str) -> None:
        client = Client(self.endpoint)
        await client.call(cri.PULL, cri.PullImageRequest(image=cri.ImageSpec(image=name)))
        client.close()


@contextmanager
def crio(place: Path, within: Sequence[str]) -> Iterator[Crio]:
    """One that is configured, and whose images are served while the block runs."""
    registry, loop, served = LocalRegistry(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        async with registry.served():
            served.set()
            await asyncio.Event().wait()

    task = loop.create_task(serve())

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert served.wait(START_SECONDS)
        yield Crio(place, within, registry=registry)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(START_SECONDS)
        loop.close()


def _apart(asked: Coroutine[Any, Any, Answer]) -> Answer:
    """Beside the loop of a test."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(asked)))
    thread.start()
    thread.join()
    return answers[0]
