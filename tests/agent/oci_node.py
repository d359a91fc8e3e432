"""A cluster whose one node is this machine: real containers, under a cgroup and a folder of the test's own."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.agent import linux
from fairlead.agent.agent import AgentSettings, NodeAgent
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.images_seam import InvalidName, PullFailure
from fairlead.agent.local_path.storage_class import DEFAULT_CLASS, RULES
from fairlead.agent.network_choice import loopback_only
from fairlead.agent.node_object import NodeIdentity
from fairlead.api.builtin import EVENTS, PODS
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.users import LOCAL_PATH_USER, User, node_user
from fairlead.api.verbs import DeleteOptions
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access, load
from fairlead.compose import Cluster, Settings, cluster
from fairlead.node.eviction.candidates import DiskUsage
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.server.auth.rbac.defaults import component_policy
from fairlead.server.codec.body_types import body_type_of
from tests.agent.machine import own_cgroup, root_file_system

NODE = "n1"
IMAGE = "test/busybox:1"


@dataclass(frozen=True)
class FolderConfig:
    entrypoint: Sequence[str] | None = None
    cmd: Sequence[str] | None = ("sh",)
    env: Sequence[str] | None = ("FROM_IMAGE=yes",)
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""


@dataclass(frozen=True)
class FolderImage:
    layers: Sequence[Path]
    config: FolderConfig = FolderConfig()
    id: str = "sha256:" + "1" * 64
    size_bytes: int = 1


@dataclass
class FolderImages:
    """One image that is here, and a registry that gives another when it is asked."""

    here: dict[str, FolderImage]
    registry: dict[str, FolderImage] = field(default_factory=dict)

    def disk_usage(self) -> DiskUsage:
        return DiskUsage(len(self.here), len(self.here))

    def ids(self) -> Sequence[str]:
        return [image.id for image in self.here.values()]

    async def remove(self, id_: str) -> None:
        self.here = {name: image for name, image in self.here.items() if image.id != id_}

    def find(self, reference: str) -> FolderImage | None:
        if reference != reference.lower():
            raise InvalidName(f"{reference} is no name of an image")
        return self.here.get(reference)

    async def pull(self, reference: str, secrets: Sequence[Mapping[str, bytes]]) -> FolderImage:
        if reference not in self.registry:
            raise PullFailure(f"{reference}: not found")
        found = self.here[reference] = self.registry[reference]
        return found


@dataclass
class RealNode:
    running: Cluster
    folder: Path
    cgroup: str
    access: Access
    storage: Access
    images: FolderImages
    #: What the node's configuration says besides.
    document: Obj
    agent: NodeAgent | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def api(self) -> Any:
        return self.running.api

    @property
    def root(self) -> Path:
        return self.folder / "root"

    async def start(self) -> None:
        """The agent, under its own identity."""
        ready = asyncio.Event()

        async def be() -> None:
            async with HttpApi(self.access) as api, HttpApi(self.storage) as storage:
                document = {"cgroupRoot": self.cgroup, "failCgroupV1": False, "syncFrequency": "1s", **self.document}
                identity = NodeIdentity(name=NODE, ip="127.0.0.1")
                settings = AgentSettings(
                    identity=identity,
                    root=self.root,
                    document=document,
                    within=self.cgroup,
                    normalise_pod=body_type_of(PODS).normalise,
                    measure_seconds=0.5,
                )
                self.agent = NodeAgent(api, settings, self.images, loopback_only("a test has none"), storage)
                ready.set()
                await self.agent.run()

        self.tasks.append(asyncio.create_task(be()))
        await ready.wait()

    async def measured(self, is_so: Callable[[NodeMeasurements], bool], seconds: float = 20.0) -> NodeMeasurements:
        """What the node measures, once it is so."""
        last: NodeMeasurements | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._check()
                    last = self.agent.measured if self.agent is not None else None
                    if last is not None and is_so(last):
                        return last
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(str(last)) from None

    async def stop(self) -> None:
        """The agent ends; what it has started runs on."""
        for task in self.tasks:
            task.cancel()
        for result in await asyncio.gather(*self.tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
        self.tasks.clear()

    async def create(self, manifest: Obj) -> None:
        await self.api.create(PODS, manifest, "default")

    async def pod(self, name: str) -> Obj:
        found: Obj = (await self.api.get(PODS, name, "default")).obj()
        return found

    async def until(self, name: str, is_so: Callable[[Obj], bool], seconds: float = 20.0) -> Obj:
        """The pod, once it is so."""
        last: Obj = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._check()
                    with suppress(NotFound):  # a mirror is made some time
                        last = await self.pod(name)
                        if is_so(last):
                            return last
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{last.get('status')}\n{await self.events(name)}") from None

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.api.delete(PODS, name, "default", DeleteOptions(grace_period_seconds=grace))

    async def gone(self, name: str, seconds: float = 20.0) -> None:
        async with asyncio.timeout(seconds):
            while True:
                self._check()
                try:
                    await self.pod(name)
                except NotFound:
                    return
                await asyncio.sleep(0.05)

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of what was told of the pod."""
        listing = await self.api.list(EVENTS, "default")
        found = (event.obj() for event in listing.items)
        return [(each["reason"], each["message"]) for each in found if each["involvedObject"]["name"] == name]

    async def told(self, name: str, reason: str, message: str, seconds: float = 20.0) -> None:
        """Return once that was told of the pod."""
        async with asyncio.timeout(seconds):
            while (reason, message) not in await self.events(name):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    def log(self, name: str, container: str = "c", attempt: int = 0) -> list[str]:
        """What a container has said."""
        (path,) = self.root.glob(f"logs/default_{name}_*/{container}/{attempt}.log")
        said = ""
        for line in path.read_text().splitlines():
            _, _, mark, text = line.split(" ", 3)
            said += text + ("\n" if mark == "F" else "")
        return said.splitlines()

    def _check(self) -> None:
        for task in self.tasks:
            if task.done():
                task.result()


