"""Who gets how much cpu of a simulated machine, and what has come together of it since a container started.

Containers want what their usage says. What they get is divided down the tree of cgroups by weights and quotas; a quota
that is used up throttles. Nothing runs between two looks, so counters are integrated when somebody asks: in a bounded
number of steps, however long ago the last look was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead.api.qos import BEST_EFFORT, BURSTABLE, GUARANTEED
from fairlead.node.cgroups.containers import ContainerHost, container_values
from fairlead.node.cgroups.cpu import agent_weight, runtime_weight, shares
from fairlead.node.cgroups.cpu_time import UNLIMITED, CpuGroup, divide
from fairlead.node.cgroups.pods import pod_values
from fairlead.node.cgroups.qos_tree import qos_values
from fairlead.node.cgroups.values import CgroupSettings
from fairlead.node.cpus.exclusive import STATIC, exclusive_cpus, exclusive_cpus_of_pod
from fairlead.node.stats.measurements import CpuSpec
from fairlead.sim.machine.load import read_at
from fairlead.sim.machine.machine import SimulatedMachine
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.usage.measures import Measure, NodeMeasure
from fairlead.sim.usage.models import Constant

#: By uid and name of the container.
ContainerKey: TypeAlias = tuple[str, str]

_NANOS: Final = 10**9
_DAEMON_SHARES: Final = 1024
#: How many steps a counter is integrated in, and how long one is at least.
_MOST_STEPS: Final = 60
_STEP_SECONDS: Final = 0.25
#: How often a rate is sampled in its window.
_SAMPLES: Final = 5


class _PodCpu(NamedTuple):
    """Weights and quotas of a pod and its containers."""

    pod: MachinePod
    weight: int
    quota_milli: float
    containers: Mapping[str, tuple[int, float]]
    spec: CpuSpec
    #: By container.
    specs: Mapping[str, CpuSpec]
    #: Of containers that have CPUs to themselves: what these come to, in milli-cores.
    own_milli: Mapping[str, float]
    #: What nobody else has for that, as long as the pod is there.
    held_milli: float

    def most_milli(self, container: str) -> float:
        """What the container could get of a machine that nobody else uses."""
        return min(self.containers[container][1], self.own_milli.get(container, UNLIMITED))


class Share(NamedTuple):
    """Milli-cores that a container wants and gets, and the quota that caps it."""

    wanted: float
    given: float
    quota: float

    @property
    def is_throttled(self) -> bool:
        """By its quota: whom others leave less than that never uses it up."""
        return self.wanted > self.quota and math.isclose(self.given, self.quota)


class Counters(msgspec.Struct):
    """What a container has used since it started."""

    since: float
    nanos: float = 0.0
    #: In which it was under a quota and in which it was throttled.
    seconds_with_quota: float = 0.0
    throttled_seconds: float = 0.0
    throttled_nanos: float = 0.0


class _Rates(NamedTuple):
    """Rates as they were worked out, and for how long that holds."""

    machine: SimulatedMachine
    version: int
    at: float
    window: float
    #: Whether they are the same at every later moment, as long as nothing comes or goes.
    stay: bool
    of_containers: dict[ContainerKey, float]
    of_machine: float

    def is_valid(self, machine: SimulatedMachine, now: float, window: float) -> bool:
        is_same = self.machine is machine and self.version == machine.version and self.window == window
        return is_same and (now == self.at or (self.stay and now > self.at))


class CpuAccount:
    """The cpu of one machine."""

    def __init__(self, since: float) -> None:
        self._at = since
        self._values: dict[str, _PodCpu] = {}  # by uid
        self._latest_rates: _Rates | None = None
        self.counters: dict[ContainerKey, Counters] = {}
        #: Of everything on the machine.
        self.node_nanos = 0.0

    def advance(self, machine: SimulatedMachine, now: float) -> None:
        """Count up to now."""
        self._keep_what_runs(machine)
        begin, self._at = self._at, max(now, self._at)
        if now <= begin:
            return
        steps = 1 if is_steady(machine) else min(_MOST_STEPS, max(1, math.ceil((now - begin) / _STEP_SECONDS)))
        width = (now - begin) / steps
        for number in range(steps):
            self._count(machine, begin + number * width, begin + (number + 1) * width)

    def rates(self, machine: SimulatedMachine, now: float, window: float) -> tuple[dict[ContainerKey, float], float]:
        """Milli-cores of each container and of the whole machine, on average over the window."""
        known = self._latest_rates
        if known is None or not known.is_valid(machine, now, window):
            known = self._latest_rates = self._new_rates(machine, now, window)
        return known.of_containers, known.of_machine

    def _new_rates(self, machine: SimulatedMachine, now: float, window: float) -> _Rates:
        steady = is_steady(machine)
        samples = 1 if steady else _SAMPLES
        width = window / samples
        totals: dict[ContainerKey, list[float]] = {}
        node = 0.0
        for number in range(samples):
            found = self._shares(machine, now - (number + 0.5) * width if samples > 1 else now)
            for key, share in found.items():
                totals.setdefault(key, []).append(share.given)
            node += sum(share.given for share in found.values()) + _daemons(machine, now)
        rates = {key: sum(given) / len(given) for key, given in totals.items()}
        self._forget_gone(machine)
        stay = steady and all(since < now for pod in machine.pods.values() for since in pod.started.values())
        return _Rates(machine, machine.version, now, window, stay, rates, node / samples)

    def given(self, machine: SimulatedMachine, now: float) -> float:
        """Milli-cores of the whole machine at this moment."""
        return sum(share.given for share in self._shares(machine, now).values()) + _daemons(machine, now)

    def quota(self, key: ContainerKey) -> float:
        uid, name = key
        values = self._values.get(uid)
        return values.containers[name][1] if values is not None else UNLIMITED

    def specs(self, machine: SimulatedMachine, uid: str) -> tuple[CpuSpec, Mapping[str, CpuSpec]]:
        """Of a pod, and of each of its containers."""
        values = self._of(machine, uid)
        return values.spec, values.specs

    def _keep_what_runs(self, machine: SimulatedMachine) -> None:
        running = {(uid, name): since for uid, pod in machine.pods.items() for name, since in pod.started.items()}
        before = self.counters
        self.counters = {}
        for key, since in running.items():
            known = before.get(key)
            self.counters[key] = known if known is not None and known.since == since else Counters(since)
        self._forget_gone(machine)

    def _forget_gone(self, machine: SimulatedMachine) -> None:
        self._values = {uid: values for uid, values in self._values.items() if uid in machine.pods}

    def _count(self, machine: SimulatedMachine, begin: float, end: float) -> None:
        middle = (begin + end) / 2
        for key, share in self._shares(machine, middle, end).items():
            counters = self.counters[key]
            seconds = end - max(begin, counters.since)
            counters.nanos += share.given * 1e6 * seconds
            self.node_nanos += share.given * 1e6 * seconds
            if share.quota < UNLIMITED and share.wanted > 0:
                counters.seconds_with_quota += seconds
                if share.is_throttled:
                    counters.throttled_seconds += seconds
                    counters.throttled_nanos += (1 - share.quota / share.wanted) * seconds * _NANOS
        self.node_nanos += _daemons(machine, middle) * 1e6 * (end - begin)

    def _shares(self, machine: SimulatedMachine, at: float, end: float | None = None) -> dict[ContainerKey, Share]:
        """Who gets what at a moment; with `end`, also containers that start before that."""
        wanted: dict[ContainerKey, float] = {}
        for uid, pod in machine.pods.items():
            for name, since in pod.started.items():
                if since < at or (end is not None and since < end):
                    model = pod.usage.model(name, Measure.CPU)
                    wanted[uid, name] = 0.0 if model is None else 1000.0 * model.at(max(at, since), since)
        given = {key: min(amount, self._of(machine, key[0]).most_milli(key[1])) for key, amount in wanted.items()}
        own = {key: amount for key, amount in given.items() if key[1] in self._values[key[0]].own_milli}
        shared = {key: amount for key, amount in given.items() if key not in own}
        capacity = machine.hardware.machine.cpus * 1000.0 or UNLIMITED
        capacity -= sum(self._of(machine, uid).held_milli for uid in machine.pods)
        daemons = _daemons(machine, at)
        if sum(shared.values()) + daemons > capacity or self._exceeds_pod_quota(shared):
            given = own | self._divided(machine, {key: wanted[key] for key in shared}, daemons, capacity)
        return {key: Share(amount, given[key], self.quota(key)) for key, amount in wanted.items()}

    def _exceeds_pod_quota(self, given: Mapping[ContainerKey, float]) -> bool:
        sums: dict[str, float] = {}
        for (uid, _), amount in given.items():
            sums[uid] = sums.get(uid, 0.0) + amount
        return any(amount > self._values[uid].quota_milli for uid, amount in sums.items())

    def _divided(
        self, machine: SimulatedMachine, wanted: Mapping[ContainerKey, float], daemons: float, capacity: float
    ) -> dict[ContainerKey, float]:
        is_v1 = machine.hardware.cgroup_version == 1
        pods: dict[str, dict[str, CpuGroup]] = {GUARANTEED: {}, BURSTABLE: {}, BEST_EFFORT: {}}
        for uid, pod in machine.pods.items():
            values = self._of(machine, uid)
            members = {
                name: CpuGroup(weight, quota, wanted[uid, name])
                for name, (weight, quota) in values.containers.items()
                if (uid, name) in wanted
            }
            if members:
                pods[pod.qos_class][uid] = CpuGroup(values.weight, values.quota_milli, members=members)
        classes = qos_values(machine.class_requests(), _settings(machine))
        inside = dict(pods[GUARANTEED])
        for class_ in (BURSTABLE, BEST_EFFORT):
            if pods[class_]:
                weight = _agent(classes[class_].cpu_shares or 0, is_v1=is_v1)
                inside[class_] = CpuGroup(weight, members=pods[class_])
        members = {"system": CpuGroup(_agent(_DAEMON_SHARES, is_v1=is_v1), wanted_milli=daemons)}
        if inside:
            own = _agent(shares(machine.hardware.machine.cpus * 1000), is_v1=is_v1)
            members["kubepods"] = CpuGroup(own, members=inside)
        found = divide(CpuGroup(1, members=members), capacity)
        return {(path[-2], path[-1]): amount for path, amount in found.items() if path[0] == "kubepods"}

    def _of(self, machine: SimulatedMachine, uid: str) -> _PodCpu:
        pod, known = machine.pods[uid], self._values.get(uid)
        if known is None or known.pod is not pod:
            known = self._values[uid] = _pod_cpu(machine, pod)
        return known


def quota_cores(machine: SimulatedMachine, pod: MachinePod) -> dict[str, float]:
    """By container that has a quota."""
    found = _pod_cpu(machine, pod).containers
    return {name: quota / 1000.0 for name, (_, quota) in found.items() if quota < UNLIMITED}


def _pod_cpu(machine: SimulatedMachine, pod: MachinePod) -> _PodCpu:
    settings, is_v1 = _settings(machine), machine.hardware.cgroup_version == 1
    manifest = pod.manifest
    own = pod_values(manifest["spec"], settings)
    host = ContainerHost(max(machine.hardware.machine.memory_bytes, 1), machine.hardware.cgroup_version)
    found = container_values(manifest, settings, host)
    containers = {
        name: (
            values.cpu_shares if is_v1 else runtime_weight(values.cpu_shares),
            _quota_milli(values.cpu_quota, values.cpu_period),
        )
        for name, values in found.items()
    }
    weight = _agent(own.cpu_shares or 0, is_v1=is_v1)
    spec = CpuSpec(own.cpu_shares or 0, max(own.cpu_quota or 0, 0), own.cpu_period or 0)
    specs = {
        name: CpuSpec(values.cpu_shares, max(values.cpu_quota, 0), values.cpu_period) for name, values in found.items()
    }
    quota, own_milli, held_milli = _quota_milli(own.cpu_quota, own.cpu_period), dict[str, float](), 0.0
    if machine.configured.configuration.cpu_manager_policy == STATIC:
        of_pod = manifest["spec"]
        own_milli = {name: count * 1000.0 for name, count in exclusive_cpus(of_pod).items()}
        held_milli = exclusive_cpus_of_pod(of_pod) * 1000.0
    return _PodCpu(pod, weight, quota, containers, spec, specs, own_milli, held_milli)


def _settings(machine: SimulatedMachine) -> CgroupSettings:
    configured = machine.configured
    return CgroupSettings.of(configured.configuration, configured.gates, machine.hardware.cgroup_version)


def _quota_milli(quota: int | None, period: int | None) -> float:
    return quota * 1000 / period if quota and quota > 0 and period else UNLIMITED


def _agent(cpu_shares: int, *, is_v1: bool) -> int:
    return cpu_shares if is_v1 else agent_weight(cpu_shares)


def _daemons(machine: SimulatedMachine, at: float) -> float:
    return 1000.0 * machine.outside(NodeMeasure.CPU, read_at(at))


def is_steady(machine: SimulatedMachine) -> bool:
    """Whether nobody's wish for cpu changes with time."""
    models = [pod.usage.model(name, Measure.CPU) for pod in machine.pods.values() for name in pod.started]
    return not machine.is_declared(NodeMeasure.CPU) and all(
        model is None or isinstance(model, Constant) for model in models
    )
