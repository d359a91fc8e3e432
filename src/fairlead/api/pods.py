"""Pods as controllers and simulated nodes see them. Tens of thousands are held at a time: declare only what is read.

What only few controllers look at, and seldom, stays undecoded: a slice of the pod's bytes, which exist anyway.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.encoded import key_bytes
from fairlead.api.meta import Condition, Object, View, WrittenView
from fairlead.api.node_affinity import NAME_FIELD, NodeAffinity
from fairlead.api.taints import TimedToleration

FINISHED = ("Succeeded", "Failed")
#: The annotation of a pod that only shows what a kubelet runs from a file.
MIRROR = "kubernetes.io/config.mirror"

_EPHEMERAL, _CLAIM = key_bytes("ephemeral"), key_bytes("persistentVolumeClaim")

#: A field that is kept undecoded, and is not there.
ABSENT = msgspec.Raw(b"")


class ClaimVolume(WrittenView):
    claim_name: str = ""


class Volume(View):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: msgspec.Raw = ABSENT


class Affinity(View):
    node_affinity: NodeAffinity | None = None


class ContainerPort(View):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class ExitCodes(View):
    operator: str = ""
    values: tuple[int, ...] = ()

    def match(self, exit_code: int) -> bool:
        return (exit_code in self.values) is (self.operator == "In")


class RestartRule(View):
    action: str = ""
    exit_codes: ExitCodes | None = None


class ProbeTarget(View):
    port: int | str = 0


class Probe(View):
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None
    http_get: ProbeTarget | None = None
    tcp_socket: ProbeTarget | None = None
    grpc: ProbeTarget | None = None


class ResizePolicy(View):
    resource_name: str = ""
    restart_policy: str = ""


class Container(View):
    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()
    resources: dict[str, Any] | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    resize_policy: tuple[ResizePolicy, ...] | None = None


class EphemeralContainer(Container):
    """One that joins a pod that runs, to look at it."""

    target_container_name: str = ""


class ReadinessGate(View):
    condition_type: str = ""


_mapping = msgspec.json.Decoder(dict[str, Any]).decode
_volumes = msgspec.json.Decoder(tuple[Volume, ...]).decode
_containers = msgspec.json.Decoder(tuple[Container, ...]).decode
_ephemeral_containers = msgspec.json.Decoder(tuple[EphemeralContainer, ...]).decode
_readiness_gates = msgspec.json.Decoder(tuple[ReadinessGate, ...]).decode
_tolerations = msgspec.json.Decoder(tuple[TimedToleration, ...]).decode
_affinity = msgspec.json.Decoder(Affinity).decode


class PodSpec(View):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    restart_policy: str = "Always"
    host_network: bool = False
    priority: int | None = None
    priority_class_name: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    raw_overhead: msgspec.Raw = msgspec.field(default=ABSENT, name="overhead")
    raw_resources: msgspec.Raw = msgspec.field(default=ABSENT, name="resources")
    raw_affinity: msgspec.Raw = msgspec.field(default=ABSENT, name="affinity")
    raw_volumes: msgspec.Raw = msgspec.field(default=ABSENT, name="volumes")
    raw_containers: msgspec.Raw = msgspec.field(default=ABSENT, name="containers")
    raw_init_containers: msgspec.Raw = msgspec.field(default=ABSENT, name="initContainers")
    raw_ephemeral_containers: msgspec.Raw = msgspec.field(default=ABSENT, name="ephemeralContainers")
    raw_tolerations: msgspec.Raw = msgspec.field(default=ABSENT, name="tolerations")
    raw_node_selector: msgspec.Raw = msgspec.field(default=ABSENT, name="nodeSelector")
    raw_os: msgspec.Raw = msgspec.field(default=ABSENT, name="os")
    raw_readiness_gates: msgspec.Raw = msgspec.field(default=ABSENT, name="readinessGates")
    raw_resource_claims: msgspec.Raw = msgspec.field(default=ABSENT, name="resourceClaims")

    @property
    def affinity(self) -> Affinity | None:
        return _affinity(self.raw_affinity) if self.raw_affinity else None

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return _volumes(self.raw_volumes) if self.raw_volumes else ()

    @property
    def may_have_ephemeral_volumes(self) -> bool:
        """Whether it is worth decoding the volumes to look for ephemeral ones; hardly any pod has them."""
        return _EPHEMERAL in bytes(self.raw_volumes)

    @property
    def may_have_claims(self) -> bool:
        """The same of claims, which few pods have."""
        return _CLAIM in bytes(self.raw_volumes) or self.may_have_ephemeral_volumes

    @property
    def readiness_gates(self) -> tuple[ReadinessGate, ...]:
        return _readiness_gates(self.raw_readiness_gates) if self.raw_readiness_gates else ()

    @property
    def containers(self) -> tuple[Container, ...]:
        return _containers(self.raw_containers) if self.raw_containers else ()

    @property
    def init_containers(self) -> tuple[Container, ...]:
        return _containers(self.raw_init_containers) if self.raw_init_containers else ()

    @property
    def ephemeral_containers(self) -> tuple[EphemeralContainer, ...]:
        return _ephemeral_containers(self.raw_ephemeral_containers) if self.raw_ephemeral_containers else ()

    @property
    def tolerations(self) -> tuple[TimedToleration, ...]:
        return _tolerations(self.raw_tolerations) if self.raw_tolerations else ()


class Terminated(View):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(default="", name="containerID")


class Waiting(View):
    reason: str = ""
    message: str = ""


class Running(View):
    started_at: str | None = None


class ContainerState(View):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View):
    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    image_id: str = msgspec.field(default="", name="imageID")
    restart_count: int = 0
    state: ContainerState = ContainerState()
    raw_last_state: msgspec.Raw = msgspec.field(default=ABSENT, name="lastState")
    raw_resources: msgspec.Raw = msgspec.field(default=ABSENT, name="resources")
    raw_allocated_resources: msgspec.Raw = msgspec.field(default=ABSENT, name="allocatedResources")
    raw_user: msgspec.Raw = msgspec.field(default=ABSENT, name="user")
    raw_volume_mounts: msgspec.Raw = msgspec.field(default=ABSENT, name="volumeMounts")

    @property
    def shown(self) -> dict[str, Any]:
        """What it shows of the container's run besides: who it runs as, and its mounts."""
        found = {"user": self.raw_user, "volumeMounts": self.raw_volume_mounts}
        return {name: msgspec.json.decode(raw) for name, raw in found.items() if raw}

    @property
    def last_state(self) -> dict[str, Any]:
        return _mapping(self.raw_last_state) if self.raw_last_state else {}

    @property
    def resources(self) -> dict[str, Any]:
        """What the node has given to the container."""
        return _mapping(self.raw_resources) if self.raw_resources else {}

    @property
    def allocated_resources(self) -> dict[str, Any]:
        """The requests that the node has allocated to the container."""
        return _mapping(self.raw_allocated_resources) if self.raw_allocated_resources else {}


