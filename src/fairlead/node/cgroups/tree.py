"""Every cgroup of a node with the value of each file: daemons and classes, then the pods and containers there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from fairlead.api.objects import Obj
from fairlead.api.qos import qos_class
from fairlead.node.allocatable import Machine, all_pods
from fairlead.node.cgroups.containers import ContainerHost, ContainerValues, container_values
from fairlead.node.cgroups.files import files
from fairlead.node.cgroups.names import CgroupDriver, container_path, kubepods, path_of, pod_cgroup, qos_cgroup
from fairlead.node.cgroups.pods import pod_values
from fairlead.node.cgroups.qos_tree import class_requests
from fairlead.node.cgroups.values import CgroupSettings, CgroupValues
from fairlead.node.configuration.load import Configured
from fairlead.node.plan import NodePlan, class_cgroups
from fairlead.node.startup import start_settings

#: By path of the cgroup, the values by file.
CgroupTree: TypeAlias = Mapping[str, Mapping[str, str]]
#: Of either version.
CPUSET: Final = "cpuset.cpus"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def cgroup_tree(configured: Configured, machine: Machine, plan: NodePlan, pods: Iterable[Obj] = ()) -> CgroupTree:
    """`plan` is the node's own; pods that have ended have no cgroup."""
    there = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED]
    version, driver = configured.cgroup_version, CgroupDriver(configured.configuration.cgroup_driver)
    classes = class_cgroups(configured, machine, class_requests(pod["spec"] for pod in there))
    found: dict[str, dict[str, str]] = {}
    for name, values in sorted([*plan.cgroups.items(), *classes.items()], key=lambda entry: entry[0]):
        found.setdefault(path_of(name, driver), {}).update(files(values, version))
    for path, written in _of_pods(configured, machine, there):
        found[path] = dict(written)
    return found


def _of_pods(configured: Configured, machine: Machine, pods: Sequence[Obj]) -> Iterator[tuple[str, Mapping[str, str]]]:
    config, version = configured.configuration, configured.cgroup_version
    driver, root = CgroupDriver(config.cgroup_driver), kubepods(config.cgroup_root)
    settings = CgroupSettings.of(config, configured.gates, version)
    reservations = start_settings(config, machine.cpus).reservations
    host = ContainerHost(
        machine.memory_bytes,
        version,
        is_single_process_oom_kill=config.is_single_process_oom_kill(version),
        allocatable_memory=all_pods(machine, config, reservations, in_full=False)["memory"].units,
    )
    for pod in sorted(pods, key=lambda pod: (pod["metadata"].get("namespace", ""), pod["metadata"]["name"])):
        if not config.cgroups_per_qos:
            parent = root
        else:
            parent = pod_cgroup(qos_cgroup(root, qos_class(pod["spec"])), pod["metadata"]["uid"])
            yield path_of(parent, driver), files(pod_values(pod["spec"], settings), version)
        ids = _container_ids(pod)
        for name, values in container_values(pod, settings, host).items():
            if name in ids:
                yield container_path(parent, ids[name], driver), container_files(values, version)


def _container_ids(pod: Obj) -> Mapping[str, str]:
    """Of the containers that run."""
    status = pod.get("status") or {}
    entries = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {
        entry["name"]: entry["containerID"].rpartition("/")[2]
        for entry in entries
        if entry.get("containerID") and "running" in (entry.get("state") or {})
    }


def container_files(container: ContainerValues, version: int) -> Mapping[str, str]:
    """The runtime's formula of weights is newer than that of the node agent."""
    values = CgroupValues(
        cpu_shares=container.cpu_shares,
        cpu_quota=container.cpu_quota or None,
        cpu_period=container.cpu_period or None,
        memory_limit=container.memory_limit or None,
        unified=container.unified,
    )
    written = dict(files(values, version))
    if version == 2:
        written["cpu.weight"] = str(container.cpu_weight)
    if container.cpuset_cpus:
        written[CPUSET] = container.cpuset_cpus
    return written
