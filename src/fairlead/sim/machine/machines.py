"""The machines of a fleet: told what runs where, they kill, evict and show what their nodes are short of.

A node on which nobody declares any usage costs nothing: its pods use a share of what they request, so nothing happens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import msgspec

from fairlead.api.builtin import NODES
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.nodes import Node
from fairlead.api.pods import Container, Pod
from fairlead.api.verbs import Api
from fairlead.client.worker import work_off
from fairlead.node.conditions import NodeHealth, node_conditions
from fairlead.node.configuration.load import Configured
from fairlead.node.container_runtime import Exit
from fairlead.node.containers import OOM_KILLED, SIGKILLED
from fairlead.node.eviction.manager import Eviction, PassOutcome
from fairlead.node.eviction.messages import THRESHOLD_MET, attempting_to_reclaim
from fairlead.node.eviction.ranking import Overuse
from fairlead.node.eviction.signals import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE
from fairlead.node.evidence import OOM_SCORES, PRESSURE, RANKING, STORAGE_USE, StorageUse, annotation, pressure
from fairlead.node.oom import SYSTEM_OOM, system_oom_message
from fairlead.node.plan import NodeEvent
from fairlead.node.pod_lifecycle import PodRun
from fairlead.runtime.clock import now, timestamp
from fairlead.runtime.workqueue import WorkQueue
from fairlead.sim.machine.cpu import CpuAccount, is_steady, quota_cores
from fairlead.sim.machine.hardware import hardware_of
from fairlead.sim.machine.kernel import OomKill
from fairlead.sim.machine.load import MOST_PROCESSES
from fairlead.sim.machine.machine import SimulatedMachine
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.machine.own_limit import LimitKills, limit_kills, memory_limit
from fairlead.sim.machine.throttling import Throttled, Throttling
from fairlead.sim.machine.volume_measurements import ClaimCapacity
from fairlead.sim.node_events import NodeEvents, WarningLimits
from fairlead.sim.usage.declarations import PodUsageModels
from fairlead.sim.usage.declared import INVALID_USAGE, declares_usage, node_usage, pod_usage
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.profiles import Profile, Profiles
from fairlead.sim.usage.resolving import DEFAULT

PRESSURES = (MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE)
#: Of ours, on the pod: a cgroup has no memory left, though no container exceeds its own limit.
OOM_KILLING = "OOMKilling"

log = logging.getLogger(__name__)


class PodEffects(Protocol):
    """What a machine makes of its pods."""

    def evict(self, pod: Pod, eviction: Eviction, evidence: Mapping[str, str]) -> None: ...

    def look_again(self, key: str) -> None: ...


class _NodeEntry(msgspec.Struct):
    """A node of the fleet."""

    node: Node
    #: None while nobody declares any usage there.
    machine: SimulatedMachine | None = None
    #: Until then, what somebody who wanted figures is shown; kept up to date from then on.
    idle: SimulatedMachine | None = None
    #: The pods that run there, by uid.
    pods: dict[str, PodRun] = msgspec.field(default_factory=dict)
    #: Pressures that the node shows.
    shown: tuple[str, ...] = ()
    #: How many pods it has evicted, by signal.
    evictions: Counter[str] = msgspec.field(default_factory=Counter)
    #: By uid and container: which run loses its children to its own limit, and when.
    child_deaths: dict[tuple[str, str], tuple[float, float]] = msgspec.field(default_factory=dict)
    warnings: WarningLimits = msgspec.field(default_factory=lambda: WarningLimits(now()))
    throttling: Throttling = msgspec.field(default_factory=Throttling)
    #: What has come together of its cpu, once somebody has asked; it goes with the node.
    cpu: CpuAccount | None = None


class Machines:
    def __init__(
        self,
        as_node: Callable[[str], Api],
        effects: PodEffects,
        events: NodeEvents,
        profiles: Profiles,
        configured: Callable[[Node], Configured],
        find: Callable[[str], Pod | None],
        claim_capacity: ClaimCapacity,
        record: Callable[[Node, NodeEvent], None],
        overuse: Overuse | None = None,
    ) -> None:
        """`find` finds a pod by its key: the fleet keeps them. `overuse`: pods of overused namespaces go first.

        `record` is told what a kubelet tells of its node.
        """
        self.claim_capacity, self._record = claim_capacity, record
        self._as_node, self._effects, self._events = as_node, effects, events
        self._profiles, self._configured, self._find, self._overuse = profiles, configured, find, overuse
        self._nodes: dict[str, _NodeEntry] = {}
        self._followers: list[Callable[[str], None]] = []
        self._throttled_before = 0.0  # on nodes that are gone
        self._looks: WorkQueue[str] = WorkQueue()
        #: By uid, of pods that declare theirs: of which version and profile that was made.
        self._usages: dict[str, tuple[str, Profile | None, PodUsageModels]] = {}
        #: Of the pod that was asked about last: under which profile, and whether it declares any.
        self._asked: tuple[Pod, Profile | None, bool] | None = None
        self._own: dict[
            tuple[str, str], tuple[float, PodUsageModels, int | None, LimitKills]
        ] = {}  # by uid and container
        self._killed: dict[tuple[str, str], tuple[float, float]] = {}  # the same: when it started, and was killed
        self._childless: dict[tuple[str, str], float] = {}  # the same: when it started that lost its children

    async def run(self) -> None:
        """Look at machines when it is time, until cancelled."""
        await work_off(self._looks, "node", self._look)

    # -- what the fleet tells

    def put_node(self, node: Node) -> None:
        """A node has come, or has changed."""
        name = node.metadata.name
        entry = self._nodes.get(name)
        if entry is None:
            entry = self._nodes[name] = _NodeEntry(node, shown=_shown(node))
        before, entry.node = entry.node, node
        self._changed(name)
        is_declared = bool(node_usage(node).measures) or bool(entry.shown)
        if entry.machine is None:
            entry.idle = None
            if is_declared:
                self._watch(entry)
            return
        configured = self._configured(node)
        if entry.machine.configured is not configured or hardware_of(before) != hardware_of(node):
            entry.machine.configure(hardware_of(node), configured, now())
        if before.metadata.annotations != node.metadata.annotations or hardware_of(before) != hardware_of(node):
            self._declare(entry)
        self._looks.add(name)

    def remove_node(self, name: str) -> None:
        if (entry := self._nodes.pop(name, None)) is not None:
            self._throttled_before += entry.throttling.seconds(now())
            self._changed(name)

    def put_pod(self, pod: Pod, run: PodRun) -> None:
        """What runs of the pod may have changed."""
        entry, present = self._nodes.get(pod.spec.node_name), self._find(pod.metadata.key)
        if entry is None or present is None or present.metadata.uid != pod.metadata.uid:
            return  # by now one of them is gone
        entry.pods[pod.metadata.uid] = run
        if entry.machine is None:
            if declares_usage(pod, self._profiles):
                self._watch(entry)
            elif entry.idle is not None:
                self._enter(entry, entry.idle, pod, run, now())
        elif self._enter(entry, entry.machine, pod, run, now()):
            self._looks.add(pod.spec.node_name)

    def remove_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._usages.pop(uid, None)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            for runs in (self._own, self._killed, self._childless):
                runs.pop((uid, container.name), None)
        if (entry := self._nodes.get(pod.spec.node_name)) is None:
            return
        entry.pods.pop(uid, None)
        for key in [key for key in entry.child_deaths if key[0] == uid]:
            del entry.child_deaths[key]
        entry.throttling.remove(uid, now())
        machine = entry.machine or entry.idle
        if machine is not None and uid in machine.pods:
            machine.remove(uid, now())
            if machine is entry.machine:
                self._looks.add(pod.spec.node_name)

    # -- what the fleet asks

    def conditions(self, name: str) -> tuple[str, ...]:
        """The pressures that the node's kubelet knows of."""
        entry = self._nodes.get(name)
        return entry.machine.eviction.conditions if entry is not None and entry.machine is not None else ()

    def pressure(self, name: str) -> dict[str, str]:
        """Why it shows these conditions, as an annotation of an event."""
        entry = self._nodes.get(name)
        if entry is None or entry.machine is None:
            return {}
        return {PRESSURE: annotation(pressure(entry.machine.eviction))}

    def pods_memory_bytes(self, name: str) -> int:
        """What the pods of the node use that the kernel cannot take back; nothing where nobody declares any usage."""
        entry = self._nodes.get(name)
        return 0 if entry is None or entry.machine is None else entry.machine.pods_memory_bytes(now())

    def evictions(self, name: str) -> Mapping[str, int]:
        entry = self._nodes.get(name)
        return {} if entry is None else entry.evictions

    def memory_exit(self, pod: Pod, container: Container, started_at: float) -> Exit | None:
        """How the kernel ends a container that started then because of memory, as far as that is known."""
        key = (pod.metadata.uid, container.name)
        started, killed_at = self._killed.get(key, (0.0, 0.0))
        if started == started_at and killed_at:
            return Exit(killed_at, SIGKILLED, OOM_KILLED)
        if not self._declares(pod):
            return None
        at = self._own_limit(pod, container, started_at).container_at
        return None if at is None else Exit(at, SIGKILLED, OOM_KILLED)

    def _declares(self, pod: Pod) -> bool:
        """`declares_usage`, which looks at all containers of the pod, and is asked here for one after the other."""
        profile = self._profiles.select(pod) if self._profiles else None
        if self._asked is None or self._asked[0] is not pod or self._asked[1] is not profile:
            self._asked = pod, profile, declares_usage(pod, self._profiles)
        return self._asked[2]

    def node(self, name: str) -> Node | None:
        entry = self._nodes.get(name)
        return None if entry is None else entry.node

    def memory_bytes(self, pod: Pod, container: Container, started_at: float, now_: float) -> int:
        """How much memory a container that started then uses now."""
        usage = self.usage(pod)
        models = [usage.model(container.name, measure) for measure in (Measure.MEMORY, Measure.CHILD_MEMORY)]
        models += usage.in_memory(container.name)
        return int(sum(model.at(now_, started_at) for model in models if model is not None))

    def machine(self, name: str) -> SimulatedMachine | None:
        """The machine as it is now, for whoever wants its figures; one where nobody declares usage is made for that."""
        entry = self._nodes.get(name)
        if entry is None:
            return None
        if entry.machine is None and entry.idle is None:
            entry.idle = self._made(entry, now())
        return entry.machine or entry.idle

    def stands_still(self, name: str) -> bool:
        """Whether what is measured of the node's pods stays the same until followers are told of a change there."""
        machine = self.machine(name)
        return machine is not None and machine.is_still and is_steady(machine)

    def follow(self, changed: Callable[[str], None]) -> None:
        """`changed` is called with the name of a node where something comes, goes or is set anew."""
        self._followers.append(changed)

    def cpu_account(self, name: str) -> CpuAccount:
        """Of a node that is there; it begins with what runs on it when it is first asked for."""
        entry = self._nodes[name]
        if entry.cpu is None:
            starts = [since for run in entry.pods.values() for since in run.running.values()]
            entry.cpu = CpuAccount(min(starts, default=now()))
        return entry.cpu

    def declared(self) -> dict[str, SimulatedMachine]:
        """By node, the machines of those on which somebody declares usage."""
        return {name: entry.machine for name, entry in self._nodes.items() if entry.machine is not None}

    def throttled_seconds(self) -> float:
        """For how long quotas have held containers back, on all nodes together."""
        moment = now()
        return self._throttled_before + sum(entry.throttling.seconds(moment) for entry in self._nodes.values())

    # -- inside

    def _own_limit(self, pod: Pod, container: Container, started_at: float) -> LimitKills:
        key, usage = (pod.metadata.uid, container.name), self.usage(pod)
        known = self._own.get(key)
        limit = memory_limit(pod, container)
        if known is not None and known[0] == started_at and known[1] is usage and known[2] == limit:
            return known[3]
        is_resized = known is not None and known[0] == started_at and known[2] != limit
        after = now() if is_resized else started_at
        entry = self._nodes.get(pod.spec.node_name)
        is_single = entry is not None and self._is_single_kill(entry)
        kills = LimitKills()
        if limit:
            kills = limit_kills(usage, container.name, limit, started_at, after, is_single=is_single)
        self._own[key] = (started_at, usage, limit, kills)
        if entry is not None and kills.child_at is not None:
            entry.child_deaths[key] = started_at, kills.child_at
            self._looks.add_after(pod.spec.node_name, kills.child_at - now())
        return kills

    def _is_single_kill(self, entry: _NodeEntry) -> bool:
        if entry.machine is not None:
            return entry.machine.is_single_kill
        version = hardware_of(entry.node).cgroup_version
        return self._configured(entry.node).configuration.is_single_process_oom_kill(version)

    def usage(self, pod: Pod) -> PodUsageModels:
        """The same object as long as nothing about it changes."""
        uid = pod.metadata.uid
        known, version = self._usages.get(uid), pod.metadata.resource_version
        profile = self._profiles.select(pod) if self._profiles else None
        if known is not None and known[0] == version and known[1] is profile:
            return known[2]
        usage = pod_usage(pod, self._profiles)
        if not usage.is_declared and not usage.problems and profile is None:
            self._usages.pop(uid, None)
            return usage
        if known is not None and known[2] == usage:
            usage = known[2]
        elif known is None or known[2].problems != usage.problems:
            for problem in usage.problems:
                self._events.of_pod(pod, WARNING, INVALID_USAGE, problem)
        self._usages[uid] = (version, profile, usage)
        return usage

    def _watch(self, entry: _NodeEntry) -> None:
        """Somebody declares usage on this node: look at it from now on."""
        entry.machine, entry.idle = self._made(entry, now()), None
        self._declare(entry)
        self._looks.add(entry.node.metadata.name)

    def _made(self, entry: _NodeEntry, moment: float) -> SimulatedMachine:
        machine = self._empty(entry)
        self._enter_all(entry, machine, moment)
        return machine

    def _empty(self, entry: _NodeEntry) -> SimulatedMachine:
        changed = partial(self._changed, entry.node.metadata.name)
        return SimulatedMachine(hardware_of(entry.node), self._configured(entry.node), self._overuse, now(), changed)

    def _changed(self, name: str) -> None:
        for changed in self._followers:
            changed(name)

    def _enter_all(self, entry: _NodeEntry, machine: SimulatedMachine, moment: float) -> None:
        for run in entry.pods.values():
            if (pod := self._find(run.key)) is not None:
                self._enter(entry, machine, pod, run, moment)

    def _declare(self, entry: _NodeEntry) -> None:
        assert entry.machine is not None
        usage = node_usage(entry.node)
        entry.machine.declare(usage, now())
        for problem in usage.problems:
            self._events.of_node(entry.node, WARNING, INVALID_USAGE, problem)

    def _enter(self, entry: _NodeEntry, machine: SimulatedMachine, pod: Pod, run: PodRun, moment: float) -> bool:
        """Tell the machine what runs of the pod now; returns whether that is news."""
        uid = pod.metadata.uid
        usage = self.usage(pod)
        started = {
            name: since for name, since in run.running.items() if self._killed.get((uid, name), (0.0,))[0] != since
        }
        children = frozenset(
            name for name, since in started.items() if self._has_lost_children(pod, name, since, moment)
        )
        known = machine.pods.get(uid)
        if known is not None and known.is_like(pod, usage, started, children):
            return False
        if known is None and not started:
            return False
        limit = machine.configured.configuration.pod_pids_limit
        most = limit if limit > 0 else MOST_PROCESSES
        present = MachinePod(pod, usage, started, children, self._find, machine.logs, most)
        machine.put(present, moment)
        entry.throttling.put(uid, _throttled(machine, present), moment)
        return True

    def _has_lost_children(self, pod: Pod, name: str, since: float, moment: float) -> bool:
        if self._childless.get((pod.metadata.uid, name)) == since:
            return True
        known = self._own.get((pod.metadata.uid, name))
        if known is None or known[0] != since:
            return False
        child_at = known[3].child_at
        return child_at is not None and child_at <= moment

    async def _look(self, name: str) -> None:
        entry = self._nodes.get(name)
        if entry is None or entry.machine is None:
            return
        moment = now()
        self._lose_children(entry, entry.machine, moment)
        if (event := entry.machine.enforce(moment)) is not None:
            self._record(entry.node, event)
        kills, outcome, next_at, events = entry.machine.look(moment)
        for told in events:
            self._record(entry.node, told)
        for kill in kills:
            self._kill(entry, kill, moment)
        due = [at for at in (next_at, *(at for _, at in entry.child_deaths.values())) if at is not None]
        if due:  # of the moments at which a node is to be looked at the queue keeps the next alone
            self._looks.add_after(name, max(min(due) - moment, 0.001))
        try:  # who waits for room must not come before it is known that there is none
            if set(entry.machine.eviction.conditions) != set(entry.shown):
                await self._show(entry, entry.machine.eviction.conditions)
        finally:
            if outcome is not None:
                self._act(entry, outcome)
        if kills:
            await asyncio.sleep(0)

    def _lose_children(self, entry: _NodeEntry, machine: SimulatedMachine, moment: float) -> None:
        """Children that their container's own limit has ended by now use nothing any more."""
        due = [key for key, (_, at) in entry.child_deaths.items() if at <= moment]
        for key in due:
            since, _ = entry.child_deaths.pop(key)
            uid, name = key
            self._childless[key] = since
            if (pod := machine.pods.get(uid)) is not None and pod.started.get(name) == since:
                machine.put(pod.running(pod.started, pod.without_children | {name}), moment)

    def _kill(self, entry: _NodeEntry, kill: OomKill, moment: float) -> None:
        name = kill.container
        key, since = (kill.pod.uid, name), kill.pod.started[name]
        if kill.is_child:
            self._childless[key] = since
            return
        self._killed[key] = (since, moment)
        self._tell_kill(entry, kill)
        self._effects.look_again(kill.pod.key)

    def _tell_kill(self, entry: _NodeEntry, kill: OomKill) -> None:
        """Of a cgroup without memory a kubelet says nothing; then nobody could tell who else was there."""
        scores = {OOM_SCORES: annotation(kill.scores)}
        if not kill.scores.cgroup:
            if not entry.warnings.may_warn(now()):
                return
            message = system_oom_message(kill.container, 1 + len(self._killed))
            self._events.of_node(entry.node, WARNING, SYSTEM_OOM, message, scores)
        elif (pod := self._find(kill.pod.key)) is not None and entry.warnings.may_tell_kill(now()):
            message = f"Memory cgroup {kill.scores.cgroup} is out of memory: killed container {kill.container}"
            self._events.of_pod(pod, WARNING, OOM_KILLING, message, scores)

    def _act(self, entry: _NodeEntry, outcome: PassOutcome) -> None:
        assert entry.machine is not None
        if outcome.starved_resource and entry.warnings.may_warn(now()):
            message = attempting_to_reclaim(outcome.starved_resource)
            self._events.of_node(entry.node, WARNING, THRESHOLD_MET, message)
        for eviction in outcome.evictions:
            pod = self._find(f"{eviction.candidate.namespace}/{eviction.candidate.name}")
            if pod is not None and pod.metadata.uid == eviction.candidate.uid:
                entry.evictions[eviction.signal] += 1
                evidence = {RANKING: annotation(entry.machine.ranking)} if outcome.starved_resource else {}
                if eviction.excess is not None:
                    evidence[STORAGE_USE] = annotation(StorageUse.of(eviction.excess))
                self._effects.evict(pod, eviction, evidence)

    async def _show(self, entry: _NodeEntry, pressures: tuple[str, ...]) -> None:
        """Write the node's conditions, at once when they change (S3-63)."""
        name = entry.node.metadata.name
        api = self._as_node(name)
        found = (await api.get(NODES, name)).obj()
        before = (found.get("status") or {}).get("conditions") or []
        conditions, events = node_conditions(before, NodeHealth(pressures), timestamp())
        await api.patch(NODES, name, "", {"status": {"conditions": conditions}}, subresource="status")
        entry.shown = pressures
        for reason in events:
            self._events.of_node(entry.node, NORMAL, reason, f"Node {name} status is now: {reason}")


def _throttled(machine: SimulatedMachine, pod: MachinePod) -> tuple[Throttled, ...]:
    """The containers of the pod that quotas may hold back. By default one uses half of its request: none of those."""
    declared = {
        name: declaration.model
        for name in pod.started
        if (declaration := pod.usage.containers.get(name, {}).get(Measure.CPU)) and declaration.source != DEFAULT
    }
    if not declared:
        return ()
    quotas = quota_cores(machine, pod)
    return tuple(
        Throttled(model, quotas[name], pod.started[name]) for name, model in declared.items() if name in quotas
    )


def _shown(node: Node) -> tuple[str, ...]:
    return tuple(
        pressure
        for pressure in PRESSURES
        if (condition := node.condition(pressure)) is not None and condition.status == "True"
    )
