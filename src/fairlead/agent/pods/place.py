"""Where pods are: the node with all that they need of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.device_plugins.manager import DevicePlugins
from fairlead.agent.devices.claims import ClaimManager
from fairlead.agent.images_seam import Images
from fairlead.agent.network.settings import DEFAULT_DOMAIN
from fairlead.agent.network_seam import PodNetwork
from fairlead.agent.pods.events import PodEvents
from fairlead.agent.pods.pod_metrics import PodMetrics
from fairlead.agent.pods.pulls import Pulls
from fairlead.agent.pods.sources import Sources
from fairlead.agent.pods.user_ranges import UserRanges
from fairlead.agent.runtimes.base import Runtime
from fairlead.agent.topology.manager import TopologyManager
from fairlead.agent.volumes.claimed import Claims
from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts
from fairlead.api.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from fairlead.api.services import Service
from fairlead.node.cgroups.containers import ContainerHost, ContainerValues, container_values
from fairlead.node.cgroups.files import files
from fairlead.node.cgroups.names import CgroupDriver, kubepods, path_of, pod_cgroup, qos_cgroup
from fairlead.node.cgroups.pods import pod_values
from fairlead.node.cgroups.values import CgroupSettings
from fairlead.node.configuration.load import Configured

#: In the folder of the agent: a folder of each pod.
PODS: Final = "pods"
QOS_CLASSES: Final = (GUARANTEED, BURSTABLE, BEST_EFFORT)


@dataclass(frozen=True, slots=True)
class Place:
    node_name: str
    node_ip: str
    root: Path
    runtime: Runtime
    images: Images
    pulls: Pulls
    network: PodNetwork
    cgroups: Cgroups
    sources: Sources
    claims: Claims
    devices: ClaimManager
    topology: TopologyManager
    device_plugins: DevicePlugins
    #: Those of the cluster.
    services: Callable[[], Iterable[Service]]
    events: PodEvents
    metrics: PodMetrics
    users: UserRanges
    configured: Configured
    host: ContainerHost
    #: As the kernel said at the start.
    has_apparmor: bool
    has_selinux: bool
    allocatable: Amounts

    def folder(self, uid: str) -> Path:
        """What a pod has besides its containers."""
        return self.root / PODS / uid

    def log_folder(self, namespace: str, name: str, uid: str) -> Path:
        return self.root / "logs" / f"{namespace}_{name}_{uid}"

    def log_folders(self, uid: str) -> Sequence[Path]:
        """Of a pod of which nothing but the uid is known."""
        return list((self.root / "logs").glob(f"*_{uid}"))

    @property
    def cluster_domain(self) -> str:
        return self.configured.configuration.cluster_domain or DEFAULT_DOMAIN

    @property
    def settings(self) -> CgroupSettings:
        return CgroupSettings.of(self.configured.configuration, self.configured.gates, self.configured.cgroup_version)

    def cgroup_of(self, manifest: Obj) -> str:
        """The cgroup of a pod."""
        parent = qos_cgroup(kubepods(self.configured.configuration.cgroup_root), qos_class(manifest["spec"]))
        return path_of(pod_cgroup(parent, manifest["metadata"]["uid"]), CgroupDriver.CGROUPFS)

    def pod_cgroups(self) -> list[str]:
        """Those of all pods that are there."""
        root = kubepods(self.configured.configuration.cgroup_root)
        parents = [path_of(qos_cgroup(root, class_), CgroupDriver.CGROUPFS) for class_ in QOS_CLASSES]
        return [
            f"{parent}/{name}" for parent in parents for name in self.cgroups.children(parent) if name.startswith("pod")
        ]

    def cgroup_files(self, manifest: Obj) -> Mapping[str, str]:
        return files(pod_values(manifest["spec"], self.settings), self.configured.cgroup_version)

    def container_values(self, manifest: Obj) -> Mapping[str, ContainerValues]:
        return self.topology.placed(manifest["metadata"]["uid"], container_values(manifest, self.settings, self.host))
