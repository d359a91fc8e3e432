"""`fairlead node reset`: nothing of ours is left on the machine but images, and nothing else is touched."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.agent import linux
from fairlead.agent.cgroups.daemons import RECORD as DAEMONS
from fairlead.agent.cgroups.daemons import take_back
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.claims import LOCK, claimed, held
from fairlead.agent.device_plugins.manager import FOLDER as DEVICE_PLUGINS
from fairlead.agent.devices.claims import STATE
from fairlead.agent.measuring.machine import ROOT
from fairlead.agent.network.reset import reset as reset_network
from fairlead.agent.network.settings import NetworkSettings
from fairlead.agent.network_choice import FOLDER
from fairlead.agent.plugins.sockets import PLUGINS, REGISTRY
from fairlead.agent.pod_resources.lister import FOLDER as POD_RESOURCES
from fairlead.agent.runtimes.oci.layout import Layout
from fairlead.agent.runtimes.oci.records import container_records, sandbox_records
from fairlead.agent.runtimes.oci.runtime import OWN_MOUNT
from fairlead.agent.runtimes.process import user_namespace
from fairlead.agent.runtimes.process.ending import end_containers
from fairlead.agent.shutdown import setting as shutdown_setting
from fairlead.agent.shutdown.shutdown import STATE as SHUTDOWN_STATE
from fairlead.agent.trees import remove_tree
from fairlead.node.cpus.state import STATE_FILE as CPU_STATE
from fairlead.node.numa_memory.state import STATE_FILE as MEMORY_STATE
from fairlead.runtime.loops import run

#: What an agent makes in its folder, images apart.
_OWN: Final = (
    *("containers", "sandboxes", "state", "pods", "logs", "last-words", "volumes", "static-pods", "pki", "pulls"),
    *("boot-id", OWN_MOUNT, "cri-endpoint", "cgroups.json", DAEMONS, LOCK, "limits.json", "probe"),
    *(REGISTRY, PLUGINS, STATE, SHUTDOWN_STATE, CPU_STATE, MEMORY_STATE, DEVICE_PLUGINS, POD_RESOURCES),
)
#: How long processes that were killed may take to be gone: ten seconds.
_MOST_TRIES: Final = 200
_LOOK_SECONDS: Final = 0.05


class Removed(NamedTuple):
    pods: int
    containers: int


def reset(root: Path) -> Removed:
    """InUse if an agent runs; OSError and RuntimeFailure for what is refused, after which it may be tried again.

    Of a node without root only without other threads.
    """
    if not root.is_dir():
        return Removed(0, 0)
    if user_namespace.is_here(root) or os.geteuid() != 0:
        return _reset_of_user(root)
    with held(root):
        layout, cgroups = Layout(root), Cgroups(hierarchies())
        layout.make()
        pods, containers = _remove_pods_of_cri(root)
        found = Removed(pods + len(sandbox_records(layout)), containers + len(container_records(layout)))
        for path in claimed(root):
            _remove_cgroup(cgroups, path)
        take_back(cgroups, ROOT, root)
        run(reset_network(NetworkSettings(node_name="", root=root / FOLDER)))
        shutdown_setting.remove()
        _remove_files(root)
    return found


def _reset_of_user(root: Path) -> Removed:
    """Of a node without root, whose user namespace this process enters; that ends as well."""
    with held(root):
        user_namespace.enter(root)
        layout = Layout(root)
        layout.make()
        found = Removed(len(sandbox_records(layout)), len(container_records(layout)))
        run(end_containers(layout))
        _remove_files(root)
        user_namespace.end(root)
    return found


def _remove_pods_of_cri(root: Path) -> tuple[int, int]:
    from fairlead.agent.runtimes.cri.network import withdraw  # gRPC is for those alone who use it
    from fairlead.agent.runtimes.cri.reset import reset as reset_cri

    removed = run(reset_cri(root))
    withdraw(root / FOLDER)  # the runtime detaches pods by it
    return removed


def _remove_cgroup(cgroups: Cgroups, path: str) -> None:
    """With whatever runs in it: pods, or the keepers of their containers."""
    for _ in range(_MOST_TRIES):
        cgroups.kill(path)
        if cgroups.remove(path):
            return
        time.sleep(_LOOK_SECONDS)
    raise OSError(errno.EBUSY, "processes in it do not end", path)


def _remove_files(root: Path) -> None:
    """Disks that were mounted there before stay."""
    for name in _OWN:
        linux.unmount_below(root / name)
    if (root / OWN_MOUNT).exists() and root in linux.mount_points(root):  # it ends with the namespace or the machine
        linux.unmount(root)
    for name in _OWN:
        path = root / name
        if path.is_dir():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    if not any(root.iterdir()) and root not in linux.mount_points(root):
        root.rmdir()
