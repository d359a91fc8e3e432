"""The policy `static`: containers of Guaranteed pods that ask for whole CPUs have them to themselves.

All others run on what is left, reserved CPUs included, unless the reservation is strict. An init container's CPUs are
used again by those that come after it; a sidecar keeps its own. Nothing is moved once it is given.
Source: pkg/kubelet/cm/cpumanager/policy_static.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import combinations
from typing import Final

import msgspec

from fairlead.api.quantity import Quantity
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import printed
from fairlead.node.configuration.cpu_sets import listed, parse_cpu_set
from fairlead.node.configuration.feature_gates import FeatureGates
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.cpus.exclusive import STATIC
from fairlead.node.cpus.options import BY_SOCKET, StaticOptions, static_options
from fairlead.node.cpus.state import CpuState
from fairlead.node.cpus.taking import NotEnoughCpus, take_distributed, take_packed
from fairlead.node.cpus.topology import CpuIds, Topology
from fairlead.node.numa_hints import NONE, SINGLE_NODE, Hint

SMT_ALIGNMENT: Final = "SMTAlignmentError"
#: Finds in a message how many threads a core has.
NOT_WHOLE_CORES: Final = re.compile(r"cpus not multiple cpus per core = (\d+)")


class NotAligned(Exception):
    """Whole cores cannot be had, and nothing else may be given."""


class StaticPolicy(msgspec.Struct, frozen=True):
    topology: Topology
    #: Nobody has these to himself.
    reserved: CpuIds
    options: StaticOptions = StaticOptions()

    @property
    def handed_out(self) -> CpuIds:
        """What there is for containers, to themselves or for all."""
        return self.topology.cpus - self.reserved if self.options.is_reservation_strict else self.topology.cpus

    def started(self, kept: CpuState) -> CpuState:
        """With what was kept before the agent was started again; ValueError if it does not fit the machine any more."""
        if not kept.shared:
            if kept.exclusive:
                raise ValueError("default cpuset cannot be empty")
            return CpuState(self.handed_out)
        for problem in self._problems(kept):
            raise ValueError(problem)
        return kept

    def _problems(self, kept: CpuState) -> Iterator[str]:
        shared, reserved = go_quote(listed(kept.shared)), self.reserved & kept.shared
        if self.options.is_reservation_strict and reserved:
            yield f"some of strictly reserved cpus: {go_quote(listed(reserved))} are present in defaultCpuSet: {shared}"
        elif not self.options.is_reservation_strict and reserved != self.reserved:
            yield f"not all reserved cpus: {go_quote(listed(self.reserved))} are present in defaultCpuSet: {shared}"
        known = set(kept.shared)
        for uid, containers in kept.exclusive.items():
            for name, cpus in containers.items():
                known |= cpus
                if cpus & kept.shared:
                    own = go_quote(listed(cpus))
                    yield f"pod: {uid}, container: {name} cpuset: {own} overlaps with default cpuset {shared}"
        if known != self.handed_out:
            there, kept_text = go_quote(listed(self.handed_out)), go_quote(listed(known))
            yield f"current set of available CPUs {there} doesn't match with CPUs in state {kept_text}"

    def available(self, shared: CpuIds) -> CpuIds:
        """What of it somebody could have to himself."""
        return shared - self.reserved

    def check_alignment(self, shared: CpuIds, count: int) -> None:
        """NotAligned where so many are no whole cores, or there are fewer of these."""
        if not self.options.only_full_cores:
            return
        threads = self.topology.threads_per_core
        if count % threads:
            raise NotAligned(f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {threads}")
        cores = self.topology.within("core", self.reserved)
        free = len(shared - self.topology.all_of("core", cores))
        if count > free:
            raise NotAligned(
                "SMT Alignment Error: not enough free physical CPUs: "
                f"available physical CPUs = {free}, requested CPUs = {count}, CPUs per core = {threads}"
            )

    def taken(self, free: CpuIds, count: int, nodes: Iterable[int] | None = None) -> CpuIds:
        """So many of those that are free, of these NUMA nodes first. NotEnoughCpus."""
        near = frozenset[int]()
        if nodes is not None:
            near = free & self._near(nodes)
            near = _taken(self.topology, self.options, near, min(count, len(near)))
        return near | _taken(self.topology, self.options, free - near, count - len(near))

    def _near(self, nodes: Iterable[int]) -> CpuIds:
        cpus = self.topology.all_of("numa", nodes)
        if self.options.by_socket:
            return self.topology.all_of("socket", self.topology.within("socket", cpus))
        return cpus

    def hints(self, available: CpuIds, reusable: CpuIds, count: int) -> Sequence[Hint]:
        """Which NUMA nodes have so many, with all that is used again: those of the fewest that could ever are
        preferred.
        """
        numas = sorted(self.topology.ids("numa"))
        whole = {numa: len(self.topology.all_of("numa", (numa,))) for numa in numas}
        free = self.topology.within("numa", available | reusable)
        needed = frozenset(self.topology.within("numa", reusable))
        found, fewest = [], len(numas)
        for size in range(1, len(numas) + 1):
            for nodes in combinations(numas, size):
                if sum(whole[numa] for numa in nodes) >= count:
                    fewest = min(fewest, size)
                if needed <= set(nodes) and sum(len(free.get(numa, ())) for numa in nodes) >= count:
                    found.append(frozenset(nodes))
        return [Hint(nodes, len(nodes) == fewest or self._is_by_socket(nodes, fewest)) for nodes in found]

    def _is_by_socket(self, nodes: Set[int], fewest: int) -> bool:
        if not self.options.by_socket:
            return False
        per_socket = len(self.topology.ids("numa")) // len(self.topology.ids("socket"))
        sockets = self.topology.within("socket", self.topology.all_of("numa", nodes))
        return bool(per_socket) and len(sockets) == math.ceil(fewest / per_socket)


def cpu_policy(
    config: KubeletConfiguration, gates: FeatureGates, topology: Callable[[], Topology], reserved: Quantity | None
) -> StaticPolicy | None:
    """That of a node; None: no container has CPUs to itself. ValueError for what a kubelet does not start with."""
    if config.cpu_manager_policy == STATIC:
        return static_policy(config, gates, topology(), reserved)
    if config.cpu_manager_policy != NONE:
        raise ValueError(f"unknown policy: {go_quote(config.cpu_manager_policy)}")
    if stated := config.cpu_manager_policy_options:
        options = printed(dict(stated))
        raise ValueError(f"new none policy error: None policy: received unsupported options={options}")
    return None


def static_policy(
    config: KubeletConfiguration, gates: FeatureGates, topology: Topology, reserved: Quantity | None
) -> StaticPolicy:
    """`reserved` is what of the CPUs is kept from pods."""
    if not reserved:
        raise ValueError("[cpumanager] unable to determine reserved CPU resources for static policy")
    count = math.ceil(reserved.milli / 1000)
    try:
        options = static_options(config.cpu_manager_policy_options, gates)
        _check_machine(options, config.topology_manager_policy, topology)
        cpus = parse_cpu_set(config.reserved_system_cpus).cpus or _reservation(topology, options, count)
        if len(cpus) != count:
            raise ValueError(
                "[cpumanager] unable to reserve the required amount of CPUs "
                f"(size of {listed(cpus)} did not equal {count})"
            )
        if unknown := cpus - topology.cpus:
            core = f"unknown CPU ID: {min(unknown)}"
            raise ValueError(f"[cpumanager] unable to build the reserved physical CPUs from the reserved set: {core}")
    except ValueError as problem:
        raise ValueError(f"new static policy error: {problem}") from None
    return StaticPolicy(topology, cpus, options)


def _check_machine(options: StaticOptions, topology_policy: str, topology: Topology) -> None:
    if not options.by_socket:
        return
    if topology_policy == SINGLE_NODE:
        raise ValueError(
            f"Topolgy manager {SINGLE_NODE} policy is incompatible with CPUManager {BY_SOCKET} policy option"
        )
    if len(topology.ids("socket")) > len(topology.ids("numa")):
        raise ValueError(
            "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
        )


def _reservation(topology: Topology, options: StaticOptions, count: int) -> CpuIds:
    try:
        return _taken(topology, options, topology.cpus, count)
    except NotEnoughCpus:
        return frozenset()


def _taken(topology: Topology, options: StaticOptions, free: Set[int], count: int) -> CpuIds:
    if options.across_numa:
        group = topology.threads_per_core if options.only_full_cores else 1
        return take_distributed(topology, free, count, group, spreads=options.across_cores)
    return take_packed(topology, free, count, spreads=options.across_cores, prefers_uncore=options.by_uncore)
