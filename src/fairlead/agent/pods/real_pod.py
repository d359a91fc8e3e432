"""One pod of this node: what is done for it, each thing once, while its decisions (`PodRun`) ask how far it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from fairlead.agent.device_plugins.errors import DevicePluginError
from fairlead.agent.device_plugins.hints import PluginHints
from fairlead.agent.images_seam import Image, PullFailure
from fairlead.agent.network_seam import HostPort, NetworkFailed
from fairlead.agent.pods.container_spec import Made, container_spec
from fairlead.agent.pods.downward import DownwardApi
from fairlead.agent.pods.env_files import EnvFiles
from fairlead.agent.pods.environment import CannotConfigure, environment
from fairlead.agent.pods.errands import Errands
from fairlead.agent.pods.files import NoHostname, kernel_hostname, system_mounts
from fairlead.agent.pods.log_rotation import remove_log
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.probe_metrics import ProbeAnswers
from fairlead.agent.pods.probing import Probes, Told
from fairlead.agent.pods.pulls import PullSecret
from fairlead.agent.pods.remnants import tear_down
from fairlead.agent.pods.requests_to_pods import Asker
from fairlead.agent.pods.service_links import service_variables
from fairlead.agent.pods.shown import shown_of
from fairlead.agent.pods.sources import Sources
from fairlead.agent.pods.stopping import Stopping
from fairlead.agent.runtimes.base import (
    CannotStart,
    HandlerFeatures,
    IdRange,
    RuntimeFailure,
    Sandbox,
    SandboxSpec,
    State,
)
from fairlead.agent.volumes.claimed import GREW_NOT
from fairlead.agent.volumes.content import PodContent
from fairlead.agent.volumes.payload import Owner
from fairlead.agent.volumes.pod_volumes import PodVolumes
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED, Container, Pod
from fairlead.api.quantity import ZERO
from fairlead.golang.durations import format_seconds
from fairlead.golang.quoting import go_quote
from fairlead.node.admission import UNEXPECTED, Refusal
from fairlead.node.cgroups.pods import pod_values
from fairlead.node.configuration.feature_gates import ENV_FILES
from fairlead.node.container_runtime import Start, WantedImage
from fairlead.node.container_sync import DEFAULT_GRACE_SECONDS, Note, field_path
from fairlead.node.containers import container_id
from fairlead.node.resize import Allocated, with_allocation
from fairlead.runtime.clock import monotonic, now

#: How long until what failed is tried again.
AGAIN_SECONDS: Final = 10.0
_POST_START_SECONDS: Final = 600.0
CONTAINER_KINDS: Final = ("initContainers", "containers", "ephemeralContainers")

log = logging.getLogger(__name__)


class RealPod:
    def __init__(self, place: Place, pod: Pod, manifest: Obj, wake: Callable[[], None]) -> None:
        self.pod, self.manifest = pod, manifest
        self.place, self.errands = place, Errands(wake)
        self.current: dict[str, str] = {}  # by name of the container: the id of its latest run
        self._had: set[tuple[str, str]] = set()  # images that it may have, by name and id, whatever becomes of secrets
        self.pulled: set[str] = set()  # keys of images that were asked for anew, as their policy says
        self.addresses: tuple[str, ...] = ()
        self.sandbox: Sandbox | None = None
        self.allocated: Allocated = {}  # what the node has given it, where another size is desired
        self._wake, self._handler = wake, ""
        self._probes: dict[str, Probes] = {}
        self.probe_answers = ProbeAnswers()
        self._seen_at = monotonic()
        self._stopping: dict[str, Stopping] = {}
        self._volumes = PodVolumes(place.folder(pod.metadata.uid), self._most_memory)

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, as was reported: what the API server tells of that may not have come back yet."""
        return self.pod.is_finished or (self.manifest.get("status") or {}).get("phase") in FINISHED

    def reported(self, manifest: Obj) -> None:
        """The API server shows that of it now."""
        before, phase = (((each.get("status") or {}).get("phase")) for each in (self.manifest, manifest))
        if phase == "Running" and before == "Pending":
            self.place.metrics.runs(monotonic() - self._seen_at)
        self.manifest = manifest

    # -- what all containers share

    async def make_sandbox(self) -> bool:
        """The cgroup, the namespaces and the network; an event tells what failed, and it is tried again."""
        began = monotonic()
        is_made = await self._make_sandbox()
        self.place.metrics.sandbox(self._handler, monotonic() - began, is_made=is_made)
        return is_made

    async def _make_sandbox(self) -> bool:
        place, meta, spec = self.place, self.pod.metadata, self.manifest["spec"]
        security = spec.get("securityContext") or {}
        try:
            hostname = kernel_hostname(self.manifest, place.cluster_domain)
            handler = self._handler = await place.sources.runtime_handler(spec.get("runtimeClassName") or "")
            users = await asyncio.to_thread(self._users, handler)
        except (NoHostname, NotFound, RuntimeFailure) as problem:
            return self._has_no_sandbox(problem)
        wanted = SandboxSpec(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            hostname=hostname,
            cgroup=place.cgroup_of(self.manifest),
            host_network=bool(spec.get("hostNetwork")),
            host_ipc=bool(spec.get("hostIPC")),
            host_pid=bool(spec.get("hostPID")),
            logs=place.log_folder(meta.namespace, meta.name, meta.uid),
            host_ports=self._host_ports(),
            shares_processes=bool(spec.get("shareProcessNamespace")),
            sysctls={sysctl["name"]: sysctl["value"] for sysctl in security.get("sysctls") or ()},
            is_privileged=_is_privileged(spec),
            handler=handler,
            users=users,
        )
        try:
            await asyncio.to_thread(place.cgroups.ensure, wanted.cgroup, place.cgroup_files(self.sized))
            if not place.runtime.has_sandbox(meta.uid):
                await place.network.detach(meta.uid)  # one that is lost
            sandbox = await place.runtime.create_sandbox(wanted)
            self.addresses = sandbox.addresses or (place.node_ip,)
            if sandbox.netns is not None:
                pod = str(sandbox.netns), meta.namespace, meta.name, meta.uid, meta.uid, self._host_ports()
                if sandbox.addresses:
                    await place.network.join(sandbox.addresses, *pod)
                else:
                    self.addresses = await place.network.attach(*pod)
        except (RuntimeFailure, NetworkFailed, OSError) as failure:
            return self._has_no_sandbox(failure)
        self.sandbox = sandbox
        return True

    def _users(self, handler: str) -> IdRange | None:
        """RuntimeFailure where the pod cannot have those that it asks for, as a kubelet says it."""
        host_users = self.manifest["spec"].get("hostUsers")
        if host_users is not False:
            return None
        features = self.place.runtime.handlers.get(handler)
        if features is None or not features.has_user_namespaces:
            subject = f"RuntimeClass handler {go_quote(handler)}" if handler else "runtime"
            unknown = f": the handler {go_quote(handler)} is not known" if features is None else ""
            raise RuntimeFailure(
                f"can't set `spec.hostUsers: false`, {subject} does not support user namespaces{unknown}"
            )
        return self.place.users.of(self.pod.metadata.uid)

    def _has_no_sandbox(self, problem: Exception) -> bool:
        self.tell(Note(WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {problem}"))
        self.errands.forget_after("sandbox", AGAIN_SECONDS)
        return False

    async def prepare_devices(self) -> str:
        """Why the pod cannot have those of its claims; nothing once it can. What failed is tried again."""
        problem = await self.place.devices.prepare(self.pod)
        if problem:
            self.errands.forget_after("devices", AGAIN_SECONDS)
        return problem

    async def unprepare_devices(self) -> bool:
        problem = await self.place.devices.unprepare(self.pod.metadata.uid)
        if problem:
            log.warning("devices of pod %s cannot be given back yet: %s", self.pod.metadata.key, problem)
            self.errands.forget_after("devices back", AGAIN_SECONDS)
        return not problem

    async def allocate_devices(self) -> list[Refusal]:
        """Why it cannot have those of plugins; nothing once it has them, on NUMA nodes with what else it gets."""
        place = self.place
        if (hints := self.device_hints()) is None:
            problem = await place.device_plugins.allocate(self.manifest)
        else:
            foretold = place.topology.foretold(self.sized, hints)
            if foretold.refusal is not None:
                return [foretold.refusal]
            problem = await place.device_plugins.allocate(self.manifest, foretold.affinity)
        return [Refusal(UNEXPECTED, problem)] if problem else []

    def device_hints(self) -> PluginHints | None:
        """Where it could have devices of plugins, or has them; None where that does not matter."""
        plugins, topology = self.place.device_plugins, self.place.topology
        if not topology.is_placing or not plugins.concern(self.manifest):
            return None
        return plugins.hints(self.manifest, topology.numa_nodes)

    async def set_up_volumes(self) -> str:
        problem = await self._volumes.set_up(self._volumes_wanted, self._content(self.place.sources))
        problem = problem or "; ".join(await self._grow_volumes())
        if problem:
            self.errands.forget_after("volumes", AGAIN_SECONDS)
        return problem

    async def _grow_volumes(self) -> list[str]:
        """Those that have, as far as their node has to do with it; what is wrong."""
        problems = []
        for volume in self._volumes_wanted:
            try:
                if (grown := await self.place.claims.grown(self.manifest, volume)) is not None:
                    self.tell(grown)
            except VolumeProblem as problem:
                problems.append(f"MountVolume.{problem}")
        return problems

    async def refresh_volumes(self, sources: Sources) -> None:
        """What came from the API may be another by now, and a token is old."""
        await self._volumes.refresh(self._volumes_wanted, self._content(sources))
        if self.place.claims.csi.has(self.pod.metadata.uid):  # a driver that hangs holds up its own pods alone
            self.errands.again("drivers", self._tell_drivers)

    async def _tell_drivers(self) -> None:
        """What they want to be told again and again of the pod's volumes, and which have grown."""
        for name, problem in (await self.place.claims.csi.republish(self.pod.metadata.uid)).items():
            self.tell(Note(WARNING, "FailedMount", f'MountVolume.SetUp failed for volume "{name}" : {problem}'))
        for problem in await self._grow_volumes():
            self.tell(Note(WARNING, GREW_NOT, problem))

    @property
    def measured_claims(self) -> Mapping[str, Path]:
        """By name, where volumes of claims are whose file systems are measured."""
        return self._volumes.measured

    @property
    def _volumes_wanted(self) -> Sequence[Obj]:
        return self.manifest["spec"].get("volumes") or ()

    # -- images

    async def pull(self, wanted: WantedImage) -> str:
        """Why it cannot be had; empty once it is there."""
        try:
            pulled = await self.place.pulls.pull(wanted.reference, await self._pull_secrets())
        except PullFailure as failure:
            return str(failure)
        self._had.add((wanted.reference, pulled.image.id))
        took, waited = (format_seconds(int(each * 1000) / 1000) for each in (pulled.seconds, pulled.waited_seconds))
        message = (
            f'Successfully pulled image "{wanted.reference}" in {took} ({waited} including waiting). '
            f"Image size: {pulled.image.size_bytes} bytes."
        )
        self.tell(Note(NORMAL, "Pulled", message, wanted.path))
        return ""

    # -- containers

    async def start(self, container: Container, attempt: int, image: Image, *, is_init: bool) -> Start:
        """Make and start the container, and wait for its hook."""
        start = await self._start(container, attempt, image, is_init=is_init)
        self.place.metrics.container(container, start.problem, is_init=is_init)
        return start

    async def _start(self, container: Container, attempt: int, image: Image, *, is_init: bool) -> Start:
        runtime, whole = self.place.runtime, self.container(container.name)
        id_ = self._run_of(container.name, attempt)
        try:
            id_ = id_ or await runtime.create(
                container_spec(self.manifest, whole, await self._made(whole, attempt, image))
            )
            await runtime.start(id_)
        except (CannotConfigure, VolumeProblem, DevicePluginError) as problem:
            return Start(problem="CreateContainerConfigError", message=str(problem))
        except CannotStart as problem:
            id_ = self.current[container.name] = self._run_of(container.name, attempt)
            return Start(now(), f"{runtime.name}://{id_}", image.id, "RunContainerError", str(problem))
        except (RuntimeFailure, ApiError, OSError) as problem:
            return Start(problem="CreateContainerError", message=str(problem))
        self.current[container.name] = id_
        await self._remove_older(container.name, attempt)
        status = runtime.status(id_)
        assert status is not None
        if (hook := (whole.get("lifecycle") or {}).get("postStart")) is not None:
            await self._run_post_start(container, hook, id_, is_init=is_init)
        shown = shown_of(whole, status.runs_as, has_recursive=self._features.has_recursive_read_only_mounts)
        return Start(status.started_at, f"{runtime.name}://{id_}", status.image_ref or image.id, shown=shown)

    async def resize(self, but: Collection[str]) -> str:
        """Give the pod and its running containers what they are allocated; why that cannot be done, or nothing."""
        place, values = self.place, self.place.container_values(self.sized)
        cgroup, files = place.cgroup_of(self.manifest), place.cgroup_files(self.sized)
        # What grows has to grow here first, what shrinks can only afterwards: what is refused now is tried again then.
        await asyncio.to_thread(place.cgroups.change, cgroup, files)
        try:
            for name, id_ in self.current.items():
                status = place.runtime.status(id_)
                if status is not None and status.state is State.RUNNING and name in values and name not in but:
                    await place.runtime.update(id_, values[name])
        except RuntimeFailure as failure:
            return str(failure)
        for status in place.runtime.containers():  # version 1 gives a pod no quota below that of a cgroup in it
            if status.pod_uid == self.pod.metadata.uid and status.state is State.EXITED:
                left = f"{cgroup}/{status.cgroup_name}"
                await asyncio.to_thread(place.cgroups.change, left, {"cpu.cfs_quota_us": "-1"})
        refused = await asyncio.to_thread(place.cgroups.change, cgroup, files)
        return next((f"cgroup file {file} of the pod: {problem}" for file, problem in refused.items()), "")

    def stop(
        self, id_: str, container: Container, seconds: float, *, has_hook: bool = True, has_turn: bool = True
    ) -> None:
        """Begin to stop it; a shorter time than before counts, a longer one does not. It gets a signal in its turn."""
        stopping = self._stopping.get(id_)
        if stopping is None:
            if (probes := self._probes.get(id_)) is not None:
                probes.begin_to_end()
            hook: Obj = (self.container(container.name).get("lifecycle") or {}).get("preStop") or {}

            async def run_hook(left: float) -> None:
                if failure := await self._asker(container.name, id_).run_hook(hook, left):
                    self.tell(Note(WARNING, "FailedPreStopHook", f"PreStopHook failed: {failure}"))

            stopping = self._stopping[id_] = Stopping(self.place.runtime, id_, run_hook if hook and has_hook else None)
        stopping.within(seconds)
        if has_turn:
            stopping.take_turn()
        self.errands.ask(("stop", id_), stopping.run)

    def probes(self, container: Container, started_at: float) -> Probes:
        """Those of its present run, begun when they are first asked for."""
        id_ = self.current.get(container.name, "")
        if (known := self._probes.get(id_)) is not None:
            return known
        path = field_path(container, is_init=container.name in self._init_names)

        def tell(told: Told) -> None:
            self.tell(Note(WARNING, told.reason, told.message, path))

        asker = self._asker(container.name, id_)
        found = self._probes[id_] = Probes(
            self.container(container.name), asker, started_at, self._wake, tell, self.probe_answers
        )
        return found

    def lost_sandbox(self) -> None:
        """The runtime tells that what its containers share is gone."""
        self._wake()

    def ended(self, id_: str) -> None:
        """The runtime tells that a container has ended."""
        if (probes := self._probes.pop(id_, None)) is not None:
            probes.stop()
        if (stopping := self._stopping.get(id_)) is not None:
            stopping.has_ended()
        self._wake()

    @property
    def sized(self) -> Obj:
        """The pod with what it is allocated, whatever else is desired."""
        return with_allocation(self.manifest, self.allocated) if self.allocated else self.manifest

    def container(self, name: str) -> Obj:
        """As the pod says it, with what it is allocated."""
        spec = self.sized["spec"]
        every = (each for kind in CONTAINER_KINDS for each in spec.get(kind) or ())
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
        """Remove all that the pod has but its logs; OSError if the runtime refuses, which an event tells."""
        await self.close()
        uid = self.pod.metadata.uid
        try:
            await tear_down(self.place, uid, self.place.cgroup_of(self.manifest))
        except RuntimeFailure as failure:
            problem = f'failed to "KillPodSandbox" for "{uid}" with KillPodSandboxError: {go_quote(str(failure))}'
            self.tell(Note(WARNING, "FailedKillPod", f"error killing pod: {problem}"))
            raise OSError(f"error killing pod: {failure}") from None
        self.sandbox = None
        return True

    # -- what containers are made of

    def _run_of(self, name: str, attempt: int) -> str:
        """The id of that run, if it has been made; empty if not."""
        wanted = self.pod.metadata.uid, name, attempt
        every = self.place.runtime.containers()
        return next((each.id for each in every if (each.pod_uid, each.name, each.attempt) == wanted), "")

    async def _made(self, container: Obj, attempt: int, image: Image) -> Made:
        place, meta = self.place, self.pod.metadata
        has_env_files, services = place.configured.gates.enabled(ENV_FILES), self._services()
        files = EnvFiles(self._volumes.path) if has_env_files else None
        await self._volumes.mount_images(self._volumes_wanted, container, place.images)
        devices = await place.device_plugins.given(self.manifest, container)
        devices = devices._replace(devices=[*devices.devices, *self._volumes.devices(container)])
        env = await environment(container, meta.namespace, place.sources, self._downward(), services, files)
        env = {**devices.env, **env}
        folder, is_recursive = place.folder(meta.uid) / "etc", self._mounts_recursively(container)
        mounts = await asyncio.to_thread(
            lambda: [
                *system_mounts(folder, self.manifest, self.addresses, place.cluster_domain, place.network),
                *devices.mounts,
                *self._volumes.mounts(container, env, can_be_read_only_below=is_recursive),
            ]
        )
        logs = place.log_folder(meta.namespace, meta.name, meta.uid) / container["name"]
        values = place.container_values(self.sized)[container["name"]]
        id_ = container_id(meta.uid, container["name"], attempt)
        seccomp = {"type": "RuntimeDefault"} if place.configured.configuration.seccomp_default else {}
        profiles = place.root / "seccomp"
        file, target = logs / f"{attempt}.log", self._target(container)
        cdi = await place.devices.given(self.pod, self.manifest, container)
        return Made(id_, attempt, image, env, mounts, values, file, profiles, seccomp, target, cdi, devices)

    @property
    def _features(self) -> HandlerFeatures:
        return self.place.runtime.handlers.get(self._handler, HandlerFeatures())

    def _mounts_recursively(self, container: Obj) -> bool:
        """Whether the runtime makes read-only what is mounted below a volume; CannotConfigure if it must and cannot."""
        if not (can := self._features.has_recursive_read_only_mounts):
            for mount in container.get("volumeMounts") or ():
                if mount.get("recursiveReadOnly") == "Enabled":
                    problem = f"volume {go_quote(mount['name'])} requested recursive read-only mode"
                    raise CannotConfigure(
                        f"failed to resolve recursive read-only mode: {problem}, but it is not supported by the runtime"
                    )
        return can

    def _target(self, container: Obj) -> str:
        """The running container whose processes an ephemeral one wants to see."""
        if not (name := container.get("targetContainerName")):
            return ""
        id_ = self.current.get(name, "")
        status = self.place.runtime.status(id_)
        if status is None or status.state is not State.RUNNING:
            raise CannotConfigure(f"unable to find target container {go_quote(name)}")
        return id_

    async def _remove_older(self, name: str, attempt: int) -> None:
        """One dead container of each name is kept, as a kubelet keeps one."""
        uid = self.pod.metadata.uid
        for status in self.place.runtime.containers():
            if (status.pod_uid, status.name) == (uid, name) and status.attempt < attempt - 1:
                await self.place.runtime.remove(status.id)
                remove_log(status.log)

    async def _run_post_start(self, container: Container, hook: Obj, id_: str, *, is_init: bool) -> None:
        """A hook that fails ends the container."""
        if failure := await self._asker(container.name, id_).run_hook(hook, _POST_START_SECONDS):
            path = field_path(container, is_init=is_init)
            self.tell(Note(WARNING, "FailedPostStartHook", f"PostStartHook failed: {failure}", path))
            self.tell(Note(NORMAL, "Killing", "FailedPostStartHook", path))
            self.stop(id_, container, self.grace_seconds)

    def _asker(self, name: str, id_: str) -> Asker:
        netns = self.sandbox.netns if self.sandbox is not None else None
        address = self.addresses[0] if self.addresses else self.place.node_ip
        return Asker(self.place.runtime, id_, netns, address, self.container(name).get("ports") or ())

    def _content(self, sources: Sources) -> PodContent:
        spec = self.manifest["spec"]
        group = (spec.get("securityContext") or {}).get("fsGroup")
        owner = Owner(self._only_user, group) if self.place.runtime.has_users else Owner()
        return PodContent(self.pod, self.manifest, sources, self._downward(), owner, self.place.claims)

    def _services(self) -> Mapping[str, str]:
        has_links = self.manifest["spec"].get("enableServiceLinks") is not False
        return service_variables(self.place.services(), self.pod.metadata.namespace, has_links=has_links)

    def _downward(self) -> DownwardApi:
        place, address = self.place, self.addresses[0] if self.addresses else ""
        return DownwardApi(self.sized, place.node_name, place.node_ip, address, place.allocatable)

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
        """The limit of the pod's cgroup, which it has if all of its containers have one."""
        limit = pod_values(self.sized["spec"], self.place.settings).memory_limit
        return min(filter(None, (limit, self.place.allocatable.get("memory", ZERO).units)), default=0)

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

    async def may_have(self, image: Image, reference: str) -> bool:
        """Whether the pod may have an image that is here already, without pulling it."""
        key = reference, image.id
        if key not in self._had:
            secrets = await self._pull_secrets()
            if await self.place.pulls.is_open_to(reference, image, secrets):
                self._had.add(key)
        return key in self._had

    async def _pull_secrets(self) -> list[PullSecret]:
        """A secret that is not there is passed over and told of, as a kubelet does."""
        named = [secret.get("name") or "" for secret in self.manifest["spec"].get("imagePullSecrets") or ()]
        namespace = self.pod.metadata.namespace
        found = {name: await self.place.sources.pull_secret(namespace, name) for name in named if name}
        if missing := [name for name, secret in found.items() if secret is None]:
            text = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
            text = f"{text}; attempting to pull the image may not succeed."
            self.tell(Note(WARNING, "FailedToRetrieveImagePullSecret", text))
        return [secret for secret in found.values() if secret is not None]


def _is_privileged(spec: Obj) -> bool:
    """Whether any container is."""
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return any((container.get("securityContext") or {}).get("privileged") for container in every)