@asynccontextmanager
async def real_node(
    folder: Path, document: Obj | None = None, memory_bytes: int | None = None
) -> AsyncIterator[RealNode]:
    """A cluster with this machine as its node, or so much of its memory; nothing of it is left when the block ends.

    Nobody is evicted for a shortage, nor an image removed, unless `document`, the node's configuration, says so.
    """
    quiet = {"evictionHard": {"memory.available": "0%"}, "imageGCHighThresholdPercent": 100}
    configuration = {**quiet, **(document or {})}
    cgroups = Cgroups(hierarchies())
    image = FolderImage([root_file_system(folder / "rootfs")])
    parts = frozenset(("api", "controllers", "scheduler"))
    with own_cgroup(cgroups) as cgroup, _unmounted(folder / "root", cgroups, cgroup):
        if memory_bytes is not None:
            file = "memory.max" if cgroups.hierarchies.version == 2 else "memory.limit_in_bytes"
            cgroups.ensure(cgroup, {file: str(memory_bytes)})
        settings = Settings(
            port=0,
            components=parts,
            kubeconfig=folder / "kubeconfig",
            imported=(DEFAULT_CLASS,),
            further_policy=tuple(component_policy(LOCAL_PATH_USER.name, RULES)),
        )
        async with cluster(settings) as running:
            access, storage = (_access(running, user) for user in (node_user(NODE), LOCAL_PATH_USER))
            node = RealNode(running, folder, cgroup, access, storage, FolderImages({IMAGE: image}), configuration)
            await node.start()
            try:
                yield node
            finally:
                await node.stop()


def _access(running: Cluster, user: User) -> Access:
    assert running.authority is not None and running.kubeconfig is not None
    identity = running.authority.identify(user)
    return dataclasses.replace(
        load(running.kubeconfig), client_certificate=identity.certificate, client_key=identity.key
    )


@contextmanager
def _unmounted(root: Path, cgroups: Cgroups, cgroup: str) -> Iterator[None]:
    """Also after a test that has failed."""
    try:
        yield
    finally:
        cgroups.kill(cgroup)
        linux.unmount_below(root)


def manifest(name: str, *argv: str, spec: Obj | None = None, **container: Any) -> Obj:
    """A pod of one container `c` that runs this."""
    own = {"name": "c", "image": IMAGE, "command": list(argv), **container}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [own], "terminationGracePeriodSeconds": 2, **(spec or {})},
    }


def state(pod: Obj, container: str = "c") -> Obj:
    """The status of one container."""
    status = pod.get("status") or {}
    every = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return next((each for each in every if each["name"] == container), {})


def is_running(pod: Obj) -> bool:
    return bool(pod["status"].get("phase") == "Running" and "running" in state(pod).get("state", {}))


def is_phase(phase: str) -> Callable[[Obj], bool]:
    return lambda pod: bool(pod["status"].get("phase") == phase)
