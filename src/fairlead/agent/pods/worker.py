"""All pods of this node: each is taken a step when something happened to it, as its decisions say.

    watch: bound here ─▶ admitted ─▶ steps (`PodRun` over `ObservedRuntime`) ─▶ over: torn down ─▶ gone: deleted
                           └▶ refused: Failed

After a start the runtime may have more than the API server knows of: pods that were deleted meanwhile are torn down.
Static pods do not wait for an API server.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence, Set
from typing import Final

from fairlead.agent.pods.admission import admission_of, is_admitted
from fairlead.agent.pods.node_pods import NodePods
from fairlead.agent.pods.observed import ObservedRuntime
from fairlead.agent.pods.place import Place
from fairlead.agent.pods.real_pod import AGAIN_SECONDS, RealPod
from fairlead.agent.pods.remnants import RemnantCollector, remove_logs
from fairlead.agent.pods.resizing import PendingResizes, Sized, resize_settings
from fairlead.agent.runtimes.base import ContainerStatus
from fairlead.api.errors import NotFound
from fairlead.api.event_types import WARNING
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.client.worker import work_off
from fairlead.node.admission import Refusal
from fairlead.node.container_sync import Note
from fairlead.node.grace_periods import grace_period, stop_timeout
from fairlead.node.pod_lifecycle import PodKill, PodRun
from fairlead.node.preemption import MESSAGE, PREEMPTING, preempted_condition, preempted_status
from fairlead.node.start_requirements import NOTHING
from fairlead.node.status import PodAddresses
from fairlead.runtime.clock import ClockSteps, now, timestamp
from fairlead.runtime.turns import in_turns
from fairlead.runtime.workqueue import WorkQueue

#: How many pods are worked on at once.
WORKERS: Final = 16
#: How soon a source that a pod waits for is looked for again.
SOURCES_AGAIN_SECONDS: Final = 5.0
_ALLOCATION: Final = "devices of plugins"

log = logging.getLogger(__name__)


class PodWorker:
    """`node` is this node as it is now; `changed` is called when pods came or went; `closed` says why none is taken."""

    def __init__(
        self,
        place: Place,
        pods: NodePods,
        node: Callable[[], Node | None],
        pressures: Callable[[], Sequence[str]],
        changed: Callable[[], None],
        closed: Callable[[], Refusal | None] = lambda: None,
    ) -> None:
        self._place, self._pods, self._closed = place, pods, closed
        self._node, self._pressures, self._changed = node, pressures, changed
        self._queue: WorkQueue[str] = WorkQueue()
        self._runs: dict[str, PodRun] = {}  # by uid, as the next
        self._real: dict[str, RealPod] = {}
        self._admitted: set[str] = set()
        self._is_complete = False  # whether all pods are known, and nothing runs of any other
        self._resizes = PendingResizes(resize_settings(place.configured))
        self._departed: dict[str, set[str]] = {}  # by key: uids of pods that are gone from the API
        self._runtime = ObservedRuntime(self._real.__getitem__)
        self._remnants = RemnantCollector(place, pods, self.holds)
        self._clock_steps = ClockSteps()

    @property
    def admitted(self) -> Sequence[Obj]:
        """The pods that this node has taken and that have not ended."""
        return [real.sized for uid in self._admitted if (real := self._real.get(uid)) is not None]

    @property
    def admitted_uids(self) -> Set[str]:
        return self._admitted

    def holds(self, uid: str) -> bool:
        """Whether there still is anything of that pod that takes room, also when it has ended."""
        real = self._real.get(uid)
        return uid in self._admitted or (real is not None and real.sandbox is not None)

    async def run(self) -> None:
        """Until cancelled. What pods come from must be running."""
        self._place.runtime.subscribe(self._container_ended)
        self._place.runtime.subscribe_lost(self._sandbox_lost)
        self._place.devices.subscribe_health(self._device_told_of)
        self._place.device_plugins.subscribe_health(self._device_told_of)
        self._pods.subscribe_static(self._pod_event)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_from_api(), name="pods of the API server")
            for _ in range(WORKERS):
                group.create_task(work_off(self._queue, "pod", self._sync), name="pod worker")
            group.create_task(self._refresh(), name="volumes")
            group.create_task(self._place.topology.run(self._place.runtime, self._has_own), name="topology")

    async def close(self) -> None:
        """Stop looking after pods; they run on."""
        for real in self._real.values():
            await real.close()

    def evict(self, uid: str, kill: PodKill) -> bool:
        """End a pod because of the node; False if it is about to end anyway."""
        self._moment()
        run = self._runs.get(uid)
        if run is None or run.kill is not None or run.deleted_at is not None:
            return False
        run.kill = kill
        self._queue.add(run.key)
        return True

    @property
    def real_pods(self) -> Sequence[RealPod]:
        """Those that are looked after."""
        return list(self._real.values())

    def is_static(self, real: RealPod) -> bool:
        return self._pods.is_static(real.pod)

    def real_pod(self, uid: str) -> RealPod | None:
        return self._real.get(uid)

    # -- what happens

    def _pod_event(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._departed.setdefault(old.metadata.key, set()).add(old.metadata.uid)
            self._queue.add(old.metadata.key)
        elif not self._is_own_report(new):
            self._queue.add(new.metadata.key)

    def _is_own_report(self, pod: Pod) -> bool:
        run = self._runs.get(pod.metadata.uid)
        return run is not None and run.reported_version == pod.metadata.resource_version

    def _container_ended(self, status: ContainerStatus) -> None:
        if (real := self._real.get(status.pod_uid)) is not None:
            real.ended(status.id)

    def _sandbox_lost(self, uid: str) -> None:
        if (real := self._real.get(uid)) is not None:
            real.lost_sandbox()

    def _device_told_of(self, uid: str) -> None:
        if (run := self._runs.get(uid)) is not None:
            run.show_again()
            self._queue.add(run.key)

    async def _take_from_api(self) -> None:
        await self._pods.synced()
        await self._remnants.collect()
        self._is_complete = True
        self._pods.subscribe(self._pod_event)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._remnants.sweep(), name="remnants")
            group.create_task(self._place.devices.run(self._is_active), name="claims of devices")
            group.create_task(self._place.device_plugins.reconcile(self._unfinished), name="devices of plugins")

    def _has_own(self, uid: str) -> bool:
        """Whether the pod may have CPUs and memory of its own still; before all are known, whoever had some may."""
        return not self._is_complete or uid in self._unfinished()

    def _is_active(self, uid: str) -> bool:
        return uid in self._real or any(pod.metadata.uid == uid and not pod.is_finished for pod in self._pods)

    def _unfinished(self) -> Set[str]:
        return self._admitted | {pod.metadata.uid for pod in self._pods if not pod.is_finished}

    # -- one step

    async def _sync(self, key: str) -> None:
        pod = self._pods.get(key)
        await self._forget_others(key, pod)
        if pod is None:
            return
        uid = pod.metadata.uid
        if pod.is_finished and uid not in self._runs and not pod.metadata.deletion_timestamp:
            await self._known(pod)  # of an earlier agent: its logs are read still
            return
        run, real = await self._taken_up(pod)
        real.allocated = run.size(pod).allocated
        if not pod.is_finished and run.deleted_at is None and await self._is_refused(pod, run, real):
            return
        found = NOTHING
        if run.deleted_at is None and run.is_starting and run.needs.sources:
            found = await self._place.sources.found(pod.metadata.namespace, run.needs.sources)
            if any(keys is None for keys in found.values()):
                self._queue.add_after(key, SOURCES_AGAIN_SECONDS)
        moment = self._runtime.now = self._moment()  # nobody else has a turn until all is decided by it
        step = run.step(pod, self._addresses(pod, real), moment, found)
        if step.wants_resize and self._resize(uid, moment):
            step = run.step(pod, self._addresses(pod, real), moment, found)
        if run.is_over or step.is_gone or pod.is_finished:
            self._release(uid)  # who hears of its end may be given its room at once
        if step.status is not None:
            await self._report(pod, run, real, step.status)
        self._place.events.tell(pod, run.reported())
        if step.is_gone:
            await self._remove(pod, real)
        elif run.is_over or pod.is_finished:
            real.errands.ask("tear down", real.tear_down)
        elif step.wake_at is not None and not math.isinf(step.wake_at):
            self._queue.add_after(key, step.wake_at - moment)

    def _moment(self) -> float:
        """Now; what was begun before somebody has set the clock goes on as if nobody had."""
        if by := self._clock_steps.since_last():
            for run in self._runs.values():
                run.clock_set(by)
        return now()

    async def _known(self, pod: Pod) -> RealPod:
        uid, key = pod.metadata.uid, pod.metadata.key
        real = self._real.get(uid)
        if real is None or not _shows(real.manifest, pod):
            manifest = await self._pods.manifest(pod)
            if real is None:
                real = self._real[uid] = RealPod(self._place, pod, manifest, lambda: self._queue.add(key))
                real.current = _current(pod)
            real.manifest = manifest
        real.pod = pod
        return real

    async def _taken_up(self, pod: Pod) -> tuple[PodRun, RealPod]:
        uid, real = pod.metadata.uid, await self._known(pod)
        run = self._runs.get(uid)
        if run is None:
            run = PodRun(self._runtime, pod, 0, self._moment(), self._place.configured.longest_back_off)
            run.corrects_until = math.inf
            if run.has_sandbox and self._place.runtime.has_sandbox(uid):  # an earlier agent made it
                await self._make_again(real)
            self._runs[uid] = run
        if run.deleted_at is None and pod.metadata.is_terminating:
            run.deleted_at = self._moment()
        return run, real

    async def _make_again(self, real: RealPod) -> None:
        if not await real.make_sandbox():
            raise OSError(f"the sandbox of pod {real.pod.metadata.key} cannot be made again")
        await real.set_up_volumes()

    async def _is_refused(self, pod: Pod, run: PodRun, real: RealPod) -> bool:
        uid = pod.metadata.uid
        if uid in self._admitted:
            return False
        node = self._node()
        if node is None:
            raise NotFound("this node is not registered yet")
        plugins, problem, devices = self._place.device_plugins, None, dict[str, int]()
        if not is_admitted(real.manifest) and plugins.concern(real.manifest):
            allocated = real.errands.ask(_ALLOCATION, real.allocate_devices)
            if allocated is None:
                return True  # nobody knows yet
            problem, devices = next(iter(allocated), None), dict(plugins.taken())
        allowed_sysctls = self._place.configured.configuration.allowed_unsafe_sysctls
        admission = admission_of(
            real.manifest,
            node,
            self.admitted,
            self._pressures(),
            allowed_sysctls,
            unplaced=self._place.topology.allocate(real.sized, self._has_own, real.device_hints()),
            has_root=self._place.runtime.has_users,
            has_apparmor=self._place.has_apparmor,
            has_selinux=self._place.has_selinux,
            no_devices=problem,
            devices=devices,
            closed=self._closed(),
        )
        if admission.refusal is not None or admission.preempted:
            self._place.topology.release(uid)
        if (refusal := admission.refusal) is not None:
            self._place.events.tell(pod, [Note(WARNING, refusal.reason, refusal.message)])
            self._place.metrics.refused(refusal.reason)
            plugins.release(uid)
            real.errands.forget(_ALLOCATION)
            await self._report(pod, run, real, refusal.reported(pod.metadata.generation, timestamp()))
            return True
        if admission.preempted:
            self._preempt(admission.preempted)
            self._queue.add_after(pod.metadata.key, 1.0)
            return True
        self._admitted.add(uid)
        self._changed()
        await self._place.topology.keep()
        return False

    def _resize(self, uid: str, moment: float) -> bool:
        """Decide about a pod that wants another size, and about others that wait; whether there is news of this one."""
        node, names = self._node(), [each for each in self._admitted if each in self._runs]
        if node is None or uid not in names:
            return False
        pods = {each: Sized(self._real[each], self._runs[each]) for each in names}
        decided = self._resizes.decide(uid, node, pods, self._pressures(), moment)
        for each in decided.changed:
            self._real[each].allocated = self._runs[each].size(self._real[each].pod).allocated
            if each != uid:
                self._queue.add(self._runs[each].key)
        self._preempt(decided.preempted)
        if decided.changed:
            self._changed()
        return uid in decided.changed

    def _retry_resizes(self) -> None:
        """There is more room."""
        if (uid := self._resizes.first) is not None and (run := self._runs.get(uid)) is not None:
            self._queue.add(run.key)

    def _preempt(self, victims: Sequence[Obj]) -> None:
        for victim in victims:
            uid, moment = victim["metadata"]["uid"], self._moment()
            stop_seconds = stop_timeout(grace_period(victim).seconds)
            kill = PodKill(preempted_status(), preempted_condition(), stop_seconds, moment)
            if self.evict(uid, kill) and (real := self._real.get(uid)) is not None:
                real.tell(Note(WARNING, PREEMPTING, MESSAGE))

    def _addresses(self, pod: Pod, real: RealPod) -> PodAddresses:
        own = real.addresses[0] if real.addresses else pod.status.pod_ip
        return PodAddresses(self._place.node_ip, own)

    async def _report(self, pod: Pod, run: PodRun, real: RealPod, status: Obj) -> None:
        plugins, has_claims = self._place.device_plugins, pod.spec.raw_resource_claims
        is_given = plugins.has(pod.metadata.uid)
        for shown in status.get("containerStatuses") or () if has_claims or is_given else ():
            health = plugins.shown_health(pod.metadata.uid, shown["name"])
            if has_claims:
                health += self._place.devices.shown_health(pod, real.container(shown["name"]))
            if health:
                shown["allocatedResourcesStatus"] = health
        real.reported(await self._pods.report(pod, status))
        run.reported_version = real.manifest["metadata"]["resourceVersion"]

    # -- the end

    async def _remove(self, pod: Pod, real: RealPod) -> None:
        """Delete the pod, of which nothing runs any more."""
        await real.tear_down()
        await self._pods.remove(pod)

    async def _forget_others(self, key: str, pod: Pod | None) -> None:
        """Tear down those of that name that are gone, however that happened; a static pod may be back already.

        As in a kubelet only a static pod waits until that is done.
        """
        for uid, real in list(self._real.items()):
            is_present = pod is not None and uid == pod.metadata.uid and uid not in self._departed.get(key, ())
            if real.pod.metadata.key != key or is_present:
                continue
            try:
                await real.tear_down()
            except OSError as failure:
                if pod is None or self._pods.is_static(pod):
                    raise
                log.warning("an earlier pod %s: %s", key, failure)
                self._queue.add_after(key, AGAIN_SECONDS)
                continue
            self._departed.setdefault(key, set()).add(uid)
            self._release(uid)
            del self._real[uid]
            self._runs.pop(uid, None)
        for uid in self._departed.pop(key, ()):
            await asyncio.to_thread(remove_logs, self._place, uid)

    def _release(self, uid: str) -> None:
        self._place.topology.release(uid)
        self._place.device_plugins.release(uid)
        if uid in self._admitted:
            self._admitted.discard(uid)
            self._changed()
            self._retry_resizes()

    async def _refresh(self) -> None:
        """What came from the API is never older."""
        while True:
            await asyncio.sleep(self._place.configured.configuration.sync_frequency)
            self._retry_resizes()
            sources = self._place.sources.for_a_round()
            async for uid in in_turns(list(self._admitted)):
                if (real := self._real.get(uid)) is not None and real.sandbox is not None:
                    await real.refresh_volumes(sources)


def _shows(manifest: Obj, pod: Pod) -> bool:
    """Whether it says what this version of the pod says: labels and annotations change without a new generation."""
    meta, shown = manifest["metadata"], pod.metadata
    known = meta.get("generation", 0), meta.get("labels") or {}, meta.get("annotations") or {}
    return known == (shown.generation, shown.labels, shown.annotations)


def _current(pod: Pod) -> dict[str, str]:
    """Which runs of its containers the API server knows of: from there its decisions go on."""
    shown = pod.status
    statuses = (*shown.init_container_statuses, *shown.container_statuses, *shown.ephemeral_container_statuses)
    return {status.name: status.container_id.rpartition("/")[2] for status in statuses if status.container_id}
