"""The FlowSchemas and PriorityLevelConfigurations that every cluster has (apiserver, flowcontrol/bootstrap, 1.36)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Final

from fairlead.api.flow_control import (
    BY_NAMESPACE,
    BY_USER,
    CATCH_ALL_NAME,
    EXEMPT,
    EXEMPT_NAME,
    GROUP,
    LIMITED,
    QUEUE,
    REJECT,
)
from fairlead.api.objects import Obj
from fairlead.api.users import AUTHENTICATED, MASTERS, NODES, SERVICE_ACCOUNTS, UNAUTHENTICATED

_API_VERSION: Final = f"{GROUP}/v1"
#: Those whose specs nobody may change, by name; other names are suggestions, which may be changed and removed.
MANDATORY: Final = (EXEMPT_NAME, CATCH_ALL_NAME)


def priority_levels() -> list[Obj]:
    """Fresh copies, the mandatory ones first."""
    return deepcopy(_LEVELS)


def flow_schemas() -> list[Obj]:
    """Fresh copies, the mandatory ones first."""
    return deepcopy(_SCHEMAS)


def mandatory_specs(objects: Iterable[Obj]) -> dict[str, Obj]:
    """By name, the specs that those of them must have that are mandatory."""
    return {name: obj["spec"] for obj in objects if (name := obj["metadata"]["name"]) in MANDATORY}


def _level(name: str, shares: int, lendable: int, queues: tuple[int, int] | None) -> Obj:
    """One limited level: its shares, how many percent it lends, its queues and how many of them a flow has."""
    response: Obj = {"type": REJECT}
    if queues:
        queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": 50}
        response = {"type": QUEUE, "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
    return _object("PriorityLevelConfiguration", name, {"type": LIMITED, "limited": limited})


def _schema(name: str, level: str, precedence: int, method: str, subjects: list[Obj], rules: Obj | None = None) -> Obj:
    """One schema with one rule; without `rules` it speaks of everything that the subjects do."""
    rule = {"subjects": subjects, **(rules or {"resourceRules": [_RESOURCES], "nonResourceRules": [_PATHS]})}
    spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]}
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return _object("FlowSchema", name, spec)


def _object(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _users(*names: str) -> list[Obj]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _groups(*names: str) -> list[Obj]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _accounts(*names: str) -> list[Obj]:
    found = [{"namespace": "kube-system", "name": name} for name in names]
    return [{"kind": "ServiceAccount", "serviceAccount": account} for account in found]


def _writes(group: str, *resources: str) -> Obj:
    return {
        "verbs": ["get", "create", "update"],
        "apiGroups": [group],
        "resources": list(resources),
        "namespaces": ["*"],
    }


_RESOURCES: Final = {
    "verbs": ["*"],
    "apiGroups": ["*"],
    "resources": ["*"],
    "clusterScope": True,
    "namespaces": ["*"],
}
_PATHS: Final = {"verbs": ["*"], "nonResourceURLs": ["*"]}
_PROBES: Final = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
_LEASES: Final = _writes("coordination.k8s.io", "leases")
_OF_NODES: Final = [
    {
        "verbs": ["*"],
        "apiGroups": [""],
        "resources": ["nodes", "nodes/status"],
        "clusterScope": True,
        "namespaces": ["*"],
    },
    {"verbs": ["*"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]},
]
_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_EVERYBODY: Final = _groups(UNAUTHENTICATED, AUTHENTICATED)

_LEVELS: Final = [
    _object(
        "PriorityLevelConfiguration",
        EXEMPT_NAME,
        {"type": EXEMPT, "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    ),
    _level(CATCH_ALL_NAME, 5, 0, None),
    _level("system", 30, 33, (64, 6)),
    _level("node-high", 40, 25, (64, 6)),
    _level("leader-election", 10, 0, (16, 4)),
    _level("workload-high", 40, 50, (128, 6)),
    _level("workload-low", 100, 90, (128, 6)),
    _level("global-default", 20, 50, (128, 6)),
]
_SCHEMAS: Final = [
    _schema(EXEMPT_NAME, EXEMPT_NAME, 1, "", _groups(MASTERS)),
    _schema(CATCH_ALL_NAME, CATCH_ALL_NAME, 10000, BY_USER, _EVERYBODY),
    _schema("system-nodes", "system", 500, BY_USER, _groups(NODES)),
    _schema("system-node-high", "node-high", 400, BY_USER, _groups(NODES), {"resourceRules": _OF_NODES}),
    _schema("probes", EXEMPT_NAME, 2, "", _EVERYBODY, {"nonResourceRules": [_PROBES]}),
    _schema(
        "system-leader-election",
        "leader-election",
        100,
        BY_USER,
        [*_users(_MANAGER, _SCHEDULER), *_accounts("*")],
        {"resourceRules": [_LEASES]},
    ),
    _schema(
        "endpoint-controller",
        "workload-high",
        150,
        BY_USER,
        [*_users(_MANAGER), *_accounts("endpoint-controller", "endpointslicemirroring-controller")],
        {"resourceRules": [_writes("", "endpoints")]},
    ),
    _schema("workload-leader-election", "leader-election", 200, BY_USER, _accounts("*"), {"resourceRules": [_LEASES]}),
    _schema("kube-controller-manager", "workload-high", 800, BY_NAMESPACE, _users(_MANAGER)),
    _schema("kube-scheduler", "workload-high", 800, BY_NAMESPACE, _users(_SCHEDULER)),
    _schema("kube-system-service-accounts", "workload-high", 900, BY_NAMESPACE, _accounts("*")),
    _schema("service-accounts", "workload-low", 9000, BY_USER, _groups(SERVICE_ACCOUNTS)),
    _schema("global-default", "global-default", 9900, BY_USER, _EVERYBODY),
]