class PodIP(View):
    ip: str = ""


class PodStatus(View):
    phase: str = ""
    observed_generation: int = 0
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    raw_resources: msgspec.Raw = msgspec.field(default=ABSENT, name="resources")
    raw_resource_claim_statuses: msgspec.Raw = msgspec.field(default=ABSENT, name="resourceClaimStatuses")
    raw_extended_resource_claim_status: msgspec.Raw = msgspec.field(default=ABSENT, name="extendedResourceClaimStatus")


class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def target_node(self) -> str:
        """Where it runs, or else the one node that it may run on (a daemon set says so by an affinity)."""
        affinity = self.spec.affinity
        if self.spec.node_name or affinity is None or affinity.node_affinity is None:
            return self.spec.node_name
        required = affinity.node_affinity.required
        names = [
            requirement.values[0]
            for term in (required and required.node_selector_terms) or ()
            for requirement in term.match_fields or ()
            if requirement.key == NAME_FIELD and requirement.values and len(requirement.values) == 1
        ]
        return names[0] if names else ""

    def condition(self, type_: str) -> Condition | None:
        return next((condition for condition in self.status.conditions if condition.type == type_), None)

    @property
    def ready_condition(self) -> Condition | None:
        return self.condition("Ready")

    @property
    def is_ready(self) -> bool:
        condition = self.ready_condition
        return condition is not None and condition.status == "True"

    @property
    def is_finished(self) -> bool:
        """It has run to its end, well or not."""
        return self.status.phase in FINISHED

    @property
    def is_active(self) -> bool:
        """It counts as a replica: neither finished nor being deleted."""
        return self.status.phase not in FINISHED and self.metadata.deletion_timestamp is None

    @property
    def is_terminating(self) -> bool:
        """It was deleted and is still shutting down."""
        return self.metadata.deletion_timestamp is not None and self.status.phase not in FINISHED


def claim_of(pod: Pod, volume: Volume) -> str:
    """The name of the claim behind a volume, or "" for a volume of another sort."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral != ABSENT else ""
