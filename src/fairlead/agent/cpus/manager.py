"""Who has CPUs to himself on this node, kept in a file; containers are moved when that changes.

Its decisions are those of `node/cpus/`. Whoever shares CPUs with a container that gets them leaves them at once, not
after `cpuManagerReconcilePeriod`: that is how often is looked for what did not work.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from fairlead.agent.cpus.metrics import CpuMetrics
from fairlead.agent.runtimes.base import Runtime, RuntimeFailure, State
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote
from fairlead.node.admission import Refusal
from fairlead.node.cgroups.containers import ContainerValues
from fairlead.node.configuration.cpu_sets import listed
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.load import Configured
from fairlead.node.cpus.admission import admit_with_cpus
from fairlead.node.cpus.policy import StaticPolicy
from fairlead.node.cpus.state import STATE_FILE, CpuState, decoded, encoded
from fairlead.node.numa_hints import NONE, NumaNodes, hint_policy
from fairlead.runtime.clock import monotonic
from fairlead.runtime.metrics import Family

#: A flag may say that no time at all is to pass between two looks.
_SHORTEST_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class CpuManager:
    """`policy` None: no container has CPUs to itself. StartupError for settings that cannot be."""

    def __init__(self, root: Path, configured: Configured, policy: StaticPolicy | None, nodes: NumaNodes) -> None:
        config = configured.configuration
        self._policy, self._name = policy, config.cpu_manager_policy
        self._file, self._nodes = root / STATE_FILE, nodes
        try:
            self._hints = hint_policy(config, len(nodes.ids))
        except ValueError as problem:
            raise StartupError(Stage.START, str(problem)) from None
        self._period = max(config.cpu_manager_reconcile_period, _SHORTEST_SECONDS)
        self._state, self._metrics = CpuState(), CpuMetrics()
        self._changed, self._writing = asyncio.Event(), asyncio.Lock()
        self._kept: CpuState | None = None  # what is in the file
        self._runs_on: dict[str, str] = {}  # by id of the container: what it was given last
        self._unmoved: set[str] = set()  # ids of those of which was said that they cannot be moved

    def restore(self) -> None:
        """Go on with what was kept; StartupError if that cannot be."""
        try:
            if self._file.exists():
                self._kept = self._state = decoded(self._name, self._file.read_bytes())
        except ValueError as problem:
            advice = (
                "please drain this node and delete the CPU manager checkpoint file "
                f"{go_quote(str(self._file))} before restarting Kubelet"
            )
            raise _cannot_start(f"could not restore state from checkpoint: {problem}, {advice}") from None
        if self._policy is not None:
            try:
                self._state = self._policy.started(self._state)
            except ValueError as problem:
                raise _cannot_start(str(problem)) from None
        if self._state is not self._kept:
            self._write()
        self._count()

    @property
    def families(self) -> Iterable[Family]:
        """What is counted."""
        return self._metrics.families

    # -- pods

    def allocate(self, manifest: Obj, is_active: Callable[[str], bool]) -> Refusal | None:
        """Give the containers of a pod what they are to have to themselves; why it cannot have that. `keep` it."""
        began = monotonic()
        self._take_back(is_active)
        result = admit_with_cpus(self._policy, self._hints, self._nodes, self._state, manifest)
        self._become(result.state)
        self._metrics.admitted(result, monotonic() - began, is_placing=self._hints.name != NONE)
        return result.refusal

    def release(self, uid: str) -> None:
        """The pod has ended: what it had is everybody's again."""
        if uid in self._state.exclusive:
            self._become(self._state.without_pod(uid))

    async def keep(self) -> None:
        """What is written down is the state: no container starts before."""
        async with self._writing:
            if self._state is not self._kept:
                await asyncio.to_thread(self._write)

    def placed(self, uid: str, values: Mapping[str, ContainerValues]) -> Mapping[str, ContainerValues]:
        """What the containers of a pod are to get, with the CPUs on which they run."""
        return {name: replace(each, cpuset_cpus=self._cpus(uid, name)) for name, each in values.items()}

    # -- containers

    async def run(self, runtime: Runtime, is_active: Callable[[str], bool]) -> None:
        """Until cancelled: take back what is left of pods that are not there any more, and keep all on their CPUs."""
        while self._policy is not None:
            self._changed.clear()
            self._take_back(is_active)
            await self.keep()
            await self._move_all(runtime)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._changed.wait()

    def _take_back(self, is_active: Callable[[str], bool]) -> None:
        for uid in [uid for uid in self._state.exclusive if not is_active(uid)]:
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
        return listed(self._state.exclusive.get(uid, {}).get(container, self._state.shared))

    def _become(self, state: CpuState) -> None:
        if state != self._state:
            self._state = state
            self._count()
            self._changed.set()

    def _count(self) -> None:
        if self._policy is not None:
            own = self._policy.topology.within("numa", self._state.all_exclusive)
            counts = {node: len(own.get(node, ())) for node in self._nodes.ids}
            self._metrics.holds(len(self._policy.available(self._state)), counts)

    def _write(self) -> None:
        state, scratch = self._state, self._file.with_name(f"{STATE_FILE}.new")
        try:
            with scratch.open("wb") as file:
                file.write(encoded(self._name, state))
                file.flush()
                os.fsync(file.fileno())  # an agent does not start with half of it
            scratch.replace(self._file)
        except OSError as problem:  # as a kubelet does: pods go on
            log.warning("who has which CPUs cannot be written to %s: %s", self._file, problem)
        else:
            self._kept = state


def _cannot_start(problem: str) -> StartupError:
    return StartupError(Stage.START, f"start cpu manager error: {problem}")
