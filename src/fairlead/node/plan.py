"""A node, reckoned before anybody has it: what it will publish, and which limits it will write to which cgroups.

A node agent stops for what it cannot do, and a plan says at which step. What had been written by then stays.
Source: pkg/kubelet/cm/node_container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from fairlead.api.podresources import Amounts
from fairlead.golang.quoting import go_quote
from fairlead.node.allocatable import Machine, all_pods, allocatable, capacity, numa_memory, over_reserved, reserved
from fairlead.node.cgroups.cpu import shares
from fairlead.node.cgroups.names import CgroupDriver, CgroupName, kubepods, parse_cgroup, path_of, qos_cgroup
from fairlead.node.cgroups.qos_tree import ClassRequests, QosReservation, qos_values
from fairlead.node.cgroups.values import MEMORY_MIN, CgroupSettings, CgroupValues, huge_page_limits
from fairlead.node.configuration.enforcement import (
    KUBE_RESERVED,
    KUBE_RESERVED_COMPRESSIBLE,
    PODS,
    SYSTEM_RESERVED,
    SYSTEM_RESERVED_COMPRESSIBLE,
)
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.feature_gates import MEMORY_QOS, QOS_RESERVED
from fairlead.node.configuration.load import Configured
from fairlead.node.cpus.policy import StaticPolicy, cpu_policy
from fairlead.node.cpus.topology import Topology
from fairlead.node.numa_memory.policy import StaticMemory, memory_policy
from fairlead.node.reservations import PID
from fairlead.node.startup import StartSettings, start_settings
from fairlead.node.user_ids import shortage_of_ids

ENFORCED: Final = "NodeAllocatableEnforced"
NOT_ENFORCED: Final = "FailedNodeAllocatableEnforcement"


class NodeEvent(NamedTuple):
    type: str
    reason: str
    message: str


class _Level(NamedTuple):
    """One of the reservations that can be enforced."""

    level: str
    title: str
    daemons: str
    is_compressible: bool


_LEVELS: Final = (
    _Level(SYSTEM_RESERVED, "System Reserved", "system", False),
    _Level(KUBE_RESERVED, "Kube Reserved", "kube", False),
    _Level(SYSTEM_RESERVED_COMPRESSIBLE, "System Reserved Compressible", "system", True),
    _Level(KUBE_RESERVED_COMPRESSIBLE, "Kube Reserved Compressible", "kube", True),
)


class NodePlan(msgspec.Struct, frozen=True):
    capacity: Amounts
    allocatable: Amounts
    cgroups: Mapping[CgroupName, CgroupValues]
    events: tuple[NodeEvent, ...]
    #: Who has CPUs to itself; None: no container has.
    cpus: StaticPolicy | None = None
    #: For whom memory of NUMA nodes is set aside; None: for nobody.
    memory: StaticMemory | None = None
    #: Why a daemon's cgroup cannot be had or its limits not be written: the node agent stops with it.
    problem: str = ""


def node_plan(
    configured: Configured,
    machine: Machine,
    missing_cgroups: Collection[str] = (),
    pods_memory_bytes: int = 0,
    topology: Topology | None = None,
    memory_of_nodes: Mapping[int, Mapping[str, int]] | None = None,
) -> NodePlan:
    """`missing_cgroups` are paths that do not exist on the machine; StartupError for what stops a node agent before.

    `pods_memory_bytes`: what pods use already; `topology`, `memory_of_nodes`: where CPUs and memory are,
    if somebody has looked.
    """
    config = configured.configuration
    started = start_settings(config, machine.cpus)
    if problem := shortage_of_ids(config):
        raise StartupError(Stage.START, problem)
    reservations = started.reservations
    total = capacity(machine, config)
    taken = reserved(total, reservations, started.hard_thresholds)
    if problem := over_reserved(total, taken):
        raise StartupError(Stage.START, f"invalid Node Allocatable configuration. {problem}")
    try:
        cpus = cpu_policy(
            config, configured.gates, lambda: topology or machine.shape.topology(machine.cpus), taken.get("cpu")
        )
        memory = memory_policy(config, memory_of_nodes or numa_memory(machine), taken)
    except ValueError as refused:
        raise StartupError(Stage.START, str(refused)) from None
    cgroups: dict[CgroupName, CgroupValues] = {}
    events: list[NodeEvent] = []
    if root := kubepods(config.cgroup_root, per_qos=config.cgroups_per_qos):
        enforces_pods = config.cgroups_per_qos and PODS in config.enforce_node_allocatable
        cgroups[root] = _values(all_pods(machine, config, reservations, in_full=not enforces_pods))
        limit = cgroups[root].memory_limit
        events.append(pods_limit_event(root, configured, limit, pods_memory_bytes))
    enforced = _Enforced(cgroups, events)
    problem = _enforce(configured, started, missing_cgroups, enforced)
    if not problem and config.system_cgroups == "/":
        problem = 'system container cannot be root ("/")'
    return NodePlan(total, allocatable(total, taken), cgroups, tuple(events), cpus, memory, problem)


def pods_limit_event(root: CgroupName, configured: Configured, limit: int | None, used: int) -> NodeEvent:
    """What is told of the limit of all pods: it is not set below what they use, but tried again (S1-23)."""
    if limit is None or used <= limit:
        return NodeEvent("Normal", ENFORCED, "Updated Node Allocatable limit across pods")
    problem = f"rejecting memory limit {limit} < usage {used}"
    if configured.cgroup_version == 1:  # the kernel says that it is busy
        problem = f"unable to set memory limit to {limit} (current usage: {used}, peak usage: {used})"
    return NodeEvent("Warning", NOT_ENFORCED, f"Failed to update Node Allocatable Limits {_quoted(root)}: {problem}")


def class_cgroups(
    configured: Configured, machine: Machine, requests: ClassRequests
) -> Mapping[CgroupName, CgroupValues]:
    """The cgroups of the QoS classes with what pods request, the lowest class first."""
    config = configured.configuration
    if not config.cgroups_per_qos:
        return {}
    started = start_settings(config, machine.cpus)
    reservation = None
    if configured.gates.enabled(QOS_RESERVED) and "memory" in started.qos_reserved_percent:
        memory = all_pods(machine, config, started.reservations, in_full=False)["memory"]
        reservation = QosReservation(started.qos_reserved_percent["memory"], memory.units)
    settings = CgroupSettings.of(config, configured.gates, configured.cgroup_version)
    root = kubepods(config.cgroup_root)
    classes = qos_values(requests, settings, reservation)
    return {qos_cgroup(root, class_): values for class_, values in classes.items()}


class _Enforced(NamedTuple):
    """What was done so far."""

    cgroups: dict[CgroupName, CgroupValues]
    events: list[NodeEvent]


def _enforce(
    configured: Configured, started: StartSettings, missing_cgroups: Collection[str], enforced: _Enforced
) -> str:
    """Write the limits of daemons that are asked for; returns why one could not be written, or nothing."""
    config = configured.configuration
    reservations, driver = started.reservations, started.cgroup_driver
    of_daemons = {
        "system": (config.system_reserved_cgroup, reservations.system),
        "kube": (config.kube_reserved_cgroup, reservations.kube),
    }
    for level in _LEVELS:
        if level.level not in config.enforce_node_allocatable:
            continue
        path, amounts = of_daemons[level.daemons]
        name = parse_cgroup(path, driver)
        if problem := _cgroup_problem(name, driver, amounts, path in missing_cgroups):
            message = f"Failed to enforce {level.title} Cgroup Limits on {go_quote(path)}: {problem}"
            enforced.events.append(NodeEvent("Warning", NOT_ENFORCED, message))
            return message
        protects = configured.cgroup_version == 2 and configured.gates.enabled(MEMORY_QOS)
        enforced.cgroups[name] = _daemon_values(amounts or {}, level.is_compressible, protects)
        message = f"Updated limits on {level.daemons} reserved cgroup {path}"
        enforced.events.append(NodeEvent("Normal", ENFORCED, message))
    return ""


def _cgroup_problem(name: CgroupName, driver: CgroupDriver, amounts: Amounts | None, is_missing: bool) -> str:
    quoted = _quoted(name)
    if amounts is None:
        return f"{quoted} cgroup is not configured properly"
    if is_missing:
        file = f"/sys/fs/cgroup{path_of(name, driver)}/cgroup.controllers"
        return f"could not read controllers for cgroup {quoted}: open {file}: no such file or directory"
    return ""


def _quoted(name: CgroupName) -> str:
    return f"[{' '.join(map(go_quote, name))}]"


def _daemon_values(amounts: Amounts, is_compressible: bool, protects: bool) -> CgroupValues:
    if is_compressible:
        amounts = {name: amount for name, amount in amounts.items() if name == "cpu"}
    values = _values(amounts)
    if not protects or values.memory_limit is None:
        return values
    return replace(values, unified={MEMORY_MIN: str(values.memory_limit)})


def _values(amounts: Amounts) -> CgroupValues:
    """cpu is a weight here, never a quota (S1-17)."""
    cpu, memory, pids = amounts.get("cpu"), amounts.get("memory"), amounts.get(PID)
    return CgroupValues(
        cpu_shares=None if cpu is None else shares(cpu.milli),
        memory_limit=None if memory is None else memory.units,
        pids_limit=None if pids is None else pids.units,
        huge_page_limits=huge_page_limits(amounts),
    )
