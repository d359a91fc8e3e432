"""One simulated machine: its pods' usage in, what the kernel kills and the kubelet evicts out.

Time passes between two looks at it without a sample. Whoever looks is told when to look again: at the next pass of the
eviction loop, at the next moment when memory may end, or much later, if the peaks of all usage stay below every line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fairlead.api.qos import BEST_EFFORT, BURSTABLE
from fairlead.node.allocatable import all_pods
from fairlead.node.cgroups.names import kubepods, qos_cgroup
from fairlead.node.cgroups.qos_tree import ClassRequests, spared
from fairlead.node.configuration.enforcement import PODS
from fairlead.node.configuration.feature_gates import QOS_RESERVED
from fairlead.node.configuration.load import Configured
from fairlead.node.eviction.candidates import MeasuredPod
from fairlead.node.eviction.local_storage import over_limits
from fairlead.node.eviction.manager import (
    CLEANUP_SECONDS,
    MONITORING_SECONDS,
    EvictionInputs,
    EvictionState,
    PassOutcome,
    eviction_pass,
)
from fairlead.node.eviction.ranking import Overuse
from fairlead.node.eviction.signals import RESOURCE, NodeStats, Signal
from fairlead.node.evidence import MOST_KEPT, Ranking
from fairlead.node.image_collection import ImagePolicy
from fairlead.node.plan import NodeEvent, class_cgroups, pods_limit_event
from fairlead.node.startup import start_settings
from fairlead.sim.machine.disks import Disks
from fairlead.sim.machine.eviction_order import EvictionOrder
from fairlead.sim.machine.figures import Figures, figures, lines, node_stats
from fairlead.sim.machine.hardware import Hardware
from fairlead.sim.machine.image_collector import ImageCollector
from fairlead.sim.machine.kernel import MemoryDomain, OomKill, victim
from fairlead.sim.machine.load import KINDS, LOGS, ROOTFS, PodLoad, Read, read_at, read_peak
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.usage.declarations import NodeUsageModels
from fairlead.sim.usage.measures import NodeMeasure
from fairlead.sim.usage.models import Constant
from fairlead.sim.usage.node_bounds import node_bounds

#: How far ahead it is looked whether anything can happen, the longest first.
_WINDOWS: Final = (86_400.0, 3_600.0, 600.0, 60.0)
#: After so many kills others get a turn: a thousand pods may have to die at once.
MOST_KILLS: Final = 16
#: When a kubelet tries again to limit pods that use more.
_ENFORCE_SECONDS: Final = 60.0
#: How exactly the moment is found when memory ends.
_RESOLUTION_SECONDS: Final = 0.05
#: A pass is made at whole multiples of ten seconds, or this much later.
_TICK_SLACK_SECONDS: Final = 1.0


class Look(NamedTuple):
    """What happens on the machine now, and when to look again; None: when something changes."""

    kills: tuple[OomKill, ...]
    outcome: PassOutcome | None
    next_at: float | None
    #: What the kubelet tells of its node.
    events: tuple[NodeEvent, ...] = ()


class SimulatedMachine:
    def __init__(
        self,
        hardware: Hardware,
        configured: Configured,
        overuse: Overuse | None = None,
        now: float = 0.0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`overuse`: pods of overused namespaces are evicted first. `changed` is called whenever `version` changes."""
        self._overuse, self._changed = overuse, changed
        #: Another one whenever pods come, change or go, and when the machine or what is used outside them changes.
        self.version = 0
        self.pods: dict[str, MachinePod] = {}  # by uid, as all of these
        self._varying: dict[str, PodLoad] = {}  # those whose usage changes with time
        self._with_own_memory: dict[str, MachinePod] = {}  # those that have a memory limit as a whole
        self._storage_limited: dict[str, MachinePod] = {}  # those that have limits of local storage
        self._orders: dict[Signal, EvictionOrder] = {}  # of the signals that have been low
        self._fixed = [0] * KINDS  # what they use together that does not change with time
        self.disks = Disks()
        self.eviction = EvictionState()
        self.ranking = Ranking("", ())  # of the last eviction
        self._daemons: NodeUsageModels = NodeUsageModels({})
        self._declared_at = 0.0
        self._last_tick = -1
        self._enforced_limit = 0  # of all pods
        self._enforce_at: float | None = None  # when a lower one is tried again, which they exceed
        self._cleaning: tuple[frozenset[str], float] = (frozenset(), 0.0)  # evicted pods, and until when they may take
        self.configure(hardware, configured, now)

    def configure(self, hardware: Hardware, configured: Configured, now: float) -> None:
        """The machine has this from now on, and its kubelet starts anew. StartupError for what a kubelet refuses."""
        self._renew()
        self.hardware, self.configured = hardware, configured
        config, machine = configured.configuration, hardware.machine
        started = start_settings(config, machine.cpus)
        enforces_pods = config.cgroups_per_qos and PODS in config.enforce_node_allocatable
        limits = all_pods(machine, config, started.reservations, in_full=not enforces_pods)
        self.pods_limit = limits["memory"].units
        self._most_outside = node_bounds(hardware)
        self._collector = ImageCollector(ImagePolicy.of(config), hardware, now)
        if self.pods_memory_bytes(now) <= self.pods_limit:
            self._enforced_limit, self._enforce_at = self.pods_limit, None
        else:
            self._enforce_at = now + _ENFORCE_SECONDS
        self.settings, self.logs = started.eviction, started.logs
        self.is_single_kill = config.is_single_process_oom_kill(hardware.cgroup_version)
        self.eviction = EvictionState()
        self._is_notified = hardware.cgroup_version == 1 and config.kernel_memcg_notification
        self._was_short_of_memory = False
        self._reserves_classes = bool(config.qos_reserved) and configured.gates.enabled(QOS_RESERVED)
        self._class_limits: Mapping[str, int] = {}
        self._is_class_limit_due = True
        self._orders.clear()
        self._lines = lines(self.settings.thresholds, hardware, self.pods_limit)

    def enforce(self, now: float) -> NodeEvent | None:
        """Try again to limit all pods together, once it is time; returns what is told of that."""
        if self._enforce_at is None or now < self._enforce_at:
            return None
        used, config = self.pods_memory_bytes(now), self.configured.configuration
        if used <= self.pods_limit:
            self._enforced_limit, self._enforce_at = self.pods_limit, None
        else:
            self._enforce_at = now + _ENFORCE_SECONDS
        root = kubepods(config.cgroup_root, per_qos=config.cgroups_per_qos)
        return pods_limit_event(root, self.configured, self.pods_limit, used)

    def pods_memory_bytes(self, now: float) -> int:
        return self.figures(read_at(now)).pods_anonymous

    def declare(self, daemons: NodeUsageModels, now: float) -> None:
        """What is used outside pods; a change counts from now on."""
        if daemons != self._daemons:
            self._renew()
            self._daemons, self._declared_at = daemons, now
            self.disks.has_deleted_declared = False

    def put(self, pod: MachinePod, now: float) -> None:
        """A pod has come, or something of it has started or ended."""
        self._limits_of_classes(read_at(now))  # those in force so far: what has come may not exceed them
        before = self.pods.get(pod.uid)
        if before is None:
            self.disks.run(pod.images, now)
        else:
            self._keep_dead(before, pod.started, now)
        self._enter(pod.uid, before, pod)

    def remove(self, uid: str, now: float) -> None:
        if (pod := self.pods.pop(uid, None)) is not None:
            self.disks.stop(pod.images, now)
            self.disks.remove(uid, pod.usage.containers)
            self._enter(uid, pod, None)

    def _enter(self, uid: str, before: MachinePod | None, after: MachinePod | None) -> None:
        """Keep the sums and the groups of pods up to date."""
        self._renew()
        removed = before.load.fixed if before else [0] * KINDS
        added = after.load.fixed if after else [0] * KINDS
        sums = zip(self._fixed, added, removed, strict=True)
        self._fixed = [total + amount - former for total, amount, former in sums]
        for group in (self._varying, self._with_own_memory, self._storage_limited):
            group.pop(uid, None)
        self._is_class_limit_due = True
        for order in self._orders.values():
            if after is None:
                order.remove(uid)
            else:
                order.put(after)
        if after is None:
            return
        self.pods[uid] = after
        if not after.load.is_steady:
            self._varying[uid] = after.load
        if after.pod_level_memory_limit is not None:
            self._with_own_memory[uid] = after
        if after.started and after.may_exceed_local_storage:
            self._storage_limited[uid] = after

    def _renew(self) -> None:
        self.version += 1
        self._changed()

    @property
    def is_still(self) -> bool:
        """Whether nothing that is used but cpu changes with time, while `version` stays."""
        return not self._varying and all(isinstance(of.model, Constant) for of in self._daemons.measures.values())

    def look(self, now: float) -> Look:
        kills, found = self._kill_all(now)
        if len(kills) == MOST_KILLS:
            return Look(kills, None, now)
        events: tuple[NodeEvent, ...] = ()
        if self._collector.is_due(now):
            declared = int(self.outside(NodeMeasure.UNUSED_IMAGES, read_at(now)))
            events = self._collector.collect(self.disks, declared, lambda: self.figures(read_at(now)), now)
            found = self.figures(read_at(now))
        outcome = self._pass(now, found) if self._is_due(now, found) else None
        return Look(kills, outcome, self._sooner(self._next_look(now, found)), events)

    def figures(self, read: Read) -> Figures:
        totals = list(self._fixed)
        for load in self._varying.values():
            load.add_varying(totals, read)
        daemons = {measure: int(self.outside(measure, read)) for measure in self._daemons.measures}
        return figures(totals, daemons, self.disks, self.hardware)

    def outside(self, measure: NodeMeasure, read: Read) -> float:
        """What is used outside pods, in base units."""
        declaration = self._daemons.measures.get(measure)
        if declaration is None:
            return 0.0
        amount, most = read(declaration.model, self._declared_at), self._most_outside.get(measure)
        return amount if most is None else min(amount, most)

    def class_requests(self) -> ClassRequests:
        """What the pods of the machine request, by class."""
        pods = [pod.requests for pod in self.pods.values()]
        return ClassRequests(
            sum(requests.burstable_milli_cpu for requests in pods),
            sum(requests.burstable_memory for requests in pods),
            sum(requests.guaranteed_memory for requests in pods),
        )

    def is_declared(self, measure: NodeMeasure) -> bool:
        return measure in self._daemons.measures

    def stats(self, now: float) -> NodeStats:
        return self._measured(self.figures(read_at(now)), now)

    def _measured(self, found: Figures, now: float) -> NodeStats:
        return node_stats(found, self.hardware, self.pods_limit, now)

    # -- the kernel

    def _kill_all(self, now: float) -> tuple[tuple[OomKill, ...], Figures]:
        """Kill until there is memory again; the usage of the dead is gone at once. With what is used after that."""
        kills: list[OomKill] = []
        read = read_at(now)
        found = self.figures(read)
        while len(kills) < MOST_KILLS and (domain := self._exhausted(read, found)) is not None:
            kill = victim(domain, now, self.hardware, is_single=self.is_single_kill)
            if kill is None:
                break
            self.put(self._without(kill), now)
            kills.append(kill)
            found = self.figures(read)
        return tuple(kills), found

    def _without(self, kill: OomKill) -> MachinePod:
        pod = kill.pod
        if kill.is_child:
            return pod.running(pod.started, pod.without_children | {kill.container})
        started = {name: since for name, since in pod.started.items() if name != kill.container}
        return pod.running(started, pod.without_children)

    def _exhausted(self, read: Read, found: Figures) -> MemoryDomain | None:
        """The innermost cgroup whose limit is exceeded, or else the machine, if it says how much it has."""
        for pod in self._with_own_memory.values():
            limit = pod.pod_level_memory_limit
            if limit is not None and (used := pod.anonymous_in_all(read)) > limit:
                return MemoryDomain(limit, used, (pod,), f"of pod {pod.key}")
        for class_, limit in self._limits_of_classes(read).items():
            members = [pod for pod in self.pods.values() if pod.qos_class == class_]
            if (used := sum(pod.anonymous_in_all(read) for pod in members)) > limit:
                return MemoryDomain(limit, used, members, f"of {class_} pods")
        capacity = self.hardware.machine.memory_bytes
        if not capacity:
            return None
        if found.pods_anonymous > self._enforced_limit:
            return MemoryDomain(self._enforced_limit, found.pods_anonymous, self.pods.values(), "of all pods")
        if found.anonymous > capacity:
            return MemoryDomain(capacity, found.anonymous, self.pods.values())
        return None

    def _limits_of_classes(self, read: Read) -> Mapping[str, int]:
        """With `qosReserved`: set anew when pods change, and never so low that something is killed for it (S1-09)."""
        if not self._reserves_classes:
            return {}
        if self._is_class_limit_due:
            values = class_cgroups(self.configured, self.hardware.machine, self.class_requests())
            root = kubepods(self.configured.configuration.cgroup_root)
            limits = {}
            for class_ in (BEST_EFFORT, BURSTABLE):
                used = sum(pod.anonymous_in_all(read) for pod in self.pods.values() if pod.qos_class == class_)
                used = min(used, self._class_limits.get(class_, used))
                limit = spared(values[qos_cgroup(root, class_)], used).memory_limit
                if limit is not None:
                    limits[class_] = limit
            self._class_limits, self._is_class_limit_due = limits, False
        return self._class_limits

    # -- the eviction loop

    def _is_due(self, now: float, found: Figures) -> bool:
        if self._is_notified and self._memory_notice(found):
            return True
        tick = math.floor(now / MONITORING_SECONDS + 1e-6)
        if tick <= self._last_tick or now - tick * MONITORING_SECONDS >= _TICK_SLACK_SECONDS:
            return False
        doomed, until = self._cleaning
        if now < until and any(uid in self.pods and self.pods[uid].started for uid in doomed):
            return False
        self._last_tick = tick
        return self._is_active or self._is_short(now, now, found)

    def _memory_notice(self, found: Figures) -> bool:
        """Whether the kernel of a machine with cgroup v1 says now that memory has fallen below a threshold (S3-92)."""
        was_short = self._was_short_of_memory
        self._was_short_of_memory = self._is_short_of_memory(found)
        return self._was_short_of_memory and not was_short

    def _is_short_of_memory(self, found: Figures) -> bool:
        return any(line.is_memory and found[line.figure] > line.most for line in self._lines)

    @property
    def _is_active(self) -> bool:
        """Whether something of earlier passes is still in force."""
        return bool(self.eviction.conditions or self.eviction.first_met)

    def _pass(self, now: float, found: Figures) -> PassOutcome:
        inputs = EvictionInputs(
            self.hardware.filesystems,
            lambda signal: self._first_victim(signal, now, found),
            self._near_storage_limits(now, now),
        )
        running_pass = eviction_pass(self.settings, self.eviction, self._measured(found, now), inputs, now)
        try:
            self.disks.reclaim(next(running_pass))
            while True:
                self.disks.reclaim(running_pass.send(self.stats(now)))
        except StopIteration as ended:
            outcome: PassOutcome = ended.value
        self.eviction = outcome.state
        if not self._is_active:
            self._orders.clear()
        if outcome.evictions:
            doomed = frozenset(eviction.candidate.uid for eviction in outcome.evictions)
            self._cleaning = doomed, now + CLEANUP_SECONDS
        return outcome

    def _first_victim(self, signal: Signal, now: float, found: Figures) -> MeasuredPod | None:
        """Of those that may be evicted; what is measured of the others is only what their order depends on."""
        read, filesystems, overuse = read_at(now), self.hardware.filesystems, self._overuse
        room = max(self.hardware.machine.memory_bytes - found.anonymous, 0)
        order = self._orders.get(signal)
        if order is None:
            order = self._orders[signal] = EvictionOrder(signal, filesystems, self.pods.values())
        first = order.first(MOST_KEPT, read, room, overuse)
        self.ranking = Ranking(RESOURCE[signal], tuple(row for _, row in first), len(order) - len(first))
        return MeasuredPod(first[0][0].candidate, first[0][0].measured(read, room)) if first else None

    # -- when to look again

    def _next_look(self, now: float, found: Figures) -> float | None:
        next_tick = (math.floor(now / MONITORING_SECONDS + 1e-6) + 1) * MONITORING_SECONDS
        if not self._is_active:
            for window in _WINDOWS:
                peak = self.figures(read_peak(now, now + window))
                if not self._can_happen(now, now + window, peak):
                    quiet = None if window == _WINDOWS[0] and self._is_steady else now + window
                    collected_at = self._collector.next_at(self.disks, peak, now)
                    return min((at for at in (quiet, collected_at) if at is not None), default=None)
        if self._is_steady or self._exhausted(read_at(now), found) is not None:
            return next_tick  # whoever could be killed is
        return self._kernel_acts_at(now, next_tick) or next_tick

    def _sooner(self, next_at: float | None) -> float | None:
        """Or when the limit of all pods is tried again."""
        if self._enforce_at is None:
            return next_at
        return self._enforce_at if next_at is None else min(next_at, self._enforce_at)

    @property
    def _is_steady(self) -> bool:
        """Whether usage stays as it is for ever."""
        return not self._daemons.measures and not self._varying

    def _can_happen(self, begin: float, end: float, peak: Figures) -> bool:
        """Whether anything may be killed or evicted in that window, or a condition shown; `peak`: its figures."""
        return self._exhausted(read_peak(begin, end), peak) is not None or self._is_short(begin, end, peak)

    def _is_short(self, begin: float, end: float, found: Figures) -> bool:
        """Whether a threshold may be met in that window, or a limit of local storage exceeded."""
        if any(found[line.figure] > line.most for line in self._lines):
            return True
        if not self.settings.local_storage_limits or not self._storage_limited:
            return False
        return any(over_limits(self._near_storage_limits(begin, end), self.hardware.filesystems))

    def _near_storage_limits(self, begin: float, end: float) -> list[MeasuredPod]:
        """The pods that have limits of local storage, with what they use at most in that window."""
        read = read_peak(begin, end)
        return [MeasuredPod(pod.candidate, pod.measured(read, 0)) for pod in self._storage_limited.values()]

    def _kernel_acts_at(self, begin: float, end: float) -> float | None:
        """About when the kernel acts first, if it may have to in that window."""
        if not self._may_act(begin, end):
            return None
        while end - begin > _RESOLUTION_SECONDS:
            middle = (begin + end) / 2
            if self._may_act(begin, middle):
                end = middle
            else:
                begin = middle
        return end

    def _may_act(self, begin: float, end: float) -> bool:
        """Whether the kernel may have to kill in that window, or to tell that memory has fallen below a threshold."""
        read = read_peak(begin, end)
        found = self.figures(read)
        if self._is_notified and not self._was_short_of_memory and self._is_short_of_memory(found):
            return True
        return self._exhausted(read, found) is not None

    def _keep_dead(self, before: MachinePod, started: Mapping[str, float], now: float) -> None:
        """What ended containers wrote stays on the disk."""
        read = read_at(now)
        for name, since in before.started.items():
            if started.get(name) != since:
                ended = PodLoad(before.usage, {name: since}, frozenset()).amounts(read)
                self.disks.keep(before.uid, name, ended[ROOTFS] + ended[LOGS])
