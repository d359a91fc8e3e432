"""Who has CPUs, or memory of NUMA nodes, to himself here, kept in files; containers are moved when that changes.

Its decisions are those of `node/placement.py`. Whoever shares CPUs with a container that gets them leaves them at once,
not after `cpuManagerReconcilePeriod`: that is how often is looked for what did not work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace

from fairlead.agent.runtimes.base import Runtime, RuntimeFailure, State
from fairlead.agent.topology.metrics import CONTAINER_SCOPE, NUMA_NODE, PHYSICAL_CPU, TopologyMetrics
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.node.admission import Refusal
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.node.configuration.cpu_sets import listed
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.load import Configured
from fairlead.node.cpus import state as cpu_state
from fairlead.node.cpus.state import STATE_FILE as CPU_STATE
from fairlead.node.cpus.state import CpuState
from fairlead.node.numa_hints import NONE, POD_SCOPE, SINGLE_NODE, NumaNodes, hint_policy
from fairlead.node.numa_memory import state as memory_state
from fairlead.node.numa_memory.policy import numa_nodes_of
from fairlead.node.numa_memory.state import STATE_FILE as MEMORY_STATE
from fairlead.node.numa_memory.state import Block
from fairlead.node.placement import NOT_LOCAL, DeviceHints, Held, Placement, Policies, placed
from fairlead.node.plan import NodePlan
from fairlead.runtime.clock import monotonic
from fairlead.runtime.metrics import Family
from fairlead.runtime.whole_files import replace_durably

#: A flag may say that no time at all is to pass between two looks.
_SHORTEST_SECONDS: Final = 1.0

T = TypeVar("T")

log = logging.getLogger(__name__)


class _File:
    """One that a kubelet has of that name, too; `what` it is of, in its words."""

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what, self._kept, self._problem = path, what, b"", ""

    def read(self, decode: Callable[[bytes], T], otherwise: T) -> T:
        if not self._path.exists():
            return otherwise
        self._kept = self._path.read_bytes()
        try:
            return decode(self._kept)
        except ValueError as problem:
            advice = f"please drain this node and delete the {self._what} manager checkpoint file"
            where = f"{go_quote(str(self._path))} before restarting Kubelet"
            raise ValueError(f"could not restore state from checkpoint: {problem}, {advice} {where}") from None

    def write(self, text: bytes) -> bool:
        """Whether that is on disk now. As with a kubelet pods go on where it is not."""
        if text != self._kept:
            try:
                replace_durably(self._path, text)  # an agent does not start with half of it
            except OSError as problem:
                if str(problem) != self._problem:  # once, however long it lasts
                    log.warning("who has what to himself cannot be written to %s: %s", self._path, problem)
                self._problem = str(problem)
                return False
            self._kept, self._problem = text, ""
        return True


class TopologyManager:
    """`plan` is the node's own; StartupError for settings that cannot be."""

    def __init__(self, root: Path, configured: Configured, plan: NodePlan, nodes: NumaNodes) -> None:
        self._config = config = configured.configuration
        try:
            hints = hint_policy(config, len(nodes.ids))
        except ValueError as problem:
            raise StartupError(Stage.START, str(problem)) from None
        self._policies = Policies(nodes, hints, plan.cpus, plan.memory)
        self._cpu_file, self._memory_file = _File(root / CPU_STATE, "CPU"), _File(root / MEMORY_STATE, "memory")
        self._period = max(config.cpu_manager_reconcile_period, _SHORTEST_SECONDS)
        self._held, self._metrics = Held(), TopologyMetrics()
        self._changed, self._writing = asyncio.Event(), asyncio.Lock()
        self._written: Held | None = None
        self._runs_on: dict[str, str] = {}  # by id of the container: what it was given last
        self._unmoved: set[str] = set()  # ids of those of which was said that they cannot be moved

    def restore(self) -> None:
        """Go on with what was kept; StartupError if that cannot be."""
        cpus, memory, config = self._policies.cpus, self._policies.memory, self._config
        try:
            state = self._cpu_file.read(partial(cpu_state.decoded, config.cpu_manager_policy), CpuState())
            state = cpus.started(state) if cpus is not None else state
        except ValueError as problem:
            raise StartupError(Stage.START, f"start cpu manager error: {problem}") from None
        try:
            decode = partial(memory_state.decoded, config.memory_manager_policy)
            nodes, assigned = self._memory_file.read(decode, memory_state.NOTHING)
            assigned = memory.started(nodes, assigned) if memory is not None else assigned
        except ValueError as problem:
            raise StartupError(Stage.START, f"start memory manager error: {problem}") from None
        self._held = Held(state, assigned)
        self._write()
        self._count()

    @property
    def families(self) -> Iterable[Family]:
        """What is counted."""
        return self._metrics.families

    # -- pods

    @property
    def numa_nodes(self) -> frozenset[int]:
        return self._policies.nodes.ids

    @property
    def is_placing(self) -> bool:
        """Whether the policy looks at NUMA nodes."""
        return self._policies.hints.name != NONE

    def foretold(self, manifest: Obj, devices: DeviceHints) -> Placement:
        """Where the containers of a pod would have what they get, for whoever hands out devices before `allocate`."""
        return placed(self._policies, self._held, manifest, devices)

    def allocate(
        self, manifest: Obj, is_active: Callable[[str], bool], devices: DeviceHints | None = None
    ) -> Refusal | None:
        """Give the containers of a pod what they are to have to themselves; why it cannot have that. `keep` it."""
        began = monotonic()
        self._take_back(is_active)
        result = placed(self._policies, self._held, manifest, devices)
        self._become(result.held)
        self._metrics.admitted(result, monotonic() - began, is_placing=self.is_placing)
        self._count_aligned(result)
        return result.refusal

    def _count_aligned(self, result: Placement) -> None:
        """What is certain to be together: on one NUMA node, and on whole cores."""
        hints, cpus = self._policies.hints, self._policies.cpus
        if hints.name == SINGLE_NODE:
            scope = POD_SCOPE if hints.is_for_pods else CONTAINER_SCOPE
            failures = int(result.refusal is not None and result.refusal.reason == NOT_LOCAL)
            successes = int(result.refusal is None) if hints.is_for_pods else len(result.affinity)
            self._metrics.aligned(scope, NUMA_NODE, successes, failures)
        if cpus is not None and cpus.options.only_full_cores:
            failures = int(result.missing == "cpu")
            self._metrics.aligned(CONTAINER_SCOPE, PHYSICAL_CPU, result.requests["cpu"] - failures, failures)

    def release(self, uid: str) -> None:
        """The pod has ended: what it had is everybody's again."""
        if uid in self._held.cpus.exclusive or uid in self._held.memory:
            self._become(self._held.without_pod(uid))

    def own_cpus(self, uid: str, container: str) -> list[int]:
        """Those that the container has to itself."""
        return sorted(self._held.cpus.exclusive.get(uid, {}).get(container, ()))

    def own_memory(self, uid: str, container: str) -> Sequence[Block]:
        """What is set aside for the container."""
        return self._held.memory.get(uid, {}).get(container, ())

    @property
    def allocatable_memory(self) -> list[Block]:
        """What may be set aside for somebody, by NUMA node, whoever has it now."""
        policy = self._policies.memory
        return [
            Block((node,), type_, table.allocatable)
            for node, memory in sorted((policy.nodes({}) if policy is not None else {}).items())
            for type_, table in sorted(memory.memory_map.items())
        ]

    @property
    def allocatable_cpus(self) -> list[int]:
        """Those that somebody may have to himself, whoever has them now."""
        policy = self._policies.cpus
        return sorted(policy.topology.cpus - policy.reserved) if policy is not None else []

    async def keep(self) -> None:
        """What is written down is the state: no container starts before."""
        async with self._writing:
            if self._held is not self._written:
                await asyncio.to_thread(self._write)

    def placed(self, uid: str, values: Mapping[str, ContainerValues]) -> Mapping[str, ContainerValues]:
        """What the containers of a pod are to get, with where they run and have their memory."""
        return {
            name: replace(each, cpuset_cpus=self._cpus(uid, name), cpuset_mems=self._memory_nodes(uid, name))
            for name, each in values.items()
        }

    # -- containers

    async def run(self, runtime: Runtime, is_active: Callable[[str], bool]) -> None:
        """Until cancelled: take back what is left of pods that are not there any more, and keep all on their CPUs."""
        while self._policies.cpus is not None or self._policies.memory is not None:
            self._changed.clear()
            self._take_back(is_active)
            await self.keep()
            if self._policies.cpus is not None:
                await self._move_all(runtime)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._changed.wait()

    def _take_back(self, is_active: Callable[[str], bool]) -> None:
        for uid in {*self._held.cpus.exclusive, *self._held.memory}:
            if not is_active(uid):
                self.release(uid)

    async def _move_all(self, runtime: Runtime) -> None:
        running = [each for each in runtime.containers() if each.state is State.RUNNING]
        known = {each.id for each in running}
        self._runs_on = {id_: cpus for id_, cpus in self._runs_on.items() if id_ in known}
        self._unmoved &= known
        for container in running:
            cpus = self._cpus(container.pod_uid, container.name)
            if self._runs_on.get(container.id) == cpus:
                continue
            try:
                await runtime.run_on(container.id, cpus)
            except RuntimeFailure as failure:
                if container.id not in self._unmoved:
                    log.warning("container %s cannot be moved to CPUs %s yet: %s", container.name, cpus, failure)
                self._unmoved.add(container.id)
            else:
                self._runs_on[container.id] = cpus
                self._unmoved.discard(container.id)

    def _cpus(self, uid: str, container: str) -> str:
        state = self._held.cpus
        return listed(state.exclusive.get(uid, {}).get(container, state.shared))

    def _memory_nodes(self, uid: str, container: str) -> str:
        return listed(numa_nodes_of(self._held.memory, uid, container))

    def _become(self, held: Held) -> None:
        if held != self._held:
            self._held = held
            self._count()
            self._changed.set()

    def _count(self) -> None:
        if (policy := self._policies.cpus) is not None:
            own = policy.topology.within("numa", self._held.cpus.all_exclusive)
            counts = {node: len(own.get(node, ())) for node in self._policies.nodes.ids}
            self._metrics.holds(len(policy.available(self._held.cpus.shared)), counts)

    def _write(self) -> None:
        held, memory, config = self._held, self._policies.memory, self._config
        nodes = memory.nodes(held.memory) if memory is not None else {}
        cpus = self._cpu_file.write(cpu_state.encoded(config.cpu_manager_policy, held.cpus))
        memories = self._memory_file.write(memory_state.encoded(config.memory_manager_policy, nodes, held.memory))
        if cpus and memories:  # else it is tried again, at the latest after a period
            self._written = held
