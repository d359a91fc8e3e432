"""Whether this node takes a pod that is bound to it, and which others have to go for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.agent.pods.apparmor import apparmor_refusal
from fairlead.agent.pods.selinux import selinux_refusal
from fairlead.agent.pods.unsupported import refusal
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.node.admission import NodeAdmission, Refusal, admit, pressure_refusal
from fairlead.node.allocation import amounts
from fairlead.node.sysctls import sysctl_refusal

#: A kubelet that runs a pod already does not ask again whether it may.
_ADMITTED: Final = "Running"
_NONE: Final[Mapping[str, int]] = {}


def is_admitted(manifest: Obj) -> bool:
    """An earlier agent has taken it."""
    return bool((manifest.get("status") or {}).get("phase") == _ADMITTED)


def admission_of(
    manifest: Obj,
    node: Node,
    neighbours: Iterable[Obj],
    pressures: Sequence[str],
    allowed_sysctls: Iterable[str],
    *,
    unplaced: Refusal | None = None,
    has_root: bool = True,
    has_apparmor: bool = False,
    has_selinux: bool = False,
    no_devices: Refusal | None = None,
    devices: Mapping[str, int] = _NONE,
    closed: Refusal | None = None,
) -> NodeAdmission:
    """`unplaced`: why it cannot have what it is to have to itself of CPUs and memory. `no_devices`: why it has none of
    plugins; else `devices` are those that pods of the node have, it included. `closed`: why no pod at all is taken.
    """
    if is_admitted(manifest):
        return NodeAdmission()
    if closed is not None:
        return NodeAdmission(closed)
    if (unsupported := refusal(manifest, has_root=has_root)) is not None:
        return NodeAdmission(unsupported)
    if (unlabelled := selinux_refusal(manifest, is_enabled=has_selinux)) is not None:
        return NodeAdmission(unlabelled)
    if (forbidden := sysctl_refusal(manifest["spec"], allowed_sysctls)) is not None:
        return NodeAdmission(forbidden)
    if no_devices is not None:
        return NodeAdmission(pressure_refusal(manifest, pressures) or no_devices)
    if unplaced is not None and pressure_refusal(manifest, pressures) is None:
        return NodeAdmission(unplaced)
    known = _with_devices(msgspec.to_builtins(node), devices)
    admission = admit(manifest, known, list(neighbours), pressures)
    if admission.refusal is None and (unconfined := apparmor_refusal(manifest, is_enabled=has_apparmor)) is not None:
        return NodeAdmission(unconfined)
    return admission


def _with_devices(node: Obj, devices: Mapping[str, int]) -> Obj:
    """What pods have of a resource counts as there, whatever has become of its plugin, or of the news of it."""
    status = node["status"]
    known = amounts(status.get("allocatable") or {})
    more = {name: str(count) for name, count in devices.items() if known.get(name, 0) < count}
    return {**node, "status": {**status, "allocatable": {**(status.get("allocatable") or {}), **more}}}
