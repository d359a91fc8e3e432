"""What CSI drivers say of themselves, and devices and classes of Ingresses: what is filled in, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlead.api.names import qualified_name
from fairlead.api.objects import Obj
from tests.kinds.kind_world import born, made, status_refusals, updated

REQUEST: Obj = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
PARAMETERS: Obj = {"kind": "Setting", "name": "s"}


def _setting(**fields: Any) -> Callable[[Obj], Any]:
    return lambda obj: obj["spec"].update(fields)


def test_a_driver_is_attached_and_keeps_volumes_unless_it_says_otherwise() -> None:
    assert made("CSIDriver", spec={})["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    }


def test_changes_of_a_driver_are_counted() -> None:
    driver = made("CSIDriver", spec={"preventPodSchedulingIfMissing": True})
    assert "generation" not in driver["metadata"] and "preventPodSchedulingIfMissing" not in driver["spec"]
    changed, _ = updated(driver, _setting(podInfoOnMount=True))
    assert changed["metadata"]["generation"] == 1
    assert updated(changed, _setting(preventPodSchedulingIfMissing=True))[0] == changed
    labelled, _ = updated(changed, lambda obj: obj["metadata"].update(labels={"a": "b"}))
    assert labelled["metadata"]["generation"] == 1


DRIVERS: list[tuple[str, Obj, list[str]]] = [
    (
        "CSIDriver",
        {
            "spec": {
                "fsGroupPolicy": "Some",
                "volumeLifecycleModes": ["None"],
                "nodeAllocatableUpdatePeriodSeconds": 9,
            }
        },
        [
            'spec.fsGroupPolicy: Unsupported value: "Some": '
            'supported values: "File", "None", "ReadWriteOnceWithFSType"',
            'spec.volumeLifecycleModes: Unsupported value: "None": supported values: "Persistent", "Ephemeral"',
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
        ],
    ),
    (
        "CSIDriver",
        {"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 599}, {"audience": "a"}]}},
        [
            "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: "
            "may not specify a duration less than 10 minutes",
            'spec.tokenRequests[1].audience: Duplicate value: "a"',
        ],
    ),
    (
        "CSINode",
        {
            "spec": {
                "drivers": [
                    {"name": "a.b", "nodeID": "", "topologyKeys": ["k", "k"], "allocatable": {"count": -1}},
                    {"name": "a.b", "nodeID": "n", "topologyKeys": []},
                ]
            }
        },
        [
            "spec.drivers[0].nodeID: Required value",
            "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            'spec.drivers[0]: Duplicate value: "k"',
            'spec.drivers[1].name: Duplicate value: "a.b"',
        ],
    ),
    (
        "CSIStorageCapacity",
        {"storageClassName": "fast", "capacity": "-1Gi"},
        ['capacity: Invalid value: "-1Gi": must be greater than or equal to 0'],
    ),
    (
        "VolumeAttachment",
        {"spec": {"attacher": "a.b", "nodeName": "n", "source": {}}},
        ["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
    ),
    (
        "VolumeAttachment",
        {
            "spec": {
                "attacher": "a.b",
                "nodeName": "n",
                "source": {
                    "inlineVolumeSpec": {
                        "nfs": {"server": "s", "path": "/d"},
                        "capacity": {"storage": "1Gi"},
                        "persistentVolumeReclaimPolicy": "Delete",
                        "storageClassName": "gold",
                        "volumeMode": "Block",
                    }
                },
            }
        },
        [
            "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.accessModes: Required value",
            "spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: "
            "may only be Retain in the context of inline volumes",
            "spec.source.inlineVolumeSpec.storageClassName: Forbidden: "
            "may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.volumeMode: Forbidden: "
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        ],
    ),
    ("CSINode", {"spec": {"drivers": [{"name": "a.b", "nodeID": "n" * 256}]}}, []),
    (
        "CSIDriver",
        {"spec": {"serviceAccountTokenInSecrets": True}},
        [
            "spec.serviceAccountTokenInSecrets: Invalid value: true: "
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        ],
    ),
    ("StorageClass", {"provisioner": "p", "reclaimPolicy": ""}, []),
    (
        "VolumeAttributesClass",
        {"driverName": "A_", "parameters": {"iops": "1"}},
        [f'driverName: Invalid value: "a_": {qualified_name("a_")[0]}'],
    ),
    (
        "VolumeAttributesClass",
        {"driverName": ""},
        ["driverName: Required value", "parameters: Required value: must contain at least one key/value pair"],
    ),
    (
        "StorageClass",
        {
            "provisioner": "p",
            "parameters": {"": "x"},
            "allowedTopologies": [
                {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]},
                {"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]},
                {
                    "matchLabelExpressions": [
                        {"key": "k", "values": ["a", "a"]},
                        {"key": "k"},
                    ]
                },
            ],
        },
        [
            'parameters: Invalid value: "": field can not be empty.',
            'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""',
            'allowedTopologies[2].matchLabelExpressions[0].values[1]: Duplicate value: "a"',
            "allowedTopologies[2].matchLabelExpressions[1].values: Required value",
            'allowedTopologies[2].matchLabelExpressions[1].key: Duplicate value: "k"',
        ],
    ),
    ("IngressClass", {"spec": {}}, ["spec.controller: Required value"]),
    (
        "IngressClass",
        {"spec": {"controller": "a.b/c", "parameters": PARAMETERS | {"scope": "Namespace"}}},
        ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
    ),
    (
        "IngressClass",
        {"spec": {"controller": "plain", "parameters": {"namespace": "ns"}}},
        [
            'spec.controller: Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo")',
            "spec.parameters.kind: Required value: kind is required",
            "spec.parameters.name: Required value: name is required",
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
        ],
    ),
]


@pytest.mark.parametrize(("kind", "fields", "refusals"), DRIVERS)
def test_what_is_wrong_with_a_new_one(kind: str, fields: Obj, refusals: list[str]) -> None:
    assert born(kind, **fields)[1] == refusals


FIXED: list[tuple[str, Obj, Callable[[Obj], Any], list[str]]] = [
    (
        "CSIDriver",
        {"spec": {}},
        _setting(attachRequired=False),
        ["spec.attachedRequired: Invalid value: false: field is immutable"],
    ),
    ("CSIDriver", {"spec": {}}, _setting(requiresRepublish=True, fsGroupPolicy="None"), []),
    (
        "CSINode",
        {"spec": {"drivers": [{"name": "a", "nodeID": "x", "topologyKeys": ["k"]}]}},
        _setting(drivers=[{"name": "a", "nodeID": "y", "topologyKeys": ["k"]}]),
        [
            'spec.drivers: Invalid value: {"Name":"a","NodeID":"y","TopologyKeys":["k"],"Allocatable":null}: '
            "field is immutable"
        ],
    ),
    (
        "CSINode",
        {"spec": {"drivers": [{"name": "a", "nodeID": "x", "topologyKeys": []}]}},
        _setting(drivers=[{"name": "a", "nodeID": "x", "topologyKeys": [], "allocatable": {"count": 3}}]),
        [],
    ),
    (
        "CSIStorageCapacity",
        {"storageClassName": "fast", "capacity": "1Gi"},
        lambda obj: obj.update(storageClassName="slow", capacity="2Gi"),
        ['storageClassName: Invalid value: "slow": field is immutable'],
    ),
    (
        "VolumeAttachment",
        {"spec": {"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
        _setting(nodeName="m"),
        [
            'spec: Invalid value: {"Attacher":"a.b","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},'
            '"NodeName":"m"}: field is immutable'
        ],
    ),
    (
        "VolumeAttributesClass",
        {"driverName": "a.b", "parameters": {"iops": "1"}},
        lambda obj: obj.update(driverName="c.d", parameters={"iops": "2"}),
        [
            "driverName: Forbidden: updates to driverName are forbidden.",
            "parameters: Forbidden: updates to parameters are forbidden.",
        ],
    ),
    (
        "IngressClass",
        {"spec": {"controller": "a.b/c"}},
        _setting(controller="a.b/d"),
        ['spec.controller: Invalid value: "a.b/d": field is immutable'],
    ),
    (
        "ResourceSlice",
        {"spec": {"driver": "a.b", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}},
        _setting(driver="c.d", pool={"name": "q", "generation": 2, "resourceSliceCount": 1}),
        [
            'spec.pool.name: Invalid value: "q": field is immutable',
            'spec.driver: Invalid value: "c.d": field is immutable',
        ],
    ),
]


@pytest.mark.parametrize(("kind", "fields", "change", "refusals"), FIXED)
def test_what_may_change(kind: str, fields: Obj, change: Callable[[Obj], Any], refusals: list[str]) -> None:
    assert updated(made(kind, **fields), change)[1] == refusals


@pytest.mark.parametrize(
    ("kind", "fields", "change", "fields_refused"),
    [
        (
            "StorageClass",
            {"provisioner": "p"},
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": []}]}]},
            ["allowedTopologies[0].matchLabelExpressions[0].values"],
        ),
        ("CSIStorageCapacity", {"storageClassName": "s", "capacity": "1Gi"}, {"capacity": "-1"}, ["capacity"]),
        (
            "RuntimeClass",
            {"handler": "h"},
            {"overhead": {"podFixed": {"cpu": "-1"}}, "scheduling": {"nodeSelector": {"-": "x"}}},
            ["overhead.limits[cpu]", "scheduling.nodeSelector"],
        ),
    ],
)
def test_what_may_change_is_still_checked(kind: str, fields: Obj, change: Obj, fields_refused: list[str]) -> None:
    _, refusals = updated(made(kind, **fields), lambda obj: obj.update(change))
    assert [refusal.partition(": ")[0] for refusal in refusals] == fields_refused


def test_parameters_of_a_class_of_ingresses_are_of_the_cluster() -> None:
    spec = made("IngressClass", spec={"controller": "a.b/c", "parameters": PARAMETERS})["spec"]
    assert spec["parameters"]["scope"] == "Cluster"


def test_errors_of_an_attachment_are_short_and_have_a_code() -> None:
    attachment = made(
        "VolumeAttachment", spec={"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    )
    told = {"attached": False, "attachError": {"message": "x" * 1025}}
    assert status_refusals(attachment, told) == [
        "status.attachError.message: Too long: may not be more than 262144 bytes"
    ]
    assert status_refusals(attachment, {"attached": False, "detachError": {"errorCode": -1}}) == [
        "status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"
    ]
    assert status_refusals(attachment, {"attached": True}) == []


def test_a_claim_asks_for_one_device_and_stays_as_it_is() -> None:
    claim = made("ResourceClaim", spec={"devices": {"requests": [REQUEST]}})
    template = made("ResourceClaimTemplate", spec={"spec": {"devices": {"requests": [REQUEST]}}})
    for spec in (claim["spec"], template["spec"]["spec"]):
        (request,) = spec["devices"]["requests"]
        assert request["exactly"] == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    (refusal,) = updated(claim, _setting(devices={}))[1]
    assert refusal.startswith("spec: Invalid value: ") and refusal.endswith(": field is immutable")
    (refusal,) = updated(template, _setting(spec={}))[1]
    assert refusal.startswith("spec: Invalid value: ") and refusal.endswith(": field is immutable")
