"""Nodes, namespaces, configuration, claims, budgets, events, leases, autoscalers."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.server.kinds.autoscaling import to_v1, to_v2
from fairlead.server.kinds.events import EVENTS_API, to_core, to_events
from fairlead.server.kinds.namespaces import validate_finalize
from tests.server.kind_world import born, made, status_refusals, strategy_of, updated


def test_node_keeps_the_status_it_registers_with() -> None:
    node = made("Node", status={"capacity": {"cpu": "2000m"}})
    assert node["status"]["capacity"] == node["status"]["allocatable"] == {"cpu": "2"}


def test_node_cannot_be_moved_to_other_pods_networks() -> None:
    """S0-02."""
    old = made("Node", spec={"podCIDR": "10.1.0.0/24", "providerID": "x://1"})
    assert old["spec"]["podCIDRs"] == ["10.1.0.0/24"]
    _, refusals = updated(old, lambda obj: obj.update(spec={}))
    assert refusals == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
    ]


def test_taints_are_unique_by_key_and_effect() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    _, refusals = born("Node", spec={"taints": [taint, taint | {"value": "b"}, taint | {"effect": "NoExecute"}]})
    assert refusals == [
        'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"b","Effect":"NoSchedule","TimeAdded":null}: '
        "taints must be unique by key and effect pair"
    ]


@pytest.mark.parametrize(
    ("annotation", "text", "refusals"),
    [
        (
            "preferAvoidPods",
            "x",
            [
                'metadata.annotations.AvoidPods: Invalid value: "scheduler.alpha.kubernetes.io/preferAvoidPods": '
                "invalid character 'x' looking for beginning of value"
            ],
        ),
        (
            "preferAvoidPods",
            '{"preferAvoidPods": [{"podSignature": {"podController": {"controller": true}}}, {}]}',
            ["metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[1].PodSignature: Required value"],
        ),
        (
            "taints",
            "x",
            [
                'metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": '
                "invalid character 'x' looking for beginning of value"
            ],
        ),
        ("taints", '[{"key": "a", "effect": "NoSchedule"}]', []),
    ],
)
def test_annotations_of_old_are_still_checked(annotation: str, text: str, refusals: list[str]) -> None:
    annotations = {f"scheduler.alpha.kubernetes.io/{annotation}": text}
    assert born("Node", meta={"annotations": annotations})[1] == refusals


def test_node_is_not_configured_through_the_api_any_more() -> None:
    source = {"configMap": {"name": "c", "namespace": "ns", "kubeletConfigKey": "k"}}
    strategy = strategy_of("Node")
    node = made("Node", spec={"configSource": source, "providerID": "x://1"}, status={"config": {"error": "e"}})
    assert (node["spec"], node["status"].get("config")) == ({"providerID": "x://1"}, None)
    assert strategy.warnings(node, None) == []
    new, _ = updated(node, lambda obj: obj["spec"].update(configSource=source))
    assert new["spec"] == node["spec"]
    reported = node | {"status": {"config": {"error": "e"}, "phase": "Running"}}
    strategy.prepare_status(reported, node)
    assert reported["status"] == {"phase": "Running"}
    node["spec"]["configSource"] = source
    new, _ = updated(node, lambda obj: obj["spec"].update(unschedulable=True))
    assert new["spec"]["configSource"] == source
    assert strategy.warnings(new, node) == ["spec.configSource: the feature is no longer supported"]


def test_nodes_are_selected_by_whether_they_take_pods() -> None:
    read = strategy_of("Node").selectable["spec.unschedulable"]
    assert [read(made("Node", spec=spec)) for spec in ({}, {"unschedulable": True})] == ["false", "true"]


def test_namespace_is_labelled_with_its_name_and_held_by_its_finalizer() -> None:
    namespace = made("Namespace", meta={"labels": {"kubernetes.io/metadata.name": "other"}})
    strategy = strategy_of("Namespace")
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    assert strategy.holds_deletion(namespace)
    strategy.mark_deleted(namespace)
    assert namespace["status"]["phase"] == "Terminating"


def test_finalizers_of_a_namespace_only_change_through_finalize() -> None:
    old = made("Namespace", spec={"finalizers": ["a.b/c"]})
    new, _ = updated(old, lambda obj: obj["spec"].clear())
    assert new["spec"]["finalizers"] == ["a.b/c", "kubernetes"]
    errors = Errors()
    validate_finalize({"spec": {"finalizers": ["mine"]}}, errors)
    assert errors[0].field == "spec.finalizers[0]"


@pytest.mark.parametrize(("kind", "field"), [("ConfigMap", "data"), ("Secret", "data"), ("ConfigMap", "binaryData")])
def test_immutable_data_stays(kind: str, field: str) -> None:
    old = made(kind, immutable=True, **{field: {"a": "YQ=="}})
    _, refusals = updated(old, lambda obj: obj.update({field: {"a": "Yg=="}, "immutable": False}))
    assert refusals == [
        f"{path}: Forbidden: field is immutable when `immutable` is set" for path in ("immutable", field)
    ]


def test_secrets_accept_plain_text_and_store_it_encoded() -> None:
    secret = made("Secret", stringData={"a": "plain"}, data={"a": "eA==", "b": "eQ=="})
    assert secret["data"] == {"a": "cGxhaW4=", "b": "eQ=="}
    assert "stringData" not in secret


@pytest.mark.parametrize(
    ("type_", "data", "refusals"),
    [
        ("kubernetes.io/basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "e30="}, []),
        ("kubernetes.io/ssh-auth", {}, ["data[ssh-privatekey]: Required value"]),
        (
            "kubernetes.io/service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
    ],
)
def test_types_of_secrets_need_their_keys(type_: str, data: Obj, refusals: list[str]) -> None:
    assert born("Secret", type=type_, data=data)[1] == refusals


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("x", "invalid character 'x' looking for beginning of value"),
        ("{'auths': {}}", r"invalid character '\'' looking for beginning of object key string"),
        ("", "unexpected end of JSON input"),
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_what_is_wrong_with_registry_credentials_is_told_without_showing_them(content: str, why: str) -> None:
    _, refusals = born("Secret", type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": content})
    assert refusals == [f'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": {why}']


def claim(**spec: Any) -> Obj:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return made("PersistentVolumeClaim", spec=wanted | spec)


def test_claim_only_grows_once_it_is_bound() -> None:
    old = claim()
    old["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    assert updated(old, lambda obj: obj["spec"]["resources"]["requests"].update(storage="2Gi"))[1] == []
    _, refusals = updated(old, lambda obj: obj["spec"]["resources"]["requests"].update(storage="512Mi"))
    assert refusals == ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
    _, refusals = updated(old, lambda obj: obj["spec"].update(accessModes=["ReadOnlyMany"]))
    assert refusals[0].startswith("spec: Forbidden: spec is immutable after creation except resources.requests")


SNAPSHOT: Obj = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
FOREIGN: Obj = {"apiGroup": "x.io", "kind": "X", "name": "y"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"dataSource": {"kind": "X", "name": "y"}}, {}),
        ({"dataSource": {"apiGroup": "x.io", "kind": "VolumeSnapshot", "name": "y"}}, {}),
        ({"dataSource": SNAPSHOT}, {"dataSource": SNAPSHOT, "dataSourceRef": SNAPSHOT}),
        ({"dataSourceRef": FOREIGN}, {"dataSource": FOREIGN, "dataSourceRef": FOREIGN}),
        ({"dataSourceRef": SNAPSHOT | {"namespace": "other"}}, {}),
    ],
)
def test_claim_ignores_what_cannot_be_its_source(given: Obj, kept: Obj) -> None:
    def sources(one: Obj) -> Obj:
        return {key: value for key, value in one["spec"].items() if key.startswith("dataSource")}

    assert sources(claim(**given)) == kept
    new, refusals = updated(claim(), lambda obj: obj["spec"].update(given))
    assert sources(new) == kept
    assert bool(refusals) == bool(kept)  # what is not ignored comes too late


def test_claim_keeps_the_source_that_it_has() -> None:
    odd = {"apiGroup": None, "kind": "X", "name": "y"}
    old = claim()
    old["spec"] |= {"dataSource": odd}
    new, _ = updated(old, lambda obj: obj["metadata"].update(labels={"a": "b"}))
    assert new["spec"]["dataSource"] == new["spec"]["dataSourceRef"] == odd


def test_half_a_byte_of_storage_is_remarked_on() -> None:
    made_claim = claim(resources={"requests": {"storage": "1500m"}, "limits": {"storage": "0.5"}})
    assert strategy_of("PersistentVolumeClaim").warnings(made_claim, None) == [
        f'spec.resources.{field}[storage]: fractional byte value "{amount}" is invalid, must be an integer'
        for field, amount in (("requests", "1500m"), ("limits", "500m"))
    ]


def test_volume_needs_exactly_one_source() -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    assert born("PersistentVolume", spec=spec)[1] == ["spec: Required value: must specify a volume type"]
    both = spec | {"hostPath": {"path": "/d"}, "nfs": {"server": "s", "path": "/p"}}
    assert born("PersistentVolume", spec=both)[1] == ["spec.nfs: Forbidden: may not specify more than 1 volume type"]


def test_budget_says_what_must_stay_or_what_may_go_but_not_both() -> None:
    """S3-106."""
    _, refusals = born("PodDisruptionBudget", spec={"minAvailable": 1, "maxUnavailable": "50%"})
    assert refusals == [
        'spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"50%",'
        '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'
    ]
    assert status_refusals(made("PodDisruptionBudget", spec={"minAvailable": 1}), {"currentHealthy": -1}) == [
        "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"
    ]


EVENT: Obj = {
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"},
    "reason": "Started",
    "message": "m",
    "type": "Normal",
    "source": {"component": "kubelet"},
    "count": 2,
}


def test_event_reads_the_same_through_both_groups() -> None:
    """X-08."""
    stored = made("Event", **EVENT)
    shown = to_events(stored)
    assert (shown["regarding"]["name"], shown["note"], shown["deprecatedCount"]) == ("p", "m", 2)
    assert "reportingController" not in shown
    assert to_core(shown) | {"apiVersion": "v1"} == stored


def test_newer_group_asks_more_of_an_event() -> None:
    event = made("Event", **EVENT) | {"apiVersion": EVENTS_API}
    errors = Errors()
    strategy_of("Event").validate(event, errors)
    assert [(cause.field, cause.message) for cause in errors] == [
        ("eventTime", "Required value"),
        ("count", 'Invalid value: "": needs to be unset'),
        ("source", 'Invalid value: "": needs to be unset'),
    ]


def test_events_are_selected_by_what_they_are_about() -> None:
    """X-07."""
    event, selectable = made("Event", **EVENT), strategy_of("Event").selectable
    read = {field: selectable[field](event) for field in ("involvedObject.name", "reason", "source", "type")}
    assert list(read.values()) == ["p", "Started", "kubelet", "Normal"]


def test_lease_lasts() -> None:
    _, refusals = born("Lease", spec={"leaseDurationSeconds": 0})
    assert refusals == ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]


def test_a_lease_asks_for_no_election() -> None:
    election = {"strategy": "OldestEmulationVersion", "preferredHolder": "me"}
    lease = made("Lease", spec={"holderIdentity": "a"} | election)
    assert lease["spec"] == {"holderIdentity": "a"}
    new, refusals = updated(lease, lambda obj: obj["spec"].update(election))
    assert (new["spec"], refusals) == (lease["spec"], [])
    lease["spec"] |= election  # as a server stored it that elects leaders
    new, refusals = updated(lease, lambda obj: obj["spec"].update(preferredHolder="you"))
    assert (new["spec"]["preferredHolder"], refusals) == ("you", [])


HPA: Obj = {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}


def test_autoscaler_watches_the_cpu_unless_told_otherwise() -> None:
    spec = made("HorizontalPodAutoscaler", spec=HPA)["spec"]
    assert spec["minReplicas"] == 1
    assert spec["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}


def test_autoscaler_needs_a_bound() -> None:
    _, refusals = born("HorizontalPodAutoscaler", spec=HPA | {"maxReplicas": 0})
    assert refusals[0] == "spec.maxReplicas: Required value"


def test_autoscaler_survives_the_way_through_its_old_version() -> None:
    stored = made("HorizontalPodAutoscaler", spec=HPA | {"behavior": {"scaleUp": {"selectPolicy": "Min"}}})
    old = to_v1(stored)
    assert old["spec"]["targetCPUUtilizationPercentage"] == 80
    assert to_v2(old)["spec"] == stored["spec"]


def test_service_accounts_and_endpoints_are_remarked_on() -> None:
    endpoints = made("Endpoints", subsets=[{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}])
    assert endpoints["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert strategy_of("Endpoints").warnings(endpoints, None) == [
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    ]


def test_binding_names_a_role_for_life() -> None:
    old = made("RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "u"}])
    assert old["roleRef"]["apiGroup"] == old["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    _, refusals = updated(old, lambda obj: obj["roleRef"].update(name="s"))
    assert refusals[-1].endswith("cannot change roleRef")
