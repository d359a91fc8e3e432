"""HorizontalPodAutoscalers, and the `scale` of what they scale, as controllers see them."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Condition, Object, View, WrittenView
from fairlead.api.workloads import shown


class ScaleSpec(View):
    replicas: int = 0


class ScaleStatus(View):
    replicas: int = 0
    #: As text.
    selector: str = ""


class Scale(Object):
    """The `scale` subresource of anything."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class TargetReference(WrittenView):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class MetricTarget(View):
    type: str = ""
    average_utilization: int | None = None
    average_value: str | None = None
    value: str | None = None


class MetricIdentifier(WrittenView):
    name: str = ""
    selector: LabelSelector | None = None


class ResourceMetric(View):
    """`resource`, and with a container `containerResource`."""

    name: str = ""
    container: str = ""
    target: MetricTarget = MetricTarget()


class CustomMetric(View):
    """`pods`, `external`, and with the object that it describes `object`."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()
    described_object: TargetReference = TargetReference()


class MetricSpec(View):
    type: str = ""
    resource: ResourceMetric | None = None
    container_resource: ResourceMetric | None = None
    pods: CustomMetric | None = None
    object: CustomMetric | None = None
    external: CustomMetric | None = None


class ScalingPolicy(View):
    type: str
    value: int
    period_seconds: int


class ScalingRules(View):
    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: str | None = None


class Behavior(View):
    scale_up: ScalingRules = ScalingRules()
    scale_down: ScalingRules = ScalingRules()


class AutoscalerSpec(View):
    scale_target_ref: TargetReference = TargetReference()
    min_replicas: int = 1
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    behavior: Behavior | None = None


class AutoscalerCondition(Condition, omit_defaults=True):
    """Written as it is."""


class AutoscalerStatus(WrittenView):
    current_replicas: int = shown()
    desired_replicas: int = shown()
    last_scale_time: str | None = None
    current_metrics: tuple[dict[str, Any], ...] | None = None
    conditions: tuple[AutoscalerCondition, ...] = msgspec.field(default=())


class HorizontalPodAutoscaler(Object):
    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus = AutoscalerStatus()
