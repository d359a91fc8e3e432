"""Where the cgroups of a node are: kubepods, in it the QoS classes, in these the pods, in these the containers.

A name is a tuple of parts, whatever the driver. The systemd driver makes slices of it, in which a dash means a level:
dashes of a part become underscores (S1-30).
Sources: pkg/kubelet/cm/cgroup_manager_linux.go, pod_container_manager_linux.go.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from fairlead.api.qos import GUARANTEED

CgroupName: TypeAlias = tuple[str, ...]
KUBEPODS: Final = "kubepods"
_SLICE: Final = ".slice"


class CgroupDriver(StrEnum):
    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


def kubepods(cgroup_root: str = "/", *, per_qos: bool = True) -> CgroupName:
    """The cgroup of all pods; without `cgroupsPerQOS` pods are in the root itself."""
    root = parse_cgroup(cgroup_root or "/", CgroupDriver.CGROUPFS)
    return (*root, KUBEPODS) if per_qos else root


def qos_cgroup(parent: CgroupName, qos_class: str) -> CgroupName:
    """Guaranteed pods have no level of their own (S4-02)."""
    return parent if qos_class == GUARANTEED else (*parent, qos_class.lower())


def pod_cgroup(parent: CgroupName, uid: str) -> CgroupName:
    return (*parent, f"pod{uid}")


def path_of(name: CgroupName, driver: CgroupDriver) -> str:
    """Below the mount point of the cgroup file system."""
    if driver is CgroupDriver.CGROUPFS or not name:
        return "/" + "/".join(name)
    parts = [part.replace("-", "_") for part in name]
    return "".join(f"/{'-'.join(parts[: level + 1])}{_SLICE}" for level in range(len(parts)))


def container_path(pod: CgroupName, container_id: str, driver: CgroupDriver, runtime: str = "cri-containerd") -> str:
    """The runtime makes the cgroup of a container; under systemd it is a scope, not a slice."""
    leaf = f"{runtime}-{container_id}.scope" if driver is CgroupDriver.SYSTEMD else container_id
    return f"{path_of(pod, driver)}/{leaf}"


def parse_cgroup(path: str, driver: CgroupDriver) -> CgroupName:
    """The name behind a path such as `/system.slice`."""
    if driver is CgroupDriver.SYSTEMD:
        last = path.rstrip("/").rpartition("/")[2].removesuffix(_SLICE)
        return tuple(part.replace("_", "-") for part in last.split("-"))
    return tuple(filter(None, path.split("/")))
