"""Autoscalers as `autoscaling/v1` shows and takes them: one target for CPU, and the rest in annotations."""

from __future__ import annotations

import json

import pytest

from fairlead.api.objects import Obj
from fairlead.kinds.autoscaling_v1 import to_v1, to_v2
from fairlead.server.codec.normalise import normalise
from tests.kinds.kind_world import born, made

PREFIX = "autoscaling.alpha.kubernetes.io/"
SPEC: Obj = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}


def cpu(percent: int) -> Obj:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def v1(spec: Obj | None = None, **annotations: object) -> Obj:
    texts = {
        PREFIX + name.replace("_", "-"): text if isinstance(text, str) else json.dumps(text)
        for name, text in annotations.items()
    }
    obj: Obj = {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "spec": SPEC | (spec or {})}
    obj["metadata"] = {"name": "x", "namespace": "ns", "annotations": {"mine": "m"} | texts}
    normalise(obj, "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler")
    return obj


#: As `v2` has it, and as `v1` writes it in an annotation.
METRICS: list[tuple[Obj, Obj]] = [
    (
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
    ),
    (
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "container": "c",
                "target": {"type": "Utilization", "averageUtilization": 70},
            },
        },
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "targetAverageUtilization": 70, "container": "c"},
        },
    ),
    (
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "qps", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"type": "AverageValue", "averageValue": "100m"},
            },
        },
        {
            "type": "Pods",
            "pods": {"metricName": "qps", "targetAverageValue": "100m", "selector": {"matchLabels": {"a": "b"}}},
        },
    ),
    (
        {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                "metric": {"name": "hits"},
                "target": {"type": "Value", "value": "5"},
            },
        },
        {
            "type": "Object",
            "object": {
                "target": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                "metricName": "hits",
                "targetValue": "5",
            },
        },
    ),
    (
        {
            "type": "External",
            "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "3"}},
        },
        {"type": "External", "external": {"metricName": "queue", "targetAverageValue": "3"}},
    ),
]


@pytest.mark.parametrize(("new", "old"), METRICS)
def test_a_metric_has_a_form_of_its_own_in_v1(new: Obj, old: Obj) -> None:
    shown = to_v1(made("HorizontalPodAutoscaler", spec=SPEC | {"metrics": [new, cpu(50)]}))
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 50
    assert json.loads(shown["metadata"]["annotations"][PREFIX + "metrics"]) == [old]
    stored = to_v2(shown)
    assert stored["spec"]["metrics"] == [new, cpu(50)]
    assert "annotations" not in stored["metadata"]


def test_behavior_goes_through_v1_under_the_names_of_go() -> None:
    behavior = {"scaleUp": {"selectPolicy": "Min", "tolerance": "50m"}}
    stored = made("HorizontalPodAutoscaler", spec=SPEC | {"behavior": behavior})
    shown = to_v1(stored)
    text = shown["metadata"]["annotations"][PREFIX + "behavior"]
    assert text.startswith(
        '{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Min","Policies":'
        '[{"Type":"Pods","Value":4,"PeriodSeconds":15},'
    )
    assert '"Tolerance":"50m"},"ScaleDown":{"StabilizationWindowSeconds":null,' in text
    assert to_v2(shown)["spec"] == stored["spec"]
    lower = {"scaledown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}
    assert to_v2(v1(behavior=lower))["spec"]["behavior"] == {"scaleDown": lower["scaledown"]}


def test_what_was_measured_and_conditions_go_through_v1() -> None:
    stored = made("HorizontalPodAutoscaler", spec=SPEC)
    measured = {
        "type": "Resource",
        "resource": {"name": "cpu", "current": {"averageUtilization": 12, "averageValue": "24m"}},
    }
    condition = {
        "type": "AbleToScale",
        "status": "True",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
        "message": "a<b",
    }
    stored["status"] = {
        "currentReplicas": 1,
        "desiredReplicas": 2,
        "currentMetrics": [measured],
        "conditions": [condition],
    }
    shown = to_v1(stored)
    annotations = shown["metadata"]["annotations"]
    assert shown["status"] == {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 12}
    assert json.loads(annotations[PREFIX + "current-metrics"]) == [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "currentAverageUtilization": 12, "currentAverageValue": "24m"},
        }
    ]
    assert r"a\u003cb" in annotations[PREFIX + "conditions"]
    assert to_v2(shown)["status"] == stored["status"]


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "7",
        [1],
        {"type": "Resource"},
        [{"type": 1}],
        [{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "lots"}}],
        [{"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 2**31}}],
        [{"type": "Pods", "pods": {"selector": {"matchLabels": {"a": 1}}}}],
        "[" * 1000,
    ],
)
def test_an_annotation_that_cannot_be_read_is_left_out(text: object) -> None:
    stored = to_v2(v1({"targetCPUUtilizationPercentage": 40}, metrics=text, behavior=text, conditions=text))
    assert stored["spec"]["metrics"] == [cpu(40)]
    assert "behavior" not in stored["spec"]
    assert stored["metadata"]["annotations"] == {"mine": "m"}


def test_annotations_of_v1_mean_nothing_in_v2() -> None:
    meta = {"annotations": {PREFIX + "metrics": "[]", PREFIX + "behavior": "x", "mine": "m"}}
    obj, refusals = born("HorizontalPodAutoscaler", meta=meta, spec=SPEC)
    assert (obj["metadata"]["annotations"], refusals) == ({"mine": "m"}, [])
