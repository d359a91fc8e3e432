"""Kinds that make pods from a template: what is filled in, what may change, and their scale."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.scale import scale_of, scaled, validate_scale
from tests.kinds.kind_world import TEMPLATE, born, made, row_of, status_refusals, updated, warnings

SELECTOR: Obj = {"matchLabels": {"app": "a"}}
SPECS: dict[str, Obj] = {
    "ReplicationController": {"template": TEMPLATE},
    "ReplicaSet": {"selector": SELECTOR, "template": TEMPLATE},
    "Deployment": {"selector": SELECTOR, "template": TEMPLATE},
    "StatefulSet": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "s"},
    "DaemonSet": {"selector": SELECTOR, "template": TEMPLATE},
}


def spec_of(kind: str, **changes: Any) -> Obj:
    return SPECS[kind] | changes


@pytest.mark.parametrize("kind", SPECS)
def test_template_must_carry_the_selected_labels(kind: str) -> None:
    selector: Obj = {"app": "b"} if kind == "ReplicationController" else {"matchLabels": {"app": "b"}}
    _, refusals = born(kind, spec=spec_of(kind, selector=selector))
    text = 'Invalid value: {"app":"a"}: `selector` does not match template `labels`'
    assert refusals == [f"spec.template.metadata.labels: {text}"]


@pytest.mark.parametrize("kind", SPECS)
def test_pods_of_these_kinds_always_restart(kind: str) -> None:
    template = TEMPLATE | {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never", "activeDeadlineSeconds": 5}}
    _, refusals = born(kind, spec=spec_of(kind, template=template))
    owner = "ReplicaSet" if kind == "Deployment" else kind
    assert refusals == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {owner} is not Supported",
    ]


def test_replication_controller_takes_selector_and_labels_from_its_template() -> None:
    controller = made("ReplicationController", spec={"template": TEMPLATE})
    assert controller["spec"]["selector"] == controller["metadata"]["labels"] == {"app": "a"}


def test_deployment_rolls_by_quarters_unless_told_otherwise() -> None:
    spec = made("Deployment", spec=SPECS["Deployment"])["spec"]
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)


@pytest.mark.parametrize(
    ("kind", "field", "strategy", "refusal"),
    [
        (
            "Deployment",
            "strategy",
            {"type": "Nope"},
            'spec.strategy: Unsupported value: {"Type":"Nope","RollingUpdate":null}: '
            'supported values: "Recreate", "RollingUpdate"',
        ),
        (
            "Deployment",
            "strategy",
            {"rollingUpdate": {"maxUnavailable": "150%"}},
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "150%": must not be greater than 100%',
        ),
        (
            "DaemonSet",
            "updateStrategy",
            {"type": "Nope"},
            'spec.updateStrategy: Unsupported value: {"Type":"Nope","RollingUpdate":null}: '
            'supported values: "RollingUpdate", "OnDelete"',
        ),
        (
            "DaemonSet",
            "updateStrategy",
            {"rollingUpdate": {"maxSurge": 1}},
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: "
            "may not be set when maxUnavailable is non-zero",
        ),
        (
            "StatefulSet",
            "updateStrategy",
            {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: '
            "only allowed for updateStrategy 'RollingUpdate'",
        ),
    ],
)
def test_update_strategies_that_make_no_sense_are_refused(kind: str, field: str, strategy: Obj, refusal: str) -> None:
    assert born(kind, spec=spec_of(kind, **{field: strategy}))[1] == [refusal]


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "DaemonSet"])
def test_selector_stays(kind: str) -> None:
    def change(obj: Obj) -> None:
        obj["spec"]["selector"]["matchLabels"] = {"app": "b"}
        obj["spec"]["template"]["metadata"]["labels"] = {"app": "b"}

    _, refusals = updated(made(kind, spec=SPECS[kind]), change)
    assert refusals == ['spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable']


def test_stateful_set_may_only_change_what_it_can_roll_out() -> None:
    old = made("StatefulSet", spec=SPECS["StatefulSet"])
    assert updated(old, lambda obj: obj["spec"].update(replicas=3, minReadySeconds=1))[1] == []
    _, refusals = updated(old, lambda obj: obj["spec"].update(podManagementPolicy="Parallel"))
    assert refusals[0].startswith("spec: Forbidden: updates to statefulset spec for fields other than 'replicas',")


def test_mounts_of_claims_find_their_volumes() -> None:
    container = TEMPLATE["spec"]["containers"][0] | {"volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}
    template = TEMPLATE | {"spec": {"containers": [container]}}
    spec = spec_of("StatefulSet", template=template, volumeClaimTemplates=[claim])
    stored = made("StatefulSet", spec=spec)["spec"]
    assert stored["volumeClaimTemplates"][0]["kind"] == "PersistentVolumeClaim"
    assert "volumes" not in stored["template"]["spec"]


def test_daemon_set_counts_the_generations_of_its_template() -> None:
    key = "deprecated.daemonset.template.generation"
    old = made("DaemonSet", spec=SPECS["DaemonSet"])
    same, _ = updated(old, lambda obj: obj["spec"].update(minReadySeconds=1))
    changed, _ = updated(old, lambda obj: obj["spec"]["template"]["spec"].update(nodeName="n"))
    assert [obj["metadata"]["annotations"][key] for obj in (old, same, changed)] == ["1", "1", "2"]


def test_daemon_set_is_warned_of_its_template_alone() -> None:
    template = TEMPLATE | {"spec": TEMPLATE["spec"] | {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}
    old = made("DaemonSet", meta={"name": "a.b"}, spec=spec_of("DaemonSet", template=template))
    text = 'deprecated since v1.14; use "kubernetes.io/os" instead'
    assert warnings(old) == [f"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: {text}"]
    new, _ = updated(old, lambda obj: obj["spec"].update(minReadySeconds=1))
    assert warnings(new, old) == []
    new, _ = updated(old, lambda obj: obj["spec"]["template"]["spec"].update(hostNetwork=True))
    assert len(warnings(new, old)) == 1


def test_stateful_set_is_warned_of_fractions_of_bytes_in_its_claims() -> None:
    resources = {"requests": {"storage": "1500m"}, "limits": {"storage": "2500m"}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}
    spec = spec_of("StatefulSet", volumeClaimTemplates=[claim], revisionHistoryLimit=-1)
    obj = made("StatefulSet", spec=spec)
    path, text = "spec.volumeClaimTemplates[0]", "is invalid, must be an integer"
    request, limit, history = warnings(obj)
    assert request == f'{path}.resources.requests[storage]: fractional byte value "1500m" {text}'
    assert limit == f'{path}.resources.limits[storage]: fractional byte value "2500m" {text}'
    assert history.startswith("spec.revisionHistoryLimit: ")
    assert warnings(obj, obj)[0] == f'{path}.Spec.resources.requests[storage]: fractional byte value "1500m" {text}'


def test_annotations_count_as_a_change_of_a_deployment() -> None:
    old = made("Deployment", spec=SPECS["Deployment"])
    new, _ = updated(old, lambda obj: obj["metadata"].update(annotations={"a": "b"}))
    assert new["metadata"]["generation"] == 2


def test_no_more_pods_are_ready_than_there_are() -> None:
    refusals = status_refusals(made("ReplicaSet", spec=SPECS["ReplicaSet"]), {"replicas": 1, "readyReplicas": 2})
    assert refusals == ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]


def test_scale_shows_replicas_and_selector_whatever_the_kind() -> None:
    for kind in ("ReplicationController", "ReplicaSet", "Deployment", "StatefulSet"):
        obj = made(kind, spec=spec_of(kind, replicas=3))
        scale = scale_of(obj)
        assert scale["spec"] == {"replicas": 3}
        assert scale["status"] == {"replicas": 0, "selector": "app=a"}
        assert scaled(obj, {"spec": {"replicas": 5}})["spec"]["replicas"] == 5
        assert scaled(obj, scale) == obj


def test_scale_is_never_negative() -> None:
    errors = Errors()
    validate_scale({"spec": {"replicas": -1}}, errors)
    assert [cause.message for cause in errors] == ["Invalid value: -1: must be greater than or equal to 0"]


def test_controller_revision_never_changes() -> None:
    old = made("ControllerRevision", data={"a": 1}, revision=1)
    assert row_of("ControllerRevision").namespaced
    _, refusals = updated(old, lambda obj: obj.update(data={"a": 2}))
    assert refusals == ['data: Invalid value: {"a":2}: field is immutable']


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment"])
def test_pods_that_are_going_are_counted_from_zero(kind: str) -> None:
    refusals = status_refusals(made(kind, spec=SPECS[kind]), {"replicas": 1, "terminatingReplicas": -1})
    assert refusals == ["status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0"]
