"""Simulated nodes: one fleet instead of a task per node.

All nodes share one pod informer, one queue and one heap of timers, so that the cost depends on the number of pods and
not of nodes. The fleet registers its nodes, renews their leases, and takes every pod bound to one of them through the
states of `containers.py`. Like a kubelet, it writes through `Api` alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from fairlead.api.builtin import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from fairlead.api.claims import PersistentVolumeClaim
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.guards import guarded
from fairlead.api.meta import Versioned
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.verbs import Api, DeleteOptions, PatchType
from fairlead.client.informer import Informers
from fairlead.client.worker import work_off
from fairlead.node.admission import NodeAdmission
from fairlead.node.allocation import NodeAllocation, amounts
from fairlead.node.container_sync import Note
from fairlead.node.eviction.manager import Eviction
from fairlead.node.eviction.messages import EVICTED
from fairlead.node.eviction.ranking import Overuse
from fairlead.node.grace_periods import stop_timeout
from fairlead.node.plan import NodeEvent
from fairlead.node.pod_lifecycle import PodKill, PodRun
from fairlead.node.preemption import MESSAGE, PREEMPTING
from fairlead.node.resize import ResizeSettings
from fairlead.node.start_requirements import NOTHING
from fairlead.node.status import PodAddresses
from fairlead.runtime.clock import monotonic, now, timestamp
from fairlead.runtime.token_bucket import TokenBucket
from fairlead.runtime.workqueue import WorkQueue
from fairlead.sim.admission import admission_of, host_ports_of, kill_for_critical, wants
from fairlead.sim.attached_volumes import AttachedVolumes
from fairlead.sim.behaviour import SimulatedRuntime
from fairlead.sim.config_sources import AssumedSources, ConfigSources
from fairlead.sim.exclusive_cpus import ExclusiveCpus
from fairlead.sim.kubelets import Kubelets
from fairlead.sim.leases import Leases
from fairlead.sim.machine.machines import Machines
from fairlead.sim.node_events import NodeEvents
from fairlead.sim.node_settings import NodeConfigurations
from fairlead.sim.nodes import has_failed, is_off, is_simulated
from fairlead.sim.registration import Registration
from fairlead.sim.resizing import PendingResizes, Terms, allocated_amounts
from fairlead.sim.resource_claims import ClaimedDevices
from fairlead.sim.shutdowns import Shutdowns
from fairlead.sim.usage.objects import follow
from fairlead.sim.usage.profiles import Profiles

#: How many pods the fleet works on at once.
WORKERS = 64
#: How long after a node was taken for lost its pods may be said to be unready. At other times that is believed, unlike
#: by a kubelet: so tests have simulated pods as they want them.
CORRECTING_SECONDS = 300.0
#: The kubelet's --event-qps and --event-burst, for the fleet as a whole.
EVENTS_PER_SECOND, EVENT_BURST = 50.0, 100.0


log = logging.getLogger(__name__)


class OveruseHooks(NamedTuple):
    """What nodes do about namespaces that use more than they deserve (S2-51); None: nothing."""

    refuse: Overuse | None = None
    evict_first: Overuse | None = None


class Fleet:
    """Nodes whose pods take time and resources, and run nothing."""

    def __init__(
        self,
        api: Api,
        as_node: Callable[[str], Api],
        informers: Informers,
        nodes: Iterable[Obj],
        configurations: NodeConfigurations | None = None,
        *,
        overuse: OveruseHooks = OveruseHooks(),
        assumed_sources: AssumedSources = AssumedSources(),
        heartbeats: bool = True,
    ) -> None:
        """`api` is for what is no node's to write; `as_node` is that of the node of a name."""
        self._as_node, self._overuse = as_node, overuse.refuse
        self._allocations: dict[str, NodeAllocation] = {}  # by node; its keys are the nodes of the fleet
        self._leases = Leases(as_node, lambda: self._allocations) if heartbeats else None
        self._kubelets = Kubelets(
            configurations or NodeConfigurations(),
            self._record_of_node,
            lambda node: self.machines.pods_memory_bytes(node),
        )
        self._cpus = ExclusiveCpus(self._kubelets.settings)
        switched_on = [node for node in nodes if not is_off(node)]
        self._registration = Registration(api, as_node, switched_on, self._leases, self._kubelets)
        for name, node in self._registration.manifests.items():
            self._take(name, _allocatable(node))
        self._events = NodeEvents(api, as_node)
        self._event_limit = TokenBucket(EVENTS_PER_SECOND, EVENT_BURST, monotonic())
        self._queue: WorkQueue[str] = WorkQueue()
        self._runs: dict[str, PodRun] = {}  # by uid
        self._awaited: dict[str, set[str]] = {}  # by uid of a preempted pod: keys of the pods that wait for its room
        self._last_address = 0
        self._pods = informers.of(PODS, Pod)
        profiles = Profiles()
        follow(profiles, informers, self._events, self._usage_changed)
        configured, evict_first = self._kubelets.configured, overuse.evict_first
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self.machines = Machines(
            as_node,
            self,
            self._events,
            profiles,
            configured,
            self._pods.get,
            self._claim_capacity,
            self._record_of_node,
            evict_first,
        )
        self._devices = ClaimedDevices(as_node, informers, self._queue.add)
        self._volumes = AttachedVolumes(
            api, as_node, informers, self._queue.add, self._allocations.__contains__, attaches_all=not heartbeats
        )
        self._runtime = SimulatedRuntime(
            self.machines.memory_exit, self.machines.memory_bytes, self._devices.problem, self._volumes.state
        )
        self._resizes = PendingResizes(self._resize_terms)
        self._config_sources = ConfigSources(as_node, informers, self._queue.add, assumed_sources)
        self._shutdowns = Shutdowns(api, as_node, configured, self._record_of_node, self._running_on, self._end)
        self._nodes = informers.of(NODES, Node)
        self._corrects_until: dict[str, float] = {}  # by node
        #: Set once every node is there and Ready.
        self.registered = asyncio.Event()

    async def run(self) -> None:
        """Act as these nodes until cancelled. The informers must be running."""
        await self._registration.register_all()
        await self._nodes.synced()
        await self._pods.synced()
        await self._nodes.follow(self._node_event)
        await self._pods.follow(self._pod_event)
        await self._nodes.follow(self._node_changed)
        self.registered.set()
        try:
            await self._act()
        finally:
            self._shutdowns.close()

    async def _act(self) -> None:
        async with asyncio.TaskGroup() as group:
            await self._volumes.run(group.create_task)
            for _ in range(WORKERS):
                group.create_task(work_off(self._queue, "pod", self._sync), name="node worker")
            group.create_task(self._registration.run(), name="node adoption")
            group.create_task(self.machines.run(), name="node machines")
            if self._leases:
                group.create_task(self._leases.run(), name="node leases")
            group.create_task(self._events.run(), name="node events")

    async def ready(self) -> None:
        """Return once every node is there and Ready."""
        await self.registered.wait()

    # -- nodes

    def _take(self, name: str, allocatable: dict[str, int]) -> None:
        """Add the node to the fleet."""
        self._registration.number(name)
        self._allocations[name] = NodeAllocation(allocatable)

    def _node_event(self, old: Node | None, new: Node | None) -> None:
        """Handler of node events. Nodes also come from earlier runs, from dumps and from `kubectl create`."""
        if new is None or has_failed(new):
            gone = new or old
            assert gone is not None
            self._give_up(gone.metadata.name)
            return
        name, allocatable = new.metadata.name, amounts(new.status.allocatable)
        if (allocation := self._allocations.get(name)) is not None:
            if allocation.allocatable != allocatable:
                allocation.allocatable = allocatable
                self._retry_resizes(name)
            is_doubted = self._leases is not None and new.ready_status == "Unknown"
            if self._kubelets.put_node(new, old) or is_doubted:
                self._registration.adopt(name)
            if is_doubted:
                self._correct_pods(name)
        elif is_simulated(new):
            self._take(name, allocatable)
            self._volumes.take(new)
            self._kubelets.put_node(new, None)
            self._registration.adopt(name)
            if new.ready_status == "Unknown":
                self._correct_pods(name)
            for pod in self._pods:
                if pod.spec.node_name == name:
                    self._queue.add(pod.metadata.key)
        if name in self._allocations:
            self.machines.put_node(new)
            self._shutdowns.put_node(new)

    def _correct_pods(self, node: str) -> None:
        """The node was taken for lost, and so its pods for unready, or will be in a moment."""
        self._corrects_until[node] = now() + CORRECTING_SECONDS
        for uid in self._allocations[node].held:
            if (run := self._runs.get(uid)) is not None:
                self._queue.add(run.key)

    def _give_up(self, name: str) -> None:
        """Act no longer for a node that is gone, or off; if it comes back it is taken up as a new one."""
        self._allocations.pop(name, None)
        self._corrects_until.pop(name, None)
        self._cpus.forget(name)
        self._volumes.forget(name)
        self.machines.remove_node(name)
        self._kubelets.forget(name)
        self._resizes.forget(name)
        self._shutdowns.forget(name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Record an event when the node is cordoned or uncordoned, as a kubelet does (S0-11)."""
        if old is None or new is None or old.spec.unschedulable == new.spec.unschedulable:
            return
        name = new.metadata.name
        if name in self._allocations:
            reason = "NodeNotSchedulable" if new.spec.unschedulable else "NodeSchedulable"
            self._events.of_node(new, NORMAL, reason, f"Node {name} status is now: {reason}")

    def _record_of_node(self, node: Node, event: NodeEvent) -> None:
        """Record all warnings, and normal events as far as the kubelet's rate limit allows."""
        if event.type != NORMAL or self._event_limit.take(monotonic(), 1):
            self._events.of_node(node, event.type, event.reason, event.message)

    # -- pods

    def _pod_event(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if new is None:
            if pod.spec.node_name in self._allocations or pod.metadata.uid in self._runs:  # its node may be gone
                self._forget(pod)
            return
        if new.spec.node_name not in self._allocations:
            return
        if new.is_finished:  # at once: by now the scheduler may have given its room to another
            self._release(new)
        if not self._is_own_report(new):
            self._queue.add(pod.metadata.key)

    def _is_own_report(self, pod: Pod) -> bool:
        """Whether this version is our own last status update: nothing new to do then."""
        run = self._runs.get(pod.metadata.uid)
        return run is not None and run.reported_version == pod.metadata.resource_version

    def _forget(self, pod: Pod) -> None:
        self._release(pod)
        self._volumes.release(pod)
        self.machines.remove_pod(pod)
        if (run := self._runs.pop(pod.metadata.uid, None)) is not None:
            self._config_sources.settle(pod, run.needs, is_waiting=False)
            self._devices.forget(pod)

    def _release(self, pod: Pod) -> None:
        if (allocation := self._allocations.get(pod.spec.node_name)) is not None:
            allocation.release(pod.metadata.uid)
        self._cpus.release(pod)
        self._retry_resizes(pod.spec.node_name)
        for key in self._awaited.pop(pod.metadata.uid, ()):
            self._queue.add(key)

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self._allocations:
            return
        moment = now()
        run = self._run(pod, moment)
        run.corrects_until = self._corrects_until.get(pod.spec.node_name, 0.0)
        if not pod.is_finished and run.deleted_at is None and await self._refused(pod, run):
            return
        found = await self._config_sources.found(pod, run.needs) if run.deleted_at is None else NOTHING
        if run.deleted_at is None and not run.has_sandbox:
            await self._devices.look(pod)
        if not run.is_over and not pod.is_finished and run.deleted_at is None:
            await self._volumes.look(pod, is_starting=not run.has_sandbox)
        next_ = run.step(pod, self._addresses(pod, run), moment, found)
        self._config_sources.settle(pod, run.needs, is_waiting=run.is_starting)
        if next_.wants_resize and self._resize(pod, moment):
            next_ = run.step(pod, self._addresses(pod, run), moment, found)
        self.machines.put_pod(run.in_force(pod), run)
        if run.is_over or pod.is_finished or next_.is_gone:
            self._volumes.release(pod)
        if next_.status is not None:
            await self._report(pod, run, next_.status)
        self._record(pod, run.reported())
        if next_.is_gone:
            await self._remove(pod)
        if next_.wake_at is not None:
            self._queue.add_after(key, next_.wake_at - moment)

    def _resize(self, pod: Pod, moment: float) -> bool:
        """Decide about a pod that wants another size, and about others that wait; whether there is news of this one."""
        name = pod.spec.node_name
        allocation, node = self._allocations[name], self._nodes.get(name)
        if node is None:
            return False
        pods = {found.metadata.uid: (found, run) for found, run in self._admitted(name)}
        decided = self._resizes.decide(
            pod.metadata.uid, node, pods | {pod.metadata.uid: (pod, self._run(pod, moment))}, moment
        )
        for uid, amounts_ in decided.held.items():
            found = pods[uid][0]
            allocation.hold(uid, amounts_, host_ports_of(found))
            if uid != pod.metadata.uid:
                self._queue.add(found.metadata.key)
        self._make_room(pod, decided.preempted)
        for event in decided.events:
            about = pods[event.pod["metadata"]["uid"]][0]
            self._record(about, [Note(event.type, event.reason, event.message)])
        return pod.metadata.uid in decided.held

    def _resize_terms(self, node: str) -> Terms:
        configuration = self._kubelets.settings(node).configured.configuration
        settings = ResizeSettings(configuration.cpu_manager_policy, configuration.memory_manager_policy)
        return Terms(settings, self.machines.conditions(node))

    def _retry_resizes(self, node: str) -> None:
        """There is more room on the node."""
        if (uid := self._resizes.first(node)) is not None and (run := self._runs.get(uid)) is not None:
            self._queue.add(run.key)

    def _run(self, pod: Pod, moment: float) -> PodRun:
        run = self._runs.get(pod.metadata.uid)
        if run is None:
            self._last_address += 1
            configured = self._kubelets.settings(pod.spec.node_name).configured
            run = PodRun(self._runtime, pod, self._last_address, moment, configured.longest_back_off)
            self._runs[pod.metadata.uid] = run
        if run.deleted_at is None and pod.metadata.is_terminating:
            run.deleted_at = moment
        return run

    async def _refused(self, pod: Pod, run: PodRun) -> bool:
        allocation, uid = self._allocations[pod.spec.node_name], pod.metadata.uid
        if uid in allocation.held:
            return self._waits_for_room(pod)
        admission, unplaced = NodeAdmission(), self._cpus.allocate(pod)
        if pod.status.phase != "Running":
            node = self._nodes.get(pod.spec.node_name)
            admission = admission_of(
                pod,
                node,
                allocation,
                lambda: self._others(pod, allocation),
                self.machines.conditions(pod.spec.node_name),
                self._overuse,
                unplaced,
                self._shutdowns.refusal(pod.spec.node_name),
            )
        if (refusal := admission.refusal) is None:
            held = allocated_amounts(pod, run) if run.is_resizing else wants(pod)
            allocation.hold(uid, held, host_ports_of(pod))
            self._make_room(pod, admission.preempted)
            return self._waits_for_room(pod)
        self._cpus.release(pod)
        evidence = self.machines.pressure(pod.spec.node_name) if refusal.reason == EVICTED else {}
        self._events.of_pod(pod, WARNING, refusal.reason, refusal.message, evidence)
        await self._report(pod, run, refusal.reported(pod.metadata.generation, timestamp()))
        return True

    def _others(self, pod: Pod, allocation: NodeAllocation) -> list[Pod]:
        """The other pods that the node has admitted."""
        return [
            neighbour for neighbour in self._pods if neighbour.metadata.uid in allocation.held and neighbour is not pod
        ]

    def _make_room(self, pod: Pod, victims: Iterable[Obj]) -> None:
        """Preempt pods for a critical one, which waits until they have stopped."""
        moment = now()
        for victim in victims:
            meta = victim["metadata"]
            doomed = self._pods.get(f"{meta['namespace']}/{meta['name']}")
            if doomed is None or doomed.metadata.uid != meta["uid"]:
                continue
            run = self._run(doomed, moment)
            run.kill = run.kill or kill_for_critical(doomed, moment)
            self._awaited.setdefault(meta["uid"], set()).add(pod.metadata.key)
            self._events.of_pod(doomed, WARNING, PREEMPTING, MESSAGE)
            self._queue.add(doomed.metadata.key)

    def _claim_capacity(self, key: str) -> int | None:
        return None if (claim := self._claims.get(key)) is None else claim.capacity.units

    def _usage_changed(self, namespace: str) -> None:
        """A usage profile of the namespace is another one now."""
        for pod in self._pods:
            if pod.metadata.namespace == namespace and pod.spec.node_name in self._allocations:
                self._queue.add(pod.metadata.key)

    def evict(self, pod: Pod, eviction: Eviction, evidence: Mapping[str, str]) -> None:
        """The node is short of something, or the pod has exceeded a limit of local storage: it has to go."""
        run = self._run(pod, moment := now())
        if run.kill is not None or run.deleted_at is not None:
            return
        stop_seconds = stop_timeout(eviction.grace_seconds)
        run.kill = PodKill(eviction.status(), eviction.condition(), stop_seconds, moment)
        annotations = {**(eviction.annotations or {}), **evidence}
        self._events.of_pod(pod, WARNING, EVICTED, eviction.message, annotations)
        self._queue.add(pod.metadata.key)

    def _running_on(self, node: str) -> list[Pod]:
        return [pod for pod, _ in self._admitted(node) if not pod.is_finished]

    def _admitted(self, node: str) -> Iterator[tuple[Pod, PodRun]]:
        """What the node has room set aside for."""
        for uid in self._allocations[node].held if node in self._allocations else ():
            run = self._runs.get(uid)
            pod = self._pods.get(run.key) if run is not None else None
            if run is not None and pod is not None and pod.metadata.uid == uid:
                yield pod, run

    def _end(self, pod: Pod, kill: PodKill) -> None:
        run = self._run(pod, kill.since)
        if run.kill is None and run.deleted_at is None:
            run.kill = kill
            self._queue.add(pod.metadata.key)

    def look_again(self, key: str) -> None:
        """Something has happened to the containers of that pod."""
        self._queue.add(key)

    def _waits_for_room(self, pod: Pod) -> bool:
        return any(pod.metadata.key in keys for keys in self._awaited.values())

    async def _report(self, pod: Pod, run: PodRun, status: Obj) -> None:
        """Write the status, if the pod has not changed since the status was worked out."""
        meta = pod.metadata
        patch = guarded({"status": status}, meta, unchanged=True)
        api = self._as_node(pod.spec.node_name)
        written = await api.patch(PODS, meta.name, meta.namespace, patch, PatchType.MERGE, subresource="status")
        run.reported_version = written.view(Versioned).metadata.resource_version

    def _record(self, pod: Pod, notes: list[Note]) -> None:
        """Record all warnings, and normal events as far as the kubelet's rate limit allows (S0-77)."""
        if not notes:
            return
        is_within_limit = self._event_limit.take(monotonic(), sum(note.type == NORMAL for note in notes))
        for note in notes:
            if is_within_limit or note.type != NORMAL:
                self._events.of_pod(pod, note.type, note.reason, note.message, path=note.path)

    async def _remove(self, pod: Pod) -> None:
        """Delete the pod, which has stopped; finalizers may still keep the object."""
        meta = pod.metadata
        if pod.is_finished and meta.deletion_grace_period_seconds == 0:
            return
        options = DeleteOptions(grace_period_seconds=0, precondition_uid=meta.uid)
        await self._as_node(pod.spec.node_name).delete(PODS, meta.name, meta.namespace, options)

    def _addresses(self, pod: Pod, run: PodRun) -> PodAddresses:
        number = run.address
        pod_ip = pod.status.pod_ip or f"10.{64 + (number >> 16 & 63)}.{number >> 8 & 255}.{number & 255}"
        return PodAddresses(self._registration.address(pod.spec.node_name), pod_ip)


def _allocatable(node: Obj) -> dict[str, int]:
    status = node.get("status") or {}
    return amounts(status.get("allocatable") or status.get("capacity") or {})
