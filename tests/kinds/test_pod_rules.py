"""What is refused when a pod is created: one row a rule, with the text that people see."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.fields import Errors
from fairlead.kinds.podspec import default_pod_template, validate_pod_template
from tests.kinds.pod_world import container, created, refusals, texts


def from_file(volume: str, path: str) -> dict[str, Any]:
    return {"name": "A", "valueFrom": {"fileKeyRef": {"key": "K", "volumeName": volume, "path": path}}}


RULES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("an ordinary pod", {}, []),
    ("no containers", {"containers": []}, ["spec.containers: Required value"]),
    (
        "volumes mounted with labels, as nodes do not do yet",
        {"securityContext": {"seLinuxChangePolicy": "MountOption"}},
        ['spec.securityContext.seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"'],
    ),
    ("volumes labelled recursively", {"securityContext": {"seLinuxChangePolicy": "Recursive"}}, []),
    (
        "operators that are none",
        {
            "tolerations": [{"key": "a", "operator": "<"}],
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": ">="}]},
                }
            ],
        },
        [
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: "
            r'Invalid value: "\u003e=": not a valid selector operator',
            r'spec.tolerations[0].operator: Unsupported value: "\u003c": supported values: "Equal", "Exists"',
        ],
    ),
    ("no preemption policy", {"preemptionPolicy": ""}, ["spec.preemptionPolicy: Required value"]),
    (
        "tolerations in the annotation of old",
        {"annotations": {"scheduler.alpha.kubernetes.io/tolerations": '[{"Key": "a", "operator": "Is"}]'}},
        [
            'metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Unsupported value: "Is": '
            'supported values: "Equal", "Exists"'
        ],
    ),
    (
        "something else in that annotation",
        {"annotations": {"scheduler.alpha.kubernetes.io/tolerations": '[{"key": 1}]'}},
        [
            'metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": '
            "json: cannot unmarshal number into Go struct field Toleration.Key of type string"
        ],
    ),
    (
        "sysctls of the host, and one that has no namespace",
        {
            "hostIPC": True,
            "securityContext": {
                "sysctls": [
                    {"name": name, "value": "1"} for name in ("kernel.shmmax", "fs/mqueue/x", "kernel.sem_next_id")
                ]
            },
        },
        [
            'spec.securityContext.sysctls[0].name: Invalid value: "kernel.shmmax": '
            "may not be specified when 'hostIPC' is true",
            'spec.securityContext.sysctls[1].name: Invalid value: "fs/mqueue/x": '
            "may not be specified when 'hostIPC' is true",
        ],
    ),
    (
        "a field with a strange subscript",
        {"containers": [container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "a[b['c']"}}}])]},
        [
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"a[b['c']\": "
            "error converting fieldPath: field label does not support subscript: a[b['c']"
        ],
    ),
    (
        "a divisor of what is no resource",
        {
            "containers": [
                container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "x.cpu", "divisor": "3"}}}])
            ]
        },
        [
            'spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "x.cpu": supported '
            'values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
            '"requests.ephemeral-storage", "requests.memory"'
        ],
    ),
    (
        "a request over its limit",
        {"containers": [container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}})]},
        ['spec.containers[0].resources.requests: Invalid value: "1": must be less than or equal to cpu limit of 500m'],
    ),
    (
        "huge pages alone",
        {"containers": [container(resources={"limits": {"hugepages-2Mi": "4Mi"}})]},
        ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
    ),
    (
        "a claim used twice",
        {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
            "containers": [container(resources={"claims": [{"name": "gpu", "request": "a"}, {"name": "gpu"}]})],
        },
        ['spec.containers[0].resources.claims[1]: Duplicate value: "gpu"'],
    ),
    (
        "a claim used a third time",
        {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}],
            "containers": [
                container(
                    resources={
                        "claims": [{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}, {"name": "gpu"}]
                    }
                )
            ],
        },
        ['spec.containers[0].resources.claims[2]: Duplicate value: "gpu"'] * 2,
    ),
    (
        "a claim from nowhere",
        {"resourceClaims": [{"name": "gpu"}]},
        [
            'spec.resourceClaims[0]: Invalid value: {"Name":"gpu","ResourceClaimName":null,'
            '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'
        ],
    ),
    (
        "restart rules without a policy",
        {"containers": [container(restartPolicyRules=[{"action": "Stop", "exitCodes": {"operator": "Is"}}])]},
        [
            "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            'spec.containers[0].restartPolicyRules[0].action: Unsupported value: "Stop": '
            'supported values: "Restart", "RestartAllContainers"',
            'spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: "Is": '
            'supported values: "In", "NotIn"',
        ],
    ),
    (
        "a port name used twice",
        {"containers": [container(ports=[{"name": "web", "containerPort": 1}, {"name": "web", "containerPort": 2}])]},
        ['spec.containers[0].ports[1].name: Duplicate value: "web"'],
    ),
    (
        "two handlers of a hook, one sleeping too long",
        {"containers": [container(lifecycle={"preStop": {"sleep": {"seconds": 31}}, "postStart": {}})]},
        [
            "spec.containers[0].lifecycle.postStart: Required value: must specify a handler type",
            "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: "
            "must be non-negative and less than terminationGracePeriodSeconds (30)",
        ],
    ),
    (
        "a grace period on a readiness probe",
        {
            "containers": [
                container(readinessProbe={"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": 5}),
            ]
        },
        [
            "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: "
            "must not be set for readinessProbes"
        ],
    ),
    (
        "an unknown field of the downward API",
        {"containers": [container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}])]},
        [
            'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported '
            'values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", '
            '"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"'
        ],
    ),
    (
        "a divisor that does not fit",
        {
            "containers": [
                container(
                    env=[
                        {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}},
                    ]
                )
            ]
        },
        [
            'spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": '
            "only divisor's values 1m and 1 are supported with the cpu resource"
        ],
    ),
    (
        "mounts that collide",
        {
            "volumes": [{"name": "v"}],
            "containers": [
                container(
                    volumeMounts=[
                        {"name": "v", "mountPath": "/x", "subPath": "../up"},
                        {"name": "v", "mountPath": "/x", "mountPropagation": "Bidirectional"},
                    ]
                )
            ],
        },
        [
            "spec.containers[0].volumeMounts.subPath: Invalid value: \"../up\": must not contain '..'",
            'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
            "spec.containers[0].volumeMounts.mountPropagation: Forbidden: "
            "Bidirectional mount propagation is available only to privileged containers",
        ],
    ),
    (
        "a projected token without an account, and a file made twice",
        {
            "volumes": [
                {
                    "name": "v",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"path": "t", "expirationSeconds": 60}},
                            {"secret": {"name": "s", "items": [{"key": "k", "path": "f"}, {"key": "l", "path": "f"}]}},
                        ]
                    },
                }
            ]
        },
        [
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: "
            "may not specify a duration less than 10 minutes",
            'spec.volumes[0].projected: Invalid value: "s": conflicting duplicate paths',
            "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: "
            "must not be specified when serviceAccountName is not set",
        ],
    ),
    (
        "an ephemeral volume without storage",
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["Once"]}}}}]},
        [
            'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "Once": supported '
            'values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        ],
    ),
    (
        "an ephemeral volume from nowhere, with a name",
        {
            "volumes": [
                {
                    "name": "v",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "metadata": {"uid": "u", "name": "n"},
                            "spec": {
                                "accessModes": ["ReadWriteOnce"],
                                "resources": {"requests": {"storage": "1Gi"}},
                                "dataSourceRef": {"kind": "X", "name": "y"},
                                "volumeAttributesClassName": "A",
                            },
                        }
                    },
                }
            ]
        },
        [
            "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
            "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set",
            'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSourceRef: Invalid value: "X": '
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            'spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeAttributesClassName: Invalid value: "A": '
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ],
    ),
    (
        "DNS that cannot work",
        {"dnsConfig": {"nameservers": ["x"], "searches": ["a_b."], "options": [{"value": "1"}]}},
        [
            'spec.dnsConfig.nameservers[0]: Invalid value: "x": '
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            "spec.dnsConfig.options[0]: Required value: must not be empty",
        ],
    ),
    (
        "users and sysctls that the host could not give",
        {
            "hostNetwork": True,
            "securityContext": {"runAsUser": -1, "sysctls": [{"name": "net.core.somaxconn"}, {"name": "A"}]},
        },
        [
            "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            'spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": '
            "may not be specified when 'hostNetwork' is true",
            'spec.securityContext.sysctls[1].name: Invalid value: "A": must have at most 253 characters and match '
            r"regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
        ],
    ),
    (
        "privilege that is given and taken",
        {"containers": [container(securityContext={"privileged": True, "allowPrivilegeEscalation": False})]},
        [
            'spec.containers[0].securityContext: Invalid value: {"Capabilities":null,"Privileged":true,'
            '"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,'
            '"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,'
            '"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true'
        ],
    ),
    (
        "own users on the host's network",
        {"hostUsers": False, "hostPID": True},
        ["spec.HostPID: Forbidden: when `hostUsers` is false"],
    ),
    (
        "own users and raw devices",
        {
            "hostUsers": False,
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
            "initContainers": [container(name="i", volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])],
            "containers": [container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])],
        },
        [
            "spec.initContainers[0].volumeDevices: Forbidden: when `hostUsers` is false",
            "spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false",
        ],
    ),
    (
        "a host name beside the host's",
        {
            "hostNetwork": True,
            "setHostnameAsFQDN": True,
            "hostnameOverride": "a" * 65,
            "serviceAccountName": "a b",
        },
        [
            "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
            "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            "spec.hostnameOverride: Too long: may not be more than 64 bytes",
            'spec.serviceAccountName: Invalid value: "a b": a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
            "'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ],
    ),
    ("a system without a name", {"os": {"name": ""}}, ["spec.os.name: Required value"]),
    (
        "variables from files that nobody can write",
        {
            "volumes": [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w"}],
            "initContainers": [container(name="i", env=[from_file("nope", "/etc/x")])],
            "containers": [container(env=[from_file("v", "a/../b"), from_file("w", "..x")])],
        },
        [
            "spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: \"a/../b\": must not contain '..'",
            'spec.initContainers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "nope"',
            'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": '
            "referenced volume must be of type emptyDir",
        ],
    ),
    (
        "an init container that a resize would restart",
        {
            "initContainers": [
                container(name="i", resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
                container(
                    name="s",
                    restartPolicy="Always",
                    resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
                ),
            ]
        },
        [
            'spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": '
            "must not be set to 'RestartContainer' for non-sidecar initContainers"
        ],
    ),
    (
        "claims of a pod that its node made",
        {
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "nodeName": "n",
            "resourceClaims": [{"name": "gpu"}, {"name": "gpu"}],
            "containers": [container(resources={"claims": [{"name": "gpu"}]})],
        },
        ["[]: Forbidden: static pods do not support resource claims"] * 2,
    ),
    (
        "Linux things on Windows",
        {"os": {"name": "windows"}, "securityContext": {"fsGroup": 1}},
        ["spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod"],
    ),
    (
        "a key that the selector has already",
        {
            "labels": {"a": "b"},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 0,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "Sometimes",
                    "labelSelector": {"matchLabels": {"a": "b"}},
                    "matchLabelKeys": ["a"],
                }
            ],
        },
        [
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Sometimes": '
            'supported values: "DoNotSchedule", "ScheduleAnyway"',
            'spec.topologySpreadConstraints[0][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector',
        ],
    ),
    (
        "a deletion cost that is no number, and a mirror of nothing",
        {"annotations": {"kubernetes.io/config.mirror": "x", "controller.kubernetes.io/pod-deletion-cost": "+1"}},
        [
            'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": '
            "must set spec.nodeName if mirror pod annotation is set",
            'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": '
            "must be a 32bit integer",
        ],
    ),
    (
        "a seccomp annotation against its field",
        {
            "annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        },
        ["spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"],
    ),
]


@pytest.mark.parametrize(("spec", "expected"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_refused_with_the_texts_of_upstream(spec: dict[str, Any], expected: list[str]) -> None:
    """S0-107: among others, a request above its limit."""
    assert refusals(**spec) == expected


SOURCES: list[tuple[dict[str, Any], list[str]]] = [
    ({"nfs": {"server": "s", "path": "x"}}, ['nfs.path: Invalid value: "x": must be an absolute path']),
    (
        {"iscsi": {"targetPortal": "t", "iqn": "x", "lun": 0}},
        ['iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa'],
    ),
    ({"csi": {"driver": "x" * 64}}, ["csi.driver: Too long: may not be more than 63 bytes"]),
    ({"image": {}}, ["image.reference: Required value"]),
    (
        {"gcePersistentDisk": {"pdName": "", "partition": 256}},
        [
            "persistentDisk.pdName: Required value",
            "persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
        ],
    ),
    ({"fc": {"targetWWNs": ["a"]}}, ["fc.lun: Required value: lun is required if targetWWNs is specified"]),
    (
        {"secret": {"secretName": "s", "items": [{"key": "", "path": "..x"}]}},
        [
            "secret.items[0].key: Required value",
            "secret.items[0].path: Invalid value: \"..x\": must not start with '..'",
        ],
    ),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES, ids=[next(iter(source)) for source, _ in SOURCES])
def test_volume_sources_have_rules_of_their_own(source: dict[str, Any], expected: list[str]) -> None:
    assert refusals(volumes=[{"name": "v", **source}]) == [f"spec.volumes[0].{text}" for text in expected]


def test_template_is_checked_more_loosely_than_a_pod() -> None:
    """Blank images and host ports left open are for somebody else to fill in."""
    template: dict[str, Any] = {
        "spec": {
            "hostNetwork": True,
            "containers": [container(image=" ", ports=[{"containerPort": 80}])],
            "ephemeralContainers": [{"name": "e", "image": "dbg"}],
        }
    }
    default_pod_template(template)
    errors = Errors()
    validate_pod_template(template, "spec.template", errors)
    assert texts(errors) == [
        "spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"
    ]


def test_profiles_in_annotations_of_a_template_match_its_fields() -> None:
    profile = {"appArmorProfile": {"type": "RuntimeDefault"}}
    template: dict[str, Any] = {
        "metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}},
        "spec": {"containers": [container(securityContext=profile)]},
    }
    default_pod_template(template)
    errors = Errors()
    validate_pod_template(template, "spec.template", errors)
    assert texts(errors) == [
        "spec.template.spec.containers[0].securityContext.appArmorProfile.type: Forbidden: "
        "apparmor type in annotation and field must match"
    ]


def test_gated_pod_has_no_node() -> None:
    assert refusals(schedulingGates=[{"name": "x"}], nodeName="n") == [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    ]


def test_stored_pod_passes_its_own_rules() -> None:
    """What defaulting fills in is never refused."""
    assert created()["spec"]["containers"][0]["resources"] == {}
    assert (
        refusals(volumes=[{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "secret": {"secretName": "s"}}])
        == []
    )
