"""Nodes, what runs on them, and the leases by which they and the controllers say that they are alive."""

from __future__ import annotations

from typing import Final

from fairlead.api import conditions
from fairlead.server.tables.base import AGE, NAME, Column, Subject, field, printer
from fairlead.server.tables.text import NONE, UNKNOWN

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"


def _status(node: Subject) -> str:
    ready = conditions.find(node.status.get("conditions"), "Ready")
    if ready is None:
        word = "Unknown"
    else:
        word = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if node.spec.get("unschedulable") else word


def _roles(node: Subject) -> str:
    labels = node.metadata.get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return ",".join(sorted(roles - {""})) or NONE


def _address(node: Subject, type_: str) -> str:
    for address in node.status.get("addresses") or ():
        if address.get("type") == type_:
            return str(address.get("address", ""))
    return NONE


def _info(node: Subject, key: str) -> str:
    return str((node.status.get("nodeInfo") or {}).get(key) or "")


def _kernel(node: Subject) -> str:
    version, architecture = _info(node, "kernelVersion") or UNKNOWN, _info(node, "architecture")
    return f"{version} ({architecture})" if architecture else version


NODES: Final = printer(
    NAME,
    Column("Status", _status, "Whether it is ready, and open for new pods."),
    Column("Roles", _roles, "Its roles, told by its labels."),
    AGE,
    Column("Version", lambda it: _info(it, "kubeletVersion"), "Version of its kubelet."),
    Column("Internal-IP", lambda it: _address(it, "InternalIP"), "Its address inside the cluster.", priority=1),
    Column("External-IP", lambda it: _address(it, "ExternalIP"), "Its address outside the cluster.", priority=1),
    Column("OS-Image", lambda it: _info(it, "osImage") or UNKNOWN, "Its operating system.", priority=1),
    Column("Kernel-Version", _kernel, "Its kernel and processor architecture.", priority=1),
    Column(
        "Container-Runtime",
        lambda it: _info(it, "containerRuntimeVersion") or UNKNOWN,
        "What runs its containers.",
        priority=1,
    ),
)

RUNTIME_CLASSES: Final = printer(
    NAME, Column("Handler", field("handler"), "The runtime's configuration on a node."), AGE
)

LEASES: Final = printer(NAME, Column("Holder", field("spec", "holderIdentity"), "Who holds the lease."), AGE)


def _health(component: Subject, key: str) -> str:
    found = conditions.find(component.obj.get("conditions"), "Healthy")
    return str((found or {}).get(key) or "")


_HEALTH: Final = {"": "Unknown", "True": "Healthy"}

COMPONENT_STATUSES: Final = printer(
    NAME,
    Column("Status", lambda it: _HEALTH.get(_health(it, "status"), "Unhealthy"), "Whether the component is healthy."),
    Column("Message", lambda it: _health(it, "message"), "What the component says."),
    Column("Error", lambda it: _health(it, "error"), "Why it could not be asked."),
)
