"""Metrics of the custom and external metrics APIs, which nobody serves: what the controller says then."""

from __future__ import annotations

from typing import Final

from fairlead.api.autoscaling import CustomMetric
from fairlead.api.labels import LabelSelector

_NO_CUSTOM_API: Final = (
    "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
)


def pods_error(metric: CustomMetric) -> str:
    return f"unable to get metric {metric.metric.name}: {_NO_CUSTOM_API}"


def object_error(metric: CustomMetric, namespace: str) -> str:
    """The places of kind, namespace, name and cause are upstream's."""
    described = metric.described_object
    return (
        f"unable to get metric {metric.metric.name}: {described.kind} on {namespace} {described.name}/{_NO_CUSTOM_API}"
    )


def object_context(metric: CustomMetric) -> str:
    """What leads the error in the summary of all metrics; conditions and events of the metric go without it."""
    context = "failed to get object metric value"
    return context if metric.target.type == "Value" else f"{context}: failed to get {metric.metric.name} object metric"


def external_error(metric: CustomMetric, namespace: str) -> str:
    name = metric.metric.name
    return (
        f"unable to get external metric {namespace}/{name}/{_shown(metric.metric.selector)}: unable to fetch metrics "
        "from external metrics API: the server could not find the requested resource "
        f"(get {name}.external.metrics.k8s.io)"
    )


def external_context(metric: CustomMetric) -> str:
    name = metric.metric.name
    is_average = metric.target.average_value is not None
    failed = f"failed to get {name} external metric" if is_average else f"failed to get external metric {name}"
    return f"failed to get {name} external metric value: {failed}"


def _shown(selector: LabelSelector | None) -> str:
    """As Go's generated `String` of a LabelSelector."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{term.key},Operator:{term.operator},Values:[{' '.join(term.values or ())}],}},"
        for term in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )
