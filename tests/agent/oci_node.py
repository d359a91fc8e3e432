"""A cluster whose one node is this machine: real containers, under a cgroup and a folder of the test's own.

They are conmon's and crun's, unless a test asks for another runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec.structs

from fairlead.agent import linux
from fairlead.agent.agent import AgentSettings, NodeAgent
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.images.store import ImageStore
from fairlead.agent.local_path.storage_class import DEFAULT_CLASS
from fairlead.agent.network_choice import loopback_only, of_the_runtime
from fairlead.agent.node_object import NodeIdentity
from fairlead.agent.runtime_choice import behind_cri, conmon
from fairlead.agent.stored_images import StoredImages
from fairlead.api.builtin import EVENTS, PODS
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.users import LOCAL_PATH_USER, User, node_user
from fairlead.api.verbs import DeleteOptions
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access, load
from fairlead.compose import Cluster, Settings, cluster
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.server.codec.body_types import body_type_of
from tests.agent.containerd import Containerd, containerd
from tests.agent.folder_images import FolderImage, FolderImages
from tests.agent.machine import NO_RECLAIM, own_cgroup, root_file_system
from tests.agent.runtime_place import CONTAINERD, IMAGE, OCI

NODE = "n1"


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
    containerd: Containerd | None = None
    #: How often it looks.
    measure_seconds: float = 0.5
    #: What has its images, if they do not lie in folders.
    store: ImageStore | None = None
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
                often = {"syncFrequency": "1s", "volumeStatsAggPeriod": "500ms"}
                document = {"cgroupRoot": self.cgroup, "failCgroupV1": False, **often, **self.document}
                if self.containerd is not None:
                    document["containerRuntimeEndpoint"] = self.containerd.endpoint
                identity = NodeIdentity(name=NODE, ip="127.0.0.1")
                settings = AgentSettings(
                    identity=identity,
                    root=self.root,
                    document=document,
                    within=self.cgroup,
                    normalise_pod=body_type_of(PODS).normalise,
                    measure_seconds=self.measure_seconds,
                )
                self.agent = self._agent(api, settings, storage)
                ready.set()
                await self.agent.run()

        agent, waiting = asyncio.create_task(be()), asyncio.create_task(ready.wait())
        self.tasks.append(agent)
        await asyncio.wait([agent, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self._check()

    def _agent(self, api: HttpApi, settings: AgentSettings, storage: HttpApi) -> NodeAgent:
        if self.containerd is None:
            images = self.images if self.store is None else StoredImages(self.store)
            return NodeAgent(api, settings, conmon(images), loopback_only("a test has none"), storage)
        return NodeAgent(api, settings, behind_cri, of_the_runtime, storage)

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

    async def told_of_node(self, reason: str, seconds: float = 20.0) -> list[str]:
        """The messages of events of the node with that reason, once there are any."""
        async with asyncio.timeout(seconds):
            while True:
                events = [event.obj() for event in (await self.api.list(EVENTS, "default")).items]
                of_node = [each for each in events if each["involvedObject"]["name"] == NODE]
                if found := [each["message"] for each in of_node if each["reason"] == reason]:
                    return found
                await asyncio.sleep(0.05)

    async def reasons(self, name: str, is_so: Callable[[list[str]], bool], seconds: float = 20.0) -> list[str]:
        """Why events were told of the pod, in their order, once it is so: they come a little later than its status."""
        async with asyncio.timeout(seconds):
            while not is_so(found := [reason for reason, _ in await self.events(name)]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return found

    def log(self, name: str, container: str = "c", attempt: int = 0) -> list[str]:
        """What a container has said."""
        (path,) = self.root.glob(f"logs/default_{name}_*/{container}/{attempt}.log")
        said = ""
        for line in path.read_text().splitlines():
            _, _, mark, text = line.split(" ", 3)
            said += text + ("\n" if mark == "F" else "")
        return said.splitlines()

    def remains(self) -> list[str]:
        """What the runtime has of pods."""
        if self.containerd is not None:
            return [*self.containerd.containers(), *map(str, self.root.glob("last-words/*"))]
        return [str(path) for kind in ("containers", "sandboxes") for path in self.root.glob(f"{kind}/*")]

    def _check(self) -> None:
        for task in self.tasks:
            if task.done():
                task.result()


@asynccontextmanager
async def real_node(
    folder: Path,
    document: Obj | None = None,
    memory_bytes: int | None = None,
    measure_seconds: float = 0.5,
    kind: str = OCI,
    within: Sequence[str] = (),
    store: ImageStore | None = None,
) -> AsyncIterator[RealNode]:
    """A cluster with this machine as its node, or so much of its memory; nothing of it is left when the block ends.
    `kind` is the runtime; `within` are the words of a command before that of containerd; `store` has other images.

    Nobody is evicted for a shortage, nor an image removed, unless `document`, the node's configuration, says so.
    """
    configuration = {**NO_RECLAIM, **(document or {})}
    cgroups = Cgroups(hierarchies())
    rootfs = root_file_system(folder / "rootfs")
    image = FolderImage([rootfs])
    parts = frozenset(("api", "controllers", "scheduler"))
    with (
        own_cgroup(cgroups) as cgroup,
        _unmounted(folder / "root", cgroups, cgroup),
        containerd(rootfs, within) if kind == CONTAINERD else nullcontext() as daemon,
    ):
        if daemon is not None:
            daemon.load(f"docker.io/{IMAGE}", rootfs, Cmd=["sh"], Env=["FROM_IMAGE=yes"])
        if memory_bytes is not None:
            file = "memory.max" if cgroups.hierarchies.version == 2 else "memory.limit_in_bytes"
            cgroups.ensure(cgroup, {file: str(memory_bytes)})
        settings = Settings(
            port=0,
            components=parts,
            kubeconfig=folder / "kubeconfig",
            imported=(DEFAULT_CLASS,),
        )
        async with cluster(settings) as running:
            access, storage = (_access(running, user) for user in (node_user(NODE), LOCAL_PATH_USER))
            images = FolderImages({IMAGE: image})
            of_test = folder, cgroup, access, storage, images, configuration, daemon, measure_seconds, store
            node = RealNode(running, *of_test)
            await node.start()
            try:
                yield node
            finally:
                await node.stop()


def _access(running: Cluster, user: User) -> Access:
    assert running.authority is not None and running.kubeconfig is not None
    identity = running.authority.identify(user)
    return msgspec.structs.replace(
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
