"""Pods and nodes as the scheduler sees them: what decides where a pod may run, and nothing that heartbeats change.

The scheduler holds every pod of a cluster, so a view declares only what is read. Parts of the pod's spec that decide
are encoded again as the key of its requirements (`fairlead.scheduler.requirements`), hence `WrittenView`.
"""

from __future__ import annotations

import msgspec

from fairlead.api.disks import DiskVolume
from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Condition, Object, View, WrittenView
from fairlead.api.node_affinity import NodeAffinity
from fairlead.api.pods import FINISHED, ClaimVolume
from fairlead.api.resource_claims import MadeClaim, PodClaim
from fairlead.api.taints import Taint, Toleration

DEFAULT_SCHEDULER = "default-scheduler"
#: The label of the pods of a gang, by scheduler-plugins.
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


# --- nodes ----------------------------------------------------------------------------------------------------------


class NodeSpec(View):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = ()


class ContainerImage(View):
    names: tuple[str, ...] | None = ()
    size_bytes: int = 0


class NodeStatus(View):
    allocatable: dict[str, str] = {}
    images: tuple[ContainerImage, ...] | None = ()
    declared_features: tuple[str, ...] | None = ()


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self.spec.taints or ()


# --- pods -----------------------------------------------------------------------------------------------------------


class ContainerPort(WrittenView):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Resources(WrittenView):
    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class RestartRule(WrittenView):
    action: str = ""


class Container(WrittenView):
    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None


class PodAffinityTerm(WrittenView):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(WrittenView):
    weight: int
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(WrittenView):
    """Of either sign: `podAffinity` and `podAntiAffinity` are alike."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(WrittenView):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(WrittenView):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class SchedulingGate(View):
    name: str = ""


class ImageVolume(WrittenView):
    reference: str = ""


class EphemeralVolume(WrittenView):
    """Its claim has the name `POD-VOLUME`."""


class Volume(DiskVolume):
    name: str = ""
    image: ImageVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None


class PodSpec(View):
    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    overhead: dict[str, str] | None = None
    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None


class ContainerStatus(WrittenView):
    """What the node has really given to a container (in-place resize)."""

    name: str = ""
    resources: Resources | None = None
    allocated_resources: dict[str, str] | None = None


class PodStatus(View):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] | None = ()
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    #: What the node has really given to the pod as a whole.
    resources: Resources | None = None
    allocated_resources: dict[str, str] | None = None
    resource_claim_statuses: tuple[MadeClaim, ...] | None = None


class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def priority(self) -> int:
        return self.spec.priority or 0

    @property
    def is_finished(self) -> bool:
        """It has run to its end and holds nothing any more."""
        return self.status.phase in FINISHED

    def condition(self, type_: str) -> Condition | None:
        for condition in self.status.conditions or ():  # not a generator: asked at every refusal
            if condition.type == type_:
                return condition
        return None
