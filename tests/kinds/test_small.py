"""Nodes, namespaces, configuration, claims, budgets, events, leases, autoscalers."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.events import EVENTS_API, to_core, to_events
from fairlead.kinds.namespaces import validate_finalize
from tests.kinds.kind_world import born, made, status_refusals, strategy_of, updated, warnings


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
    ("cidrs", "refusals"),
    [
        (
            ["10.1.0.0/24", "10.1.0.0/24"],
            [
                'spec.podCIDRs: Invalid value: ["10.1.0.0/24","10.1.0.0/24"]: '
                "may specify no more than one CIDR for each IP family",
            ],
        ),
        (
            ["10.1.0.0/24", "fd00::"],
            [
                'spec.podCIDRs[1]: Invalid value: "fd00::": must be a valid CIDR value, '
                "(e.g. 10.9.8.0/24 or 2001:db8::/64)",
                "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:"
                "invalid CIDR[1]: <nil> (invalid CIDR address: fd00::)",
                'spec.podCIDRs: Invalid value: ["10.1.0.0/24","fd00::"]: '
                "may specify no more than one CIDR for each IP family",
            ],
        ),
        (["10.1.0.0/24", "fd00::/64"], []),
    ],
)
def test_networks_of_a_nodes_pods_are_one_of_a_family(cidrs: list[str], refusals: list[str]) -> None:
    assert born("Node", spec={"podCIDRs": cidrs})[1] == refusals


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
    def sources(claim_: Obj) -> Obj:
        return {key: value for key, value in claim_["spec"].items() if key.startswith("dataSource")}

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


VOLUME: Obj = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
HOST_PATH: Obj = VOLUME | {"hostPath": {"path": "/d"}}


@pytest.mark.parametrize(
    ("sources", "refusals"),
    [
        ({"hostPath": {"path": "/a/../b"}}, ["spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        ({"gcePersistentDisk": {}}, ["spec.persistentDisk.pdName: Required value"]),
        ({"nfs": {"server": "s", "path": "p"}}, ['spec.nfs.path: Invalid value: "p": must be an absolute path']),
        ({"local": {"path": "/d"}}, ["spec.nodeAffinity: Required value: Local volume requires node affinity"]),
        (
            {"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}},
            ["spec.cinder.secretRef.namespace: Required value"],
        ),
        (
            {"csi": {}},
            [
                "spec.csi.driver: Required value",
                "spec.csi.volumeHandle: Required value",
            ],
        ),
        (
            {"csi": {"driver": "d", "volumeHandle": "h", "nodeExpandSecretRef": {"name": "s"}}},
            ["spec.csi.nodeExpandSecretRef.namespace: Required value"],
        ),
        (
            {"hostPath": {"path": "/d"}, "cephfs": {}, "flexVolume": {"driver": "d"}},
            ["spec.cephFS: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "x", "initiatorName": "y", "secretRef": {}}},
            [
                'spec.iscsi.iqn: Invalid value: "x": must be valid format',
                "spec.iscsi.secretRef.name: Required value",
                'spec.iscsi.initiatorname: Invalid value: "y": must be valid format',
            ],
        ),
        (
            {"hostPath": {"path": "//"}, "persistentVolumeReclaimPolicy": "Recycle"},
            ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
        ),
        (
            {"hostPath": {"path": "/d"}, "nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
            ["spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term"],
        ),
        (
            {"hostPath": {"path": "/d"}, "volumeAttributesClassName": ""},
            [
                "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        ),
    ],
)
def test_each_source_of_a_volume_has_its_rules(sources: Obj, refusals: list[str]) -> None:
    assert born("PersistentVolume", spec=VOLUME | sources)[1] == refusals


def test_sources_of_a_volume_are_completed_as_in_pods() -> None:
    volume = made("PersistentVolume", spec=VOLUME | {"rbd": {"monitors": ["m"], "image": "i"}})
    assert volume["spec"]["rbd"] | {"monitors": 0, "image": 0} == {
        "monitors": 0,
        "image": 0,
        "pool": "rbd",
        "user": "admin",
        "keyring": "/etc/ceph/keyring",
    }
    assert volume["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2030-01-01T00:00:00Z"}


def on_nodes_with(key: str) -> Obj:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]}}


def test_volume_stays_where_it_is() -> None:
    old = made("PersistentVolume", spec=HOST_PATH | {"nodeAffinity": on_nodes_with("beta.kubernetes.io/os")})
    today = on_nodes_with("kubernetes.io/os")
    assert updated(old, lambda obj: obj["spec"].update(nodeAffinity=today))[1] == []
    _, refusals = updated(old, lambda obj: obj["spec"].update(nodeAffinity=on_nodes_with("zone")))
    assert refusals == [
        'nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"zone",'
        '"Operator":"Exists","Values":null}],"MatchFields":null}]}}: '
        "field is immutable, except for updating from beta label to GA"
    ]


def test_what_is_wrong_with_a_changed_volume_is_told_twice() -> None:
    old = made("PersistentVolume", spec=HOST_PATH)
    _, refusals = updated(old, lambda obj: obj["spec"].update(volumeMode="Tape"))
    unknown = 'spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"'
    assert refusals == [unknown, unknown, 'volumeMode: Invalid value: "Tape": field is immutable']


def test_of_a_claim_that_has_a_source_only_the_change_is_refused() -> None:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    claim: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    old = made("PersistentVolumeClaim", spec=claim | {"dataSource": source})
    _, refusals = updated(old, lambda obj: obj["spec"].update(dataSource=source | {"apiGroup": "-"}))
    assert {text.partition(": ")[0] for text in refusals} == {"spec"}


def test_volume_may_learn_later_how_it_expands() -> None:
    old = made("PersistentVolume", spec=VOLUME | {"csi": {"driver": "d", "volumeHandle": "h"}})
    secret = {"controllerExpandSecretRef": {"name": "s", "namespace": "ns"}}
    assert updated(old, lambda obj: obj["spec"]["csi"].update(secret))[1] == []
    _, refusals = updated(old, lambda obj: obj["spec"]["csi"].update(volumeHandle="i"))
    immutable = "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
    assert refusals[0].splitlines()[0] == immutable


@pytest.mark.parametrize(
    ("kind", "spec", "change", "shown"),
    [
        (
            "PersistentVolume",
            {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}},
            {"hostPath": {"path": "/e"}},
            ['  "HostPath": {', '-  "Path": "/d",', '+  "Path": "/e",', '   "Type": ""', '  "Glusterfs": null,'],
        ),
        (
            "PersistentVolumeClaim",
            {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            {"accessModes": ["ReadWriteMany"], "volumeName": "v"},
            ['  "AccessModes": [', '-  "ReadWriteOnce"', '+  "ReadWriteMany"', '  "Selector": null,'],
        ),
    ],
)
def test_what_may_not_change_is_shown_as_go_prints_it(kind: str, spec: Obj, change: Obj, shown: list[str]) -> None:
    (refusal,) = (text for text in updated(made(kind, spec=spec), lambda obj: obj["spec"].update(change))[1])
    lines = refusal.splitlines()
    assert set(shown) <= set(lines)
    assert {line for line in lines if line[0] in "+-"} <= set(shown)  # nor anything that may change


def test_what_is_old_about_a_volume_is_remarked_on() -> None:
    annotations = {"volume.beta.kubernetes.io/mount-options": "ro", "volume.beta.kubernetes.io/storage-class": "c"}
    spec = VOLUME | {
        "persistentVolumeReclaimPolicy": "Recycle",
        "nodeAffinity": on_nodes_with("beta.kubernetes.io/os"),
        "cephfs": {"monitors": ["m"]},
    }
    assert warnings(made("PersistentVolume", spec=spec, meta={"annotations": annotations})) == [
        'metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" '
        "attribute instead",
        'metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" '
        "attribute instead",
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
        "approach is to use dynamic provisioning.",
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is "
        'deprecated since v1.14; use "kubernetes.io/os" instead',
        "spec.cephfs: deprecated in v1.28, non-functional in v1.31+",
    ]
    _, refusals = born("PersistentVolume", spec=HOST_PATH, meta={"annotations": annotations})
    assert refusals == [
        "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: "
        "may not specify mount options for this volume type"
    ]


def test_both_names_of_a_claims_source_say_the_same() -> None:
    other_source = SNAPSHOT | {"name": "t"}
    _, refusals = updated(claim(dataSource=SNAPSHOT), lambda obj: obj["spec"].update(dataSourceRef=other_source))
    assert refusals[:2] == ["spec: Invalid value: {}: must match dataSourceRef"] * 2
    assert refusals[2].startswith("spec: Forbidden: spec is immutable after creation")


def test_status_of_a_claim_tells_how_storage_grows() -> None:
    status = {
        "allocatedResources": {"cpu": "1", "storage": "-1"},
        "allocatedResourceStatuses": {"storage": "Nearly", "x.io/y": "NodeResizePending"},
    }
    assert status_refusals(claim(), status) == [
        'status.allocatedResourceStatuses: Unsupported value: "storage": supported values: '
        '"ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", '
        '"NodeResizePending"',
        'status.allocatedResources: Unsupported value: "cpu": supported values: "storage"',
        "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity",
    ]


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


def test_what_an_event_is_about_stays_in_the_newer_group() -> None:
    event = {key: value for key, value in EVENT.items() if key not in ("source", "count")}
    event |= {"reportingComponent": "c", "reportingInstance": "i", "action": "a"}
    old = made("Event", **event, eventTime="2030-01-01T00:00:00.000000Z") | {"apiVersion": EVENTS_API}

    def change(obj: Obj) -> None:
        obj["involvedObject"]["name"] = "q"
        obj["related"] = {"kind": "Node"}
        obj["count"] = 3
        del obj["message"]

    assert updated(old | {"apiVersion": "v1"}, change)[1] == []
    assert updated(old, change)[1] == [
        'involvedObject: Invalid value: {"Kind":"Pod","Namespace":"ns","Name":"q","UID":"","APIVersion":"",'
        '"ResourceVersion":"","FieldPath":""}: field is immutable',
        'message: Invalid value: "": field is immutable',
        "count: Invalid value: 3: field is immutable",
        'related: Invalid value: {"Kind":"Node","Namespace":"","Name":"","UID":"","APIVersion":"",'
        '"ResourceVersion":"","FieldPath":""}: field is immutable',
    ]


def test_labels_of_an_event_are_looked_at_once_more_in_the_newer_group() -> None:
    old = made("Event", **EVENT)

    def label(obj: Obj) -> None:
        obj["metadata"]["labels"] = {"a": "!"}

    _, refusals = updated(old, label)
    assert len(refusals) == 2
    _, refusals = updated(old | {"apiVersion": EVENTS_API}, label)
    assert len(refusals) == 3


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


@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
def test_autoscaler_with_an_empty_list_of_policies_is_not_one_that_says_nothing(direction: str) -> None:
    for policies, refused in (([], True), (None, False)):
        spec = HPA | {"behavior": {direction: {"policies": policies}}}
        expected = f"spec.behavior.{direction}.policies: Required value: must specify at least one Policy"
        obj, refusals = born("HorizontalPodAutoscaler", spec=spec)
        assert refusals == ([expected] if refused else [])
        assert refused or obj["spec"]["behavior"][direction]["policies"][0]["value"] > 0


def test_autoscaler_tolerates_nothing_at_least() -> None:
    spec = HPA | {"behavior": {"scaleUp": {"tolerance": "-100m"}, "scaleDown": {"tolerance": "50m"}}}
    obj, refusals = born("HorizontalPodAutoscaler", spec=spec)
    assert refusals == ['spec.behavior.scaleUp.tolerance: Invalid value: "-100m": must be greater than or equal to 0']
    assert obj["spec"]["behavior"]["scaleDown"]["tolerance"] == "50m"


def test_service_accounts_and_endpoints_are_remarked_on() -> None:
    endpoints = made("Endpoints", subsets=[{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}])
    assert endpoints["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert strategy_of("Endpoints").warnings(endpoints, None) == [
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    ]


def test_addresses_written_oddly_are_remarked_on_unless_a_controller_did_it() -> None:
    odd = 'IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")'
    subsets = [{"notReadyAddresses": [{"ip": "2001:DB8::1"}]}]
    endpoints = made("Endpoints", subsets=subsets)
    assert warnings(endpoints)[1:] == [f"subsets[0].notReadyAddresses[0].ip: {odd}"]
    labels = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    assert len(warnings(made("Endpoints", subsets=subsets, meta={"labels": labels}))) == 1
    slice_ = made("EndpointSlice", addressType="IPv6", endpoints=[{"addresses": ["2001:DB8::1"]}])
    assert warnings(slice_) == [f"endpoints[0].addresses[0]: {odd}"]
    names = made("EndpointSlice", addressType="FQDN", endpoints=[{"addresses": ["a.example"]}])
    assert warnings(names) == ["spec.addressType: FQDN endpoints are deprecated"]


def test_topology_of_old_cannot_be_written() -> None:
    endpoint = {"addresses": ["10.1.1.1"]}
    slice_ = made("EndpointSlice", addressType="IPv4", endpoints=[endpoint | {"deprecatedTopology": {"a": "b"}}])
    assert slice_["endpoints"] == [endpoint | {"conditions": {}}]


def test_binding_names_a_role_for_life() -> None:
    old = made("RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "u"}])
    assert old["roleRef"]["apiGroup"] == old["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    _, refusals = updated(old, lambda obj: obj["roleRef"].update(name="s"))
    assert refusals[-1].endswith("cannot change roleRef")


def test_topology_of_a_storage_class_asks_for_something() -> None:
    _, refusals = born("StorageClass", provisioner="a.b/c", allowedTopologies=[{}])
    assert refusals == ['allowedTopologies[0].matchLabelExpressions: Duplicate value: ""']


def test_role_of_a_binding_is_of_a_kind_that_exists() -> None:
    refusals = born("RoleBinding", roleRef={"kind": "Group", "name": "g"})[1]
    assert refusals == ['roleRef.kind: Unsupported value: "Group": supported values: "Role", "ClusterRole"']


def test_runtime_class_places_pods_only_where_pods_could_ask_to_be() -> None:
    toleration = {"key": "a", "operator": "Exists"}
    scheduling = {
        "nodeSelector": {"a": "b c"},
        "tolerations": [toleration, toleration | {"effect": "NoExecute"}, toleration | {"tolerationSeconds": 5}],
    }
    _, refusals = born("RuntimeClass", handler="h", scheduling=scheduling, overhead={"podFixed": {"gpu": "1"}})
    assert [refusal.partition(": ")[0] for refusal in refusals] == [
        "overhead.limits[gpu]",
        "overhead.limits[gpu]",
        "scheduling.nodeSelector",
        "scheduling.tolerations[2].effect",
        "scheduling.tolerations[2]",
    ]
    assert refusals[-1].endswith(
        ': Duplicate value: {"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":5}'
    )
    assert born("RuntimeClass", handler="h", scheduling={"tolerations": [toleration]})[1] == []


def test_conditions_say_when_and_why() -> None:
    old = made("PodDisruptionBudget", spec={})
    status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": None, "reason": "", "message": ""}]
    assert status_refusals(old, status | {"conditions": conditions}) == [
        "status.conditions[0].lastTransitionTime: Required value: must be set",
        "status.conditions[0].reason: Required value: must be set",
    ]


def test_a_flow_is_told_apart_by_user_or_namespace() -> None:
    rule = {
        "subjects": [{"kind": "User", "user": {"name": "u"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"priorityLevelConfiguration": {"name": "p"}, "rules": [rule]}
    assert born("FlowSchema", spec=spec | {"distinguisherMethod": {"type": "Pod"}})[1] == [
        'spec.distinguisherMethod.type: Unsupported value: {"Type":"Pod"}: supported values: "ByNamespace", "ByUser"'
    ]
