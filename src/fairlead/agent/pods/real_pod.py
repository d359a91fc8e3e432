"""One pod of this node: what is done for it, each thing once, while its decisions (`PodRun`) ask how far it is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.agent.images_seam import Image, PullFailure
from fairlead.agent.network.settings import DEFAULT_DOMAIN
from fairlead.agent.network_seam import HostPort, NetworkFailed
from fairlead.agent.pods.container_spec import Made, container_spec
from fairlead.agent.pods.downward import DownwardApi
from fairlead.agent.pods.environment import CannotConfigure, environment
from fairlead.agent.pods.errands import Errands
from fairlead.agent.pods.files import hostname_of, system_mounts
from fairlead.agent.pods.log_rotation import remove_log
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.probing import Probes, Told
from fairlead.agent.pods.requests_to_pods import Asker
from fairlead.agent.pods.service_links import service_variables
from fairlead.agent.pods.stopping import Stopping
from fairlead.agent.runtimes.base import CannotStart, RuntimeFailure, Sandbox, SandboxSpec
from fairlead.agent.volumes.content import PodContent
from fairlead.agent.volumes.payload import Owner
from fairlead.agent.volumes.pod_volumes import PodVolumes
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.errors import ApiError
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_limits
from fairlead.api.pods import Container, Pod
from fairlead.api.quantity import ZERO
from fairlead.node.container_runtime import Start
from fairlead.node.container_sync import DEFAULT_GRACE_SECONDS, Note, field_path
from fairlead.node.containers import container_id
from fairlead.runtime.clock import monotonic, now

#: How long until what failed is tried again.
AGAIN_SECONDS: Final = 10.0
_POST_START_SECONDS: Final = 600.0


class RealPod:
    def __init__(self, place: Place, pod: Pod, manifest: Obj, wake: Callable[[], None]) -> None:
        self.pod, self.manifest = pod, manifest
        self.place, self.errands = place, Errands(wake)
        self.current: dict[str, str] = {}  # by name of the container: the id of its latest run
        self.pulled: set[str] = set()  # containers whose image was asked for anew, as their policy says
        self.addresses: tuple[str, ...] = ()
        self.sandbox: Sandbox | None = None
        self._wake = wake
        self._probes: dict[str, Probes] = {}
        self._stopping: dict[str, Stopping] = {}
        self._volumes = PodVolumes(place.folder(pod.metadata.uid), self._most_memory)

    # -- what all containers share

    async def make_sandbox(self) -> bool:
        """The cgroup, the namespaces and the network; an event tells what failed, and it is tried again."""
        place, meta, spec = self.place, self.pod.metadata, self.manifest["spec"]
        wanted = SandboxSpec(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            hostname=hostname_of(self.manifest),
            cgroup=place.cgroup_of(self.manifest),
            host_network=bool(spec.get("hostNetwork")),
            host_ipc=bool(spec.get("hostIPC")),
        )
        try:
            await asyncio.to_thread(place.cgroups.ensure, wanted.cgroup, place.cgroup_files(self.manifest))
            sandbox = await place.runtime.create_sandbox(wanted)
            self.addresses = (place.node_ip,)
            if sandbox.netns is not None:
                self.addresses = await place.network.attach(
                    str(sandbox.netns), meta.namespace, meta.name, meta.uid, meta.uid, self._host_ports()
                )
        except (RuntimeFailure, NetworkFailed, OSError) as failure:
            message = f"Failed to create pod sandbox: {failure}"
            self.tell(Note(WARNING, "FailedCreatePodSandBox", message))
            self.errands.forget_after("sandbox", AGAIN_SECONDS)
            return False
        self.sandbox = sandbox
        return True

    async def set_up_volumes(self) -> str:
        problem = await self._volumes.set_up(self.manifest["spec"].get("volumes") or (), self._content())
        if problem:
            self.errands.forget_after("volumes", AGAIN_SECONDS)
        return problem

    async def refresh_volumes(self) -> None:
        """What came from the API may be another by now, and a token is old."""
        with suppress(ApiError):
            await self._volumes.set_up(self.manifest["spec"].get("volumes") or (), self._content())

    # -- images

    async def pull(self, container: Container, *, is_init: bool) -> str:
        """Why it cannot be had; empty once it is there."""
        began = monotonic()
        try:
            image = await self.place.images.pull(container.image, await self._pull_secrets())
        except PullFailure as failure:
            return str(failure)
        took = f"{monotonic() - began:.3f}s"
        message = (
            f'Successfully pulled image "{container.image}" in {took} ({took} including waiting). '
            f"Image size: {image.size_bytes} bytes."
        )
        self.tell(Note(NORMAL, "Pulled", message, field_path(container, is_init=is_init)))
        return ""

    # -- containers

    async def start(self, container: Container, attempt: int, image: Image, *, is_init: bool) -> Start:
        """Make and start the container, and wait for its hook."""
        runtime, whole = self.place.runtime, self.container(container.name)
        id_ = container_id(self.pod.metadata.uid, container.name, attempt)
        name = f"{runtime.name}://{id_}"
        try:
            if runtime.status(id_) is None:
                await runtime.create(container_spec(self.manifest, whole, await self._made(whole, id_, attempt, image)))
            await runtime.start(id_)
        except CannotConfigure as problem:
            return Start(problem="CreateContainerConfigError", message=str(problem))
        except CannotStart as problem:
            self.current[container.name] = id_
            return Start(now(), name, image.id, "RunContainerError", str(problem))
        except (RuntimeFailure, VolumeProblem, ApiError, OSError) as problem:
            return Start(problem="CreateContainerError", message=str(problem))
        self.current[container.name] = id_
        await self._remove_older(container.name, attempt)
        status = runtime.status(id_)
        assert status is not None
        if (hook := (whole.get("lifecycle") or {}).get("postStart")) is not None:
            await self._run_post_start(container, hook, id_, is_init=is_init)
        return Start(status.started_at, name, image.id)

    def stop(self, id_: str, container: Container, seconds: float) -> None:
        """Begin to stop it; a shorter time than before counts, a longer one does not."""
        stopping = self._stopping.get(id_)
        if stopping is None:
            hook: Obj = (self.container(container.name).get("lifecycle") or {}).get("preStop") or {}

            async def run_hook(left: float) -> None:
                if failure := await self._asker(container.name, id_).ask(hook, left):
                    self.tell(Note(WARNING, "FailedPreStopHook", f"PreStopHook failed: {failure}"))

            stopping = self._stopping[id_] = Stopping(self.place.runtime, id_, run_hook if hook else None)
        stopping.within(seconds)
        self.errands.ask(("stop", id_), stopping.run)

    def probes(self, container: Container, started_at: float) -> Probes:
        """Those of its present run, begun when they are first asked for."""
        id_ = self.current.get(container.name, "")
        if (known := self._probes.get(id_)) is not None:
            return known
        path = field_path(container, is_init=container.name in self._init_names)

        def failed(told: Told) -> None:
            self.tell(Note(WARNING, "Unhealthy", told.message, path))

        asker = self._asker(container.name, id_)
        found = self._probes[id_] = Probes(self.container(container.name), asker, started_at, self._wake, failed)
        return found

    def ended(self, id_: str) -> None:
        """The runtime tells that a container has ended."""
        if (probes := self._probes.pop(id_, None)) is not None:
            probes.stop()
        if (stopping := self._stopping.get(id_)) is not None:
            stopping.has_ended()
        self._wake()

    def container(self, name: str) -> Obj:
        """As the pod says it."""
        spec = self.manifest["spec"]
        every = (*(spec.get("initContainers") or ()), *(spec["containers"]))
        found: Obj = next(each for each in every if each["name"] == name)
        return found

    @property
    def grace_seconds(self) -> float:
        stated = self.pod.spec.termination_grace_period_seconds
        return float(DEFAULT_GRACE_SECONDS if stated is None else stated)

    def tell(self, note: Note) -> None:
        self.place.events.tell(self.pod, [note])

    # -- the end

    async def close(self) -> None:
        """Nobody looks after the pod any more; its containers run on."""
        for probes in self._probes.values():
            probes.stop()
        self._probes.clear()
        await self.errands.close()

    async def tear_down(self) -> bool:
        """Remove all that the pod has but its logs."""
        await self.close()
        await tear_down(self.place, self.pod.metadata.uid, self.place.cgroup_of(self.manifest))
        return True

    # -- what containers are made of

    async def _made(self, container: Obj, id_: str, attempt: int, image: Image) -> Made:
        place, meta = self.place, self.pod.metadata
        env = await environment(container, meta.namespace, place.sources, self._downward(), self._services())
        domain = place.configured.configuration.cluster_domain or DEFAULT_DOMAIN
        folder = place.folder(meta.uid) / "etc"
        mounts = await asyncio.to_thread(
            lambda: [
                *system_mounts(folder, self.manifest, self.addresses, domain, place.network),
                *self._volumes.mounts(container, env),
            ]
        )
        logs = place.log_folder(meta.namespace, meta.name, meta.uid) / container["name"]
        values = place.container_values(self.manifest)[container["name"]]
        return Made(id_, attempt, image, env, mounts, values, logs / f"{attempt}.log")

    async def _remove_older(self, name: str, attempt: int) -> None:
        """One dead container of each name is kept, as a kubelet keeps one."""
        uid = self.pod.metadata.uid
        for status in self.place.runtime.containers():
            if (status.pod_uid, status.name) == (uid, name) and status.attempt < attempt - 1:
                await self.place.runtime.remove(status.id)
                remove_log(status.log)

    async def _run_post_start(self, container: Container, hook: Obj, id_: str, *, is_init: bool) -> None:
        """A hook that fails ends the container."""
        if failure := await self._asker(container.name, id_).ask(hook, _POST_START_SECONDS):
            path = field_path(container, is_init=is_init)
            self.tell(Note(WARNING, "FailedPostStartHook", f"PostStartHook failed: {failure}", path))
            self.tell(Note(NORMAL, "Killing", "FailedPostStartHook", path))
            self.stop(id_, container, self.grace_seconds)

    def _asker(self, name: str, id_: str) -> Asker:
        netns = self.sandbox.netns if self.sandbox is not None else None
        address = self.addresses[0] if self.addresses else self.place.node_ip
        return Asker(self.place.runtime, id_, netns, address, self.container(name).get("ports") or ())

    def _content(self) -> PodContent:
        spec = self.manifest["spec"]
        group = (spec.get("securityContext") or {}).get("fsGroup")
        sources, owner = self.place.sources, Owner(self._only_user, group)
        return PodContent(self.pod, self.manifest, sources, self._downward(), owner, self.place.claims)

    def _services(self) -> Mapping[str, str]:
        has_links = self.manifest["spec"].get("enableServiceLinks") is not False
        return service_variables(self.place.services(), self.pod.metadata.namespace, has_links=has_links)

    def _downward(self) -> DownwardApi:
        place, address = self.place, self.addresses[0] if self.addresses else ""
        return DownwardApi(self.manifest, place.node_name, place.node_ip, address, place.allocatable)

    @property
    def _only_user(self) -> int | None:
        """The user of all containers, if they have one: tokens are for them alone."""
        spec = self.manifest["spec"]
        of_pod = (spec.get("securityContext") or {}).get("runAsUser")
        every = (*(spec.get("initContainers") or ()), *(spec["containers"]))
        users = {(each.get("securityContext") or {}).get("runAsUser", of_pod) for each in every}
        return users.pop() if len(users) == 1 else None

    @property
    def _most_memory(self) -> int:
        limit = pod_limits(self.manifest["spec"]).get("memory", ZERO).units
        return limit or self.place.allocatable.get("memory", ZERO).units

    @property
    def _init_names(self) -> set[str]:
        return {container.name for container in self.pod.spec.init_containers}

    def _host_ports(self) -> list[HostPort]:
        return [
            HostPort(port.get("protocol") or "TCP", port["hostPort"], port["containerPort"], port.get("hostIP") or "")
            for container in self.manifest["spec"]["containers"]
            for port in container.get("ports") or ()
            if port.get("hostPort")
        ]

    async def _pull_secrets(self) -> list[Mapping[str, bytes]]:
        """A secret that is not there is passed over, as a kubelet does."""
        named = self.manifest["spec"].get("imagePullSecrets") or ()
        namespace = self.pod.metadata.namespace
        found = [await self.place.sources.read("Secret", namespace, secret.get("name") or "") for secret in named]
        return [data for data in found if data is not None]


async def tear_down(place: Place, uid: str, cgroup: str) -> None:
    """Remove all that there is of a pod but its logs."""
    await place.runtime.remove_sandbox(uid)
    with suppress(NetworkFailed):  # what could not be taken back is collected later
        await place.network.detach(uid)
    await asyncio.to_thread(PodVolumes(place.folder(uid), 0).tear_down)
    await asyncio.to_thread(_remove_cgroup, place, cgroup)


def remove_logs(place: Place, uid: str) -> None:
    for folder in place.log_folders(uid):
        shutil.rmtree(folder, ignore_errors=True)


class Remnants(NamedTuple):
    """What there is of pods on the disk and in cgroups, by uid: of some of them nothing else is left."""

    folders: Mapping[str, Path]
    cgroups: Mapping[str, str]
    logs: Collection[str]

    @classmethod
    def of(cls, place: Place) -> Remnants:
        folders = {folder.name: folder for folder in (place.root / "pods").glob("*")}
        cgroups = {cgroup.rpartition("/pod")[2]: cgroup for cgroup in place.pod_cgroups()}
        return cls(folders, cgroups, {log.name.rpartition("_")[2] for log in (place.root / "logs").glob("*_*_*")})

    def remove(self, place: Place, running: Collection[str], there: Collection[str]) -> None:
        """Folders and cgroups of pods that do not run, and logs of pods that are not there."""
        for uid, folder in self.folders.items():
            if uid not in running:
                PodVolumes(folder, 0).tear_down()
        for uid, cgroup in self.cgroups.items():
            if uid not in running:
                _remove_cgroup(place, cgroup)
        for uid in self.logs:
            if uid not in there:
                remove_logs(place, uid)


def _remove_cgroup(place: Place, cgroup: str) -> None:
    if not place.cgroups.remove(cgroup):
        place.cgroups.kill(cgroup)
        place.cgroups.remove(cgroup)
