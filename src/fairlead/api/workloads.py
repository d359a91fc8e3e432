"""The workload kinds as their controllers see them.

Statuses leave out what is at its zero value, as Go's `omitempty` does, except the counts that Kubernetes always
shows; `fairlead.controllers.actions.Status` writes the difference between two of them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Condition, Object, View, WrittenView
from fairlead.api.objects import Obj

_NO_TEMPLATE: Final = msgspec.Raw(b"{}")
_decode = msgspec.json.Decoder(dict, float_hook=float).decode


def shown() -> Any:
    """A count that is written even when it is zero (msgspec keeps what a factory made)."""
    return msgspec.field(default_factory=int)


def template_of(raw: msgspec.Raw) -> Obj:
    """A fresh dict of a pod template, which views keep undecoded: most readers never look at it."""
    found: Obj = _decode(raw)
    return found


class WorkloadCondition(Condition, omit_defaults=True):
    last_update_time: str | None = None


class ReplicaStatus(WrittenView):
    """The status of replication controllers and replica sets."""

    replicas: int = shown()
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicationControllerSpec(View):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: dict[str, str] = {}
    template: msgspec.Raw = _NO_TEMPLATE


class ReplicationController(Object):
    spec: ReplicationControllerSpec
    status: ReplicaStatus = ReplicaStatus()

    @property
    def selector(self) -> LabelSelector:
        return LabelSelector(match_labels=self.spec.selector)


class ReplicaSetSpec(View, kw_only=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector
    template: msgspec.Raw = _NO_TEMPLATE


class ReplicaSet(Object):
    spec: ReplicaSetSpec
    status: ReplicaStatus = ReplicaStatus()

    @property
    def selector(self) -> LabelSelector:
        return self.spec.selector


class RollingUpdate(View):
    """How far a rolling update may go; absent values are those that the server would have filled in."""

    max_surge: int | str = 0
    max_unavailable: int | str = 0
    partition: int = 0


class RolloutStrategy(View):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(View, kw_only=True):
    replicas: int = 1
    selector: LabelSelector
    template: msgspec.Raw = _NO_TEMPLATE
    strategy: RolloutStrategy = RolloutStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(WrittenView):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class Deployment(Object):
    spec: DeploymentSpec
    status: DeploymentStatus = DeploymentStatus()

    @property
    def selector(self) -> LabelSelector:
        return self.spec.selector


class ControllerRevision(Object):
    """One state of a template, kept so that it can be brought back."""

    revision: int = 0
    data: msgspec.Raw = _NO_TEMPLATE


class ClaimRetention(View):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(View):
    start: int = 0


class StatefulSetSpec(View, kw_only=True):
    replicas: int = 1
    selector: LabelSelector
    template: msgspec.Raw = _NO_TEMPLATE
    volume_claim_templates: msgspec.Raw = msgspec.Raw(b"[]")
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: RolloutStrategy = RolloutStrategy()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()
    ordinals: Ordinals = Ordinals()


class StatefulSetStatus(WrittenView):
    observed_generation: int = 0
    replicas: int = shown()
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    available_replicas: int = shown()
    conditions: tuple[WorkloadCondition, ...] = ()


class StatefulSet(Object):
    spec: StatefulSetSpec
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def selector(self) -> LabelSelector:
        return self.spec.selector


class DaemonSetSpec(View):
    selector: LabelSelector
    template: msgspec.Raw = _NO_TEMPLATE
    update_strategy: RolloutStrategy = RolloutStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(WrittenView):
    current_number_scheduled: int = shown()
    number_misscheduled: int = shown()
    desired_number_scheduled: int = shown()
    number_ready: int = shown()
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class DaemonSet(Object):
    spec: DaemonSetSpec
    status: DaemonSetStatus = DaemonSetStatus()

    @property
    def selector(self) -> LabelSelector:
        return self.spec.selector
