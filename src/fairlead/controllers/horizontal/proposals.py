"""What one metric of an autoscaler proposes, or why it proposes nothing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.autoscaling import CustomMetric, HorizontalPodAutoscaler, MetricSpec, ResourceMetric, Scale
from fairlead.api.errors import ApiError
from fairlead.api.metrics import POD_METRICS, PodMetrics
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.quantity import Format, Quantity, parse
from fairlead.controllers.actions import Action, GiveWay, Kind, ListAll
from fairlead.controllers.horizontal.custom_metrics import (
    external_context,
    external_error,
    object_context,
    object_error,
    pods_error,
)
from fairlead.controllers.horizontal.pod_groups import grouped, requested
from fairlead.controllers.horizontal.replicas import (
    Incomputable,
    PodGroups,
    Proposal,
    Tolerances,
    for_average,
    for_utilization,
)
from fairlead.controllers.horizontal.samples import Sample, sample_of, unavailable

_METRICS: Final = Kind(POD_METRICS, PodMetrics)
#: So many pods are looked at before others get a turn.
TURN_PODS: Final = 2000
_NANOS_IN_MILLI: Final = 10**6


class Workload(msgspec.Struct):
    """What the metrics of one autoscaler are about."""

    autoscaler: HorizontalPodAutoscaler
    scale: Scale
    pods: Sequence[Pod]
    now: float
    #: What the resource metrics API says of the pods, or why nothing: asked once, however many metrics there are.
    measured: Sequence[PodMetrics] | Incomputable | None = None

    @property
    def namespace(self) -> str:
        return self.autoscaler.metadata.namespace


class Proposed(msgspec.Struct, frozen=True):
    replicas: int
    metric: str
    status: Obj


class MetricFailed(Exception):
    """The metric cannot be had: the reason, and the text for an event; `context` leads the text in a summary."""

    def __init__(self, reason: str, text: str, context: str) -> None:
        super().__init__(text)
        self.reason, self.text, self.summary = reason, text, f"{context}: {text}"


def propose(spec: MetricSpec, workload: Workload) -> Generator[Action, Any, Proposed]:
    """What a metric proposes; `MetricFailed` if it cannot be had."""
    if spec.resource is not None:
        return (yield from _resource(spec.resource, workload))
    if spec.container_resource is not None:
        return (yield from _resource(spec.container_resource, workload))
    raise _unserved(spec, workload.namespace)


def _unserved(spec: MetricSpec, namespace: str) -> MetricFailed:
    if spec.pods is not None:
        return MetricFailed("FailedGetPodsMetric", pods_error(spec.pods), "failed to get pods metric value")
    if spec.object is not None:
        text = object_error(spec.object, namespace)
        return MetricFailed("FailedGetObjectMetric", text, object_context(spec.object))
    external = spec.external or CustomMetric()
    return MetricFailed("FailedGetExternalMetric", external_error(external, namespace), external_context(external))


def _resource(metric: ResourceMetric, workload: Workload) -> Generator[Action, Any, Proposed]:
    is_container = bool(metric.container)
    measure = "usage" if metric.target.average_value is not None else "utilization"
    try:
        proposal = yield from _computed(metric, workload)
    except Incomputable as error:
        reason = "FailedGetContainerResourceMetric" if is_container else "FailedGetResourceMetric"
        about = f"{metric.container} container" if is_container else f"{metric.name} resource"
        text = f"failed to get {metric.name} {measure}: {error}"
        raise MetricFailed(reason, text, f"failed to get {about} metric value") from None
    name = f"{metric.name} resource"
    if proposal.utilization is not None:
        kind = "container resource" if is_container else "resource"
        name = f"{metric.name} {kind} utilization (percentage of request)"
    return Proposed(proposal.replicas, name, _status(metric, proposal))


def _computed(metric: ResourceMetric, workload: Workload) -> Generator[Action, Any, Proposal]:
    resource, target = metric.name, metric.target
    try:
        samples = yield from _samples(metric, workload)
    except Incomputable as error:
        raise Incomputable(f"unable to get metrics for resource {resource}: {error}") from None
    if not workload.pods:
        raise Incomputable("no pods returned by selector while calculating replica count")
    groups = yield from _groups(workload, samples, resource)
    amounts = {pod: sample.amount for pod, sample in samples.items()}
    current, tolerances = workload.scale.spec.replicas, _tolerances(workload.autoscaler)
    if target.average_value is not None:
        return for_average(current, parse(target.average_value).milli, amounts, groups, tolerances)
    groups.countable(amounts)  # that nobody counts is told before that somebody requests nothing
    requests: dict[str, int] = {}
    for index, pod in enumerate(workload.pods):
        requests[pod.metadata.name] = requested(pod, resource, metric.container)
        if index % TURN_PODS == TURN_PODS - 1:
            yield GiveWay()
    yield GiveWay()
    return for_utilization(current, target.average_utilization or 0, amounts, requests, groups, tolerances)


def _groups(workload: Workload, samples: Mapping[str, Sample], resource: str) -> Generator[Action, Any, PodGroups]:
    ready = 0
    unready, missing, ignored = set[str](), set[str](), set[str]()
    for begin in range(0, len(workload.pods), TURN_PODS):
        part = grouped(workload.pods[begin : begin + TURN_PODS], samples, resource, workload.now)
        ready += part.ready
        unready |= part.unready
        missing |= part.missing
        ignored |= part.ignored
        yield GiveWay()
    return PodGroups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _samples(metric: ResourceMetric, workload: Workload) -> Generator[Action, Any, Mapping[str, Sample]]:
    if workload.measured is None:
        workload.measured = yield from _measured(workload)
    if isinstance(workload.measured, Incomputable):
        raise workload.measured
    samples: dict[str, Sample] = {}
    for index, measured in enumerate(workload.measured):
        sample = sample_of(measured, metric.name, metric.container)
        if sample is not None:
            samples[measured.metadata.name] = sample
        if index % TURN_PODS == TURN_PODS - 1:
            yield GiveWay()
    return samples


def _measured(workload: Workload) -> Generator[Action, Any, Sequence[PodMetrics] | Incomputable]:
    try:
        items = yield ListAll(_METRICS, workload.namespace, workload.scale.status.selector)
    except ApiError as error:
        return unavailable(error)
    if not items:
        return Incomputable("no metrics returned from resource metrics API")
    found = []
    for index, item in enumerate(items):
        found.append(item.view(PodMetrics))
        if index % TURN_PODS == TURN_PODS - 1:
            yield GiveWay()
    return found


def _tolerances(autoscaler: HorizontalPodAutoscaler) -> Tolerances:
    """`tolerance` of the behavior, where there is one (HPAConfigurableTolerance is on by default)."""
    behavior, default = autoscaler.spec.behavior, Tolerances()
    if behavior is None:
        return default
    down, up = behavior.scale_down.tolerance, behavior.scale_up.tolerance
    return Tolerances(
        default.scale_down if down is None else parse(down).nanos / 1e9,
        default.scale_up if up is None else parse(up).nanos / 1e9,
    )


def _status(metric: ResourceMetric, proposal: Proposal) -> Obj:
    style = Format.BINARY_SI if metric.name == "memory" else Format.DECIMAL_SI
    current: Obj = {"averageValue": str(Quantity(proposal.average * _NANOS_IN_MILLI, style))}
    if proposal.utilization is not None:
        current["averageUtilization"] = proposal.utilization
    if metric.container:
        of_container = {"name": metric.name, "container": metric.container, "current": current}
        return {"type": "ContainerResource", "containerResource": of_container}
    return {"type": "Resource", "resource": {"name": metric.name, "current": current}}
