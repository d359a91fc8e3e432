"""What `kubectl get` prints (the rules of pkg/printers/internalversion/printers.go, 1.36)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.builtin import RESOURCES
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.runtime.clock import parse_timestamp, timestamp
from fairlead.server.storage.watching import bookmark
from fairlead.server.tables import printer_of
from fairlead.server.tables.text import human_duration

NOW = parse_timestamp("2026-01-01T12:00:00Z")
FIVE_MINUTES_AGO = timestamp(NOW - 300)
ROWS = {f"{row.api_version}/{row.plural}": row for row in RESOURCES}

SECOND, MINUTE, HOUR, DAY = 1, 60, 3600, 86400
YEAR = 365 * DAY


def printed(kind: str, obj: Obj) -> dict[str, Any]:
    """The cells of an object by the names of their columns."""
    printer = printer_of(ROWS[kind], None)
    created = {"name": "x", "creationTimestamp": FIVE_MINUTES_AGO}
    subject = {**obj, "metadata": created | obj.get("metadata", {})}
    (row,) = printer.rows(subject, NOW)
    return dict(zip((column["name"] for column in printer.columns), row["cells"], strict=True))


# --- ages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 1, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (48 * HOUR, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY + 5 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (8 * YEAR + 3 * DAY, "8y"),
    ],
)
def test_durations_have_two_or_three_significant_figures(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "y": YEAR}


@given(st.integers(0, 50 * YEAR))
def test_a_duration_is_never_shown_longer_than_it_is_and_at_most_an_eighth_shorter(seconds: int) -> None:
    shown, number = 0, ""
    for character in human_duration(seconds):
        if character in UNITS:
            shown, number = shown + int(number) * UNITS[character], ""
        else:
            number += character
    assert seconds * 7 / 8 - 1 <= shown <= seconds


# --- every kind -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", [row for row in RESOURCES if "get" in row.verbs], ids=lambda row: row.qualified)
def test_every_kind_prints_an_object_without_spec_and_status(resource: Resource) -> None:
    printer = printer_of(resource, None)
    (row,) = printer.rows({"metadata": {"name": "x"}}, NOW)
    unheaded = resource.kind == "IPAddress"  # upstream prints one cell more than it has columns
    assert len(row["cells"]) == len(printer.columns) + unheaded
    assert "x" in row["cells"]
    for column in printer.columns:
        assert list(column) == ["name", "type", "format", "description", "priority"]
        assert column["description"] and column["format"] == ("name" if column["name"] == "Name" else column["format"])


def test_a_kind_without_a_printer_shows_when_it_was_created() -> None:
    assert printed("v1/limitranges", {}) == {"Name": "x", "Created At": FIVE_MINUTES_AGO}


def test_custom_kinds_are_printed_by_the_columns_of_their_version() -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    versions = [{"name": "v1"}, {"name": "v2", "additionalPrinterColumns": columns}]
    crd: Obj = {"spec": {"versions": versions}}
    obj: Obj = {"metadata": {"name": "w", "creationTimestamp": FIVE_MINUTES_AGO}, "spec": {"size": 3}}
    new = printer_of(Resource("example.com", "v2", "widgets", "Widget"), crd)
    assert [(column["name"], column["priority"]) for column in new.columns] == [("Name", 0), ("Size", 1), ("Since", 0)]
    assert new.rows(obj, NOW) == [{"cells": ["w", 3, "5m"]}]
    old = printer_of(Resource("example.com", "v1", "widgets", "Widget"), crd)
    assert old.rows(obj, NOW) == [{"cells": ["w", "5m"]}]


# --- pods -----------------------------------------------------------------------------------------------------------


def status_of(name: str, restarts: int = 0, finished: str | None = None, **fields: Any) -> Obj:
    last = {"terminated": {"exitCode": 1, "finishedAt": finished}} if finished else {}
    return {"name": name, "ready": False, "restartCount": restarts, "lastState": last, **fields}


def ended(code: int, **fields: Any) -> Obj:
    return {"terminated": {"exitCode": code, **fields}}


RUNNING: Obj = {"running": {}}
INITIALIZED: Obj = {"type": "Initialized", "status": "True"}
READY: Obj = {"type": "Ready", "status": "True"}
STARTING: Obj = {"waiting": {"reason": "PodInitializing"}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "SchedulingGated",
        ),
        (
            {"containerStatuses": [status_of("c", state={"waiting": {"reason": "ImagePullBackOff"}})]},
            "ImagePullBackOff",
        ),
        ({"containerStatuses": [status_of("c", state=ended(137, reason="OOMKilled"))]}, "OOMKilled"),
        ({"containerStatuses": [status_of("c", state=ended(3))]}, "ExitCode:3"),
        ({"containerStatuses": [status_of("c", state=ended(137, signal=9))]}, "Signal:9"),
        ({"initContainerStatuses": [status_of("i", state=ended(2, reason="Error"))]}, "Init:Error"),
        ({"initContainerStatuses": [status_of("i", state=ended(2))]}, "Init:ExitCode:2"),
        ({"initContainerStatuses": [status_of("i", state=ended(2, signal=6))]}, "Init:Signal:6"),
        ({"initContainerStatuses": [status_of("i", state={"waiting": {"reason": "Hm"}})]}, "Init:Hm"),
        ({"initContainerStatuses": [status_of("i", state=RUNNING)]}, "Init:0/2"),
        ({"initContainerStatuses": [status_of("i", state=ended(0)), status_of("side", state=STARTING)]}, "Init:1/2"),
    ],
)
def test_the_status_of_a_pod_is_the_most_telling_thing_about_it(status: Obj, expected: str) -> None:
    spec = {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "side"}]}
    assert printed("v1/pods", {"spec": spec, "status": status})["Status"] == expected


COMPLETED = status_of("done", state=ended(0, reason="Completed"))
ALIVE = status_of("alive", state=RUNNING) | {"ready": True}
FAILED = status_of("failed", state=ended(1, reason="Error"))


@pytest.mark.parametrize(
    ("statuses", "conditions", "expected"),
    [
        ([COMPLETED], [], "Completed"),
        ([COMPLETED, ALIVE], [READY], "Running"),
        ([COMPLETED, ALIVE], [], "NotReady"),
        ([COMPLETED, FAILED], [], "Error"),
        ([COMPLETED, FAILED, ALIVE], [], "Error"),
        ([COMPLETED, FAILED, ALIVE], [READY], "Running"),
    ],
)
def test_a_completed_container_does_not_speak_for_the_others(
    statuses: list[Obj], conditions: list[Obj], expected: str
) -> None:
    status = {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}
    assert printed("v1/pods", {"status": status})["Status"] == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
    ],
)
def test_a_deleted_pod_is_terminating_unless_it_is_over_or_its_node_is_lost(status: Obj, expected: str) -> None:
    deleted = {"deletionTimestamp": FIVE_MINUTES_AGO}
    assert printed("v1/pods", {"metadata": deleted, "status": status})["Status"] == expected


def test_restarts_of_init_containers_count_until_the_pod_is_initialized_those_of_sidecars_always() -> None:
    spec = {
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "i"}, {"name": "side", "restartPolicy": "Always"}],
    }
    side = status_of("side", 2, FIVE_MINUTES_AGO, state=RUNNING, started=True) | {"ready": True}
    failing = status_of("i", 3, timestamp(NOW - HOUR), state={"waiting": {"reason": "CrashLoopBackOff"}})
    held_up = printed("v1/pods", {"spec": spec, "status": {"initContainerStatuses": [failing, side]}})
    assert (held_up["Ready"], held_up["Restarts"]) == ("0/2", "3 (60m ago)")
    through = status_of("i", 3, timestamp(NOW - HOUR), state=ended(0))
    container = status_of("c", 1, state=RUNNING) | {"ready": True}
    status = {"phase": "Running", "initContainerStatuses": [through, side], "containerStatuses": [container]}
    running = printed("v1/pods", {"spec": spec, "status": status})
    assert (running["Ready"], running["Status"], running["Restarts"]) == ("2/2", "Running", "3 (5m ago)")


def test_a_pod_that_was_initialized_before_shows_its_containers_even_while_an_init_container_runs_again() -> None:
    status = {
        "phase": "Running",
        "conditions": [INITIALIZED],
        "initContainerStatuses": [status_of("i", 1, state=RUNNING)],
        "containerStatuses": [status_of("c", 4, state={"waiting": {"reason": "CrashLoopBackOff"}})],
    }
    cells = printed("v1/pods", {"spec": {"initContainers": [{"name": "i"}]}, "status": status})
    assert (cells["Status"], cells["Restarts"]) == ("CrashLoopBackOff", "4")


def test_the_wide_columns_of_a_pod() -> None:
    spec = {"nodeName": "n", "readinessGates": [{"conditionType": "a/b"}, {"conditionType": "c/d"}]}
    status = {
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}],
        "nominatedNodeName": "m",
        "conditions": [{"type": "a/b", "status": "True"}, {"type": "c/d", "status": "False"}],
    }
    cells = printed("v1/pods", {"spec": spec, "status": status})
    wide = ["IP", "Node", "Nominated Node", "Readiness Gates"]
    assert [cells[name] for name in wide] == ["10.0.0.1", "n", "m", "1/2"]
    assert [printed("v1/pods", {})[name] for name in wide] == ["<none>"] * 4


@pytest.mark.parametrize(
    ("phase", "conditions"),
    [
        ("Running", None),
        (
            "Succeeded",
            [
                {
                    "type": "Completed",
                    "status": "True",
                    "reason": "Succeeded",
                    "message": "The pod has completed successfully.",
                }
            ],
        ),
        ("Failed", [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}]),
    ],
)
def test_the_row_of_a_finished_pod_says_so(phase: str, conditions: list[Obj] | None) -> None:
    (row,) = printer_of(ROWS["v1/pods"], None).rows({"metadata": {"name": "x"}, "status": {"phase": phase}}, NOW)
    assert row.get("conditions") == conditions


# --- other kinds ----------------------------------------------------------------------------------------------------

KIND_CASES: list[tuple[str, Obj, dict[str, Any]]] = [
    (
        "v1/nodes",
        {
            "metadata": {
                "labels": {
                    "node-role.kubernetes.io/worker": "",
                    "kubernetes.io/role": "edge",
                    "node-role.kubernetes.io/": "",
                }
            },
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "Unknown"}],
                "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kernelVersion": "6.1", "architecture": "arm64", "osImage": ""},
            },
        },
        {
            "Status": "NotReady,SchedulingDisabled",
            "Roles": "edge,worker",
            "Internal-IP": "10.0.0.1",
            "External-IP": "<none>",
            "OS-Image": "<unknown>",
            "Kernel-Version": "6.1 (arm64)",
        },
    ),
    (
        "v1/resourcequotas",
        {"status": {"hard": {"requests.cpu": "2", "limits.memory": "1Gi", "pods": "4"}, "used": {"pods": "1"}}},
        {"Request": "pods: 1/4, requests.cpu: 0/2", "Limit": "limits.memory: 0/1Gi"},
    ),
    (
        "v1/services",
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIPs": ["10.0.0.7"],
                "externalIPs": ["1.1.1.1"],
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                "selector": {"b": "2", "a": "1"},
            },
            "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}, {"ip": "2.2.2.2"}]}},
        },
        {
            "Cluster-IP": "10.0.0.7",
            "External-IP": "2.2.2.2,lb.example,1.1.1.1",
            "Port(s)": "80:30080/TCP,53/UDP",
            "Selector": "a=1,b=2",
        },
    ),
    ("v1/services", {"spec": {"type": "LoadBalancer"}}, {"External-IP": "<pending>"}),
    (
        "v1/endpoints",
        {
            "subsets": [
                {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd::1"}], "ports": [{"port": 80}, {"port": 81}]},
                {"addresses": [{"ip": "10.0.0.9"}]},
            ]
        },
        {"Endpoints": "10.0.0.1:80,[fd::1]:80,10.0.0.1:81 + 2 more..."},
    ),
    (
        "discovery.k8s.io/v1/endpointslices",
        {"ports": [{"name": "web"}, {"port": 80, "name": "x"}, {}], "endpoints": [{"addresses": []}]},
        {"Ports": "web,80,*", "Endpoints": "<unset>"},
    ),
    (
        "networking.k8s.io/v1/ingresses",
        {"spec": {"rules": [{"host": "a"}, {}, {"host": "b"}, {"host": "c"}, {}], "tls": [{}]}},
        {"Class": "<none>", "Hosts": "a,b,c + 2 more...", "Ports": "80, 443"},
    ),
    (
        "networking.k8s.io/v1/ingresses",
        {"spec": {"ingressClassName": "n", "rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}]}},
        {"Class": "n", "Hosts": "a,b,c", "Ports": "80"},
    ),
    (
        "networking.k8s.io/v1/ingressclasses",
        {
            "metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
            "spec": {"controller": "e/c", "parameters": {"kind": "P", "apiGroup": "g.io", "name": "p"}},
        },
        {"Name": "x (default)", "Controller": "e/c", "Parameters": "P.g.io/p"},
    ),
    (
        "networking.k8s.io/v1/networkpolicies",
        {"spec": {"podSelector": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["b", "a"]}]}}},
        {"Pod-Selector": "k in (a,b)"},
    ),
    (
        "v1/replicationcontrollers",
        {
            "spec": {
                "replicas": 2,
                "selector": {"app": "a"},
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}},
            }
        },
        {"Desired": 2, "Current": 0, "Containers": "c,d", "Images": "i,j", "Selector": "app=a"},
    ),
    (
        "apps/v1/deployments",
        {
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}},
            "status": {"readyReplicas": 2, "updatedReplicas": 3},
        },
        {"Ready": "2/3", "Up-to-date": 3, "Available": 0, "Selector": "app=a"},
    ),
    (
        "apps/v1/daemonsets",
        {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}, "status": {"desiredNumberScheduled": 4}},
        {"Desired": 4, "Ready": 0, "Node Selector": "disk=ssd"},
    ),
    (
        "apps/v1/controllerrevisions",
        {
            "metadata": {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "o"},
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True},
                ]
            },
            "revision": 7,
        },
        {"Controller": "statefulset.apps/s", "Revision": 7},
    ),
    (
        "batch/v1/jobs",
        {
            "spec": {"parallelism": 2},
            "status": {"succeeded": 1, "startTime": timestamp(NOW - 90), "completionTime": timestamp(NOW - 30)},
        },
        {"Status": "Running", "Completions": "1/1 of 2", "Duration": "60s"},
    ),
    (
        "batch/v1/jobs",
        {
            "metadata": {"deletionTimestamp": FIVE_MINUTES_AGO},
            "spec": {"completions": 3},
            "status": {"conditions": [{"type": "Suspended", "status": "True"}], "startTime": FIVE_MINUTES_AGO},
        },
        {"Status": "Terminating", "Completions": "0/3", "Duration": "5m"},
    ),
    (
        "batch/v1/cronjobs",
        {
            "spec": {"schedule": "* * * * *", "suspend": False},
            "status": {"active": [{}], "lastScheduleTime": FIVE_MINUTES_AGO},
        },
        {"Timezone": "<none>", "Suspend": "False", "Active": 1, "Last Schedule": "5m", "Selector": "<none>"},
    ),
    (
        "policy/v1/poddisruptionbudgets",
        {"spec": {"maxUnavailable": "50%"}, "status": {"disruptionsAllowed": 1}},
        {"Min Available": "N/A", "Max Unavailable": "50%", "Allowed Disruptions": 1},
    ),
    (
        "v1/persistentvolumes",
        {
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
                "claimRef": {"namespace": "n", "name": "c"},
                "storageClassName": "new",
            },
            "status": {"phase": "Bound"},
        },
        {
            "Capacity": "5Gi",
            "Access Modes": "RWO,RWX",
            "Status": "Bound",
            "Claim": "n/c",
            "StorageClass": "old",
            "VolumeAttributesClass": "<unset>",
        },
    ),
    (
        "v1/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending", "capacity": {"storage": "1Gi"}}},
        {"Status": "Pending", "Volume": "", "Capacity": "", "Access Modes": "", "VolumeMode": "<unset>"},
    ),
    (
        "storage.k8s.io/v1/storageclasses",
        {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
        {"Name": "x (default)", "ReclaimPolicy": "Delete", "AllowVolumeExpansion": False},
    ),
    (
        "storage.k8s.io/v1/csidrivers",
        {"spec": {"attachRequired": False, "tokenRequests": [{"audience": "a"}, {"audience": "b"}]}},
        {"AttachRequired": False, "TokenRequests": "a,b", "Modes": "<none>"},
    ),
    (
        "rbac.authorization.k8s.io/v1/rolebindings",
        {
            "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            ],
        },
        {"Role": "ClusterRole/view", "Users": "u, v", "Groups": "", "ServiceAccounts": "n/s"},
    ),
    (
        "certificates.k8s.io/v1/certificatesigningrequests",
        {
            "spec": {"username": "u", "expirationSeconds": 600},
            "status": {"conditions": [{"type": "Approved"}, {"type": "Failed"}], "certificate": "eA=="},
        },
        {"SignerName": "<none>", "RequestedDuration": "10m", "Condition": "Approved,Failed,Issued"},
    ),
    (
        "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        {"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}},
        {
            "PolicyName": "p",
            "ParamRef": "&LabelSelector{MatchLabels:map[string]string{a: b,},"
            "MatchExpressions:[]LabelSelectorRequirement{},}",
        },
    ),
    (
        "admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
        {"spec": {"policyName": "p", "paramRef": {"name": "n"}}},
        {"ParamRef": "*/n"},
    ),
    (
        "apiregistration.k8s.io/v1/apiservices",
        {
            "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
        },
        {"Service": "n/s", "Available": "False (MissingEndpoints)"},
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}}}},
        {"NominalConcurrencyShares": 0, "Queues": "<none>"},
    ),
    (
        "resource.k8s.io/v1/resourceclaims",
        {"metadata": {"deletionTimestamp": FIVE_MINUTES_AGO}, "status": {"allocation": {}, "reservedFor": [{}]}},
        {"State": "deleted,allocated,reserved"},
    ),
]


@pytest.mark.parametrize(("kind", "obj", "expected"), KIND_CASES, ids=[case[0] for case in KIND_CASES])
def test_kinds_show_what_their_columns_say(kind: str, obj: Obj, expected: dict[str, Any]) -> None:
    cells = printed(kind, obj)
    assert {name: cells[name] for name in expected} == expected


def test_an_ip_address_names_what_it_was_given_to() -> None:
    parent = {"resource": "services", "namespace": "n", "name": "s"}
    (row,) = printer_of(ROWS["networking.k8s.io/v1/ipaddresses"], None).rows({"spec": {"parentRef": parent}}, NOW)
    assert row["cells"][1] == "services/n/s"


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["Suspended"], "Suspended"),
        (["SuccessCriteriaMet"], "SuccessCriteriaMet"),
        (["FailureTarget", "Failed"], "Failed"),
        (["SuccessCriteriaMet", "Complete"], "Complete"),
    ],
)
def test_a_job_shows_its_strongest_condition(conditions: list[str], expected: str) -> None:
    status = {"conditions": [{"type": type_, "status": "True"} for type_ in conditions]}
    assert printed("batch/v1/jobs", {"status": status})["Status"] == expected


def cpu(key: str, **value: Any) -> Obj:
    return {"type": "Resource", "resource": {"name": "cpu", key: value}}


@pytest.mark.parametrize(
    ("wanted", "measured", "expected"),
    [
        ([cpu("target", averageUtilization=80)], [], "cpu: <unknown>/80%"),
        ([cpu("target", averageUtilization=80)], [cpu("current", averageUtilization=7)], "cpu: 7%/80%"),
        ([cpu("target", averageValue="500m")], [cpu("current", averageValue="20m")], "cpu: 20m/500m"),
        ([{"type": "Pods", "pods": {"target": {"averageValue": "9"}}}], [], "<unknown>/9"),
        ([{"type": "External", "external": {"target": {"averageValue": "9"}}}], [], "<unknown>/9 (avg)"),
        (
            [{"type": "Object", "object": {"target": {"value": "9"}}}],
            [{"type": "Object", "object": {"current": {"value": "3"}}}],
            "3/9",
        ),
        ([cpu("target", averageUtilization=1)] * 3, [], "cpu: <unknown>/1%, cpu: <unknown>/1% + 1 more..."),
    ],
)
def test_an_autoscaler_sets_measured_against_wanted_values(
    wanted: list[Obj], measured: list[Obj], expected: str
) -> None:
    obj = {"spec": {"metrics": wanted}, "status": {"currentMetrics": measured}}
    assert printed("autoscaling/v2/horizontalpodautoscalers", obj)["Targets"] == expected


def test_an_autoscaler_of_the_first_version_knows_only_cpu() -> None:
    obj = {"spec": {"targetCPUUtilizationPercentage": 80}, "status": {"currentCPUUtilizationPercentage": 10}}
    assert printed("autoscaling/v1/horizontalpodautoscalers", obj)["Targets"] == "cpu: 10%/80%"


def test_events_of_both_groups_print_alike() -> None:
    """X-08"""
    about = {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"}
    common: Obj = {"type": "Normal", "reason": "Started"}
    core = common | {"involvedObject": about, "message": " m ", "count": 3, "lastTimestamp": FIVE_MINUTES_AGO}
    core |= {"source": {"component": "kubelet", "host": "n1"}}
    new = common | {"regarding": about, "note": " m ", "deprecatedCount": 3}
    new |= {"deprecatedLastTimestamp": FIVE_MINUTES_AGO, "deprecatedSource": {"component": "kubelet", "host": "n1"}}
    cells = printed("v1/events", core)
    assert cells == printed("events.k8s.io/v1/events", new)
    assert list(cells.values()) == [
        "5m", "Normal", "Started", "pod/p", "spec.containers{c}", "kubelet, n1", "m", "<unknown>", 3, "x",
    ]  # fmt: skip


def test_an_event_series_tells_when_it_was_seen_last() -> None:
    series = {"count": 9, "lastObservedTime": "2026-01-01T11:59:00.000000Z"}
    event = {"eventTime": "2026-01-01T11:00:00.000000Z", "series": series, "reportingController": "c"}
    cells = printed("events.k8s.io/v1/events", event)
    assert (cells["Last Seen"], cells["First Seen"], cells["Count"], cells["Source"]) == ("60s", "60m", 9, "c")


@pytest.mark.parametrize("kind", [kind for kind, row in ROWS.items() if "watch" in row.verbs])
def test_a_bookmark_is_a_row_of_any_kind(kind: str) -> None:
    """A watch as a table shows them as it shows everything, although there is nothing in them."""
    printer = printer_of(ROWS[kind], None)
    (row,) = printer.rows(bookmark(ROWS[kind], 5).obj(), NOW)
    assert len(row["cells"]) >= len(printer.columns)  # some print more than they announce, as upstream does
