"""Whether this node takes a pod that is bound to it, and which others have to go for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.agent.pods.apparmor import apparmor_refusal
from fairlead.agent.pods.selinux import selinux_refusal
from fairlead.agent.pods.unsupported import refusal
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.node.admission import NodeAdmission, Refusal, admit, pressure_refusal
from fairlead.node.sysctls import sysctl_refusal

#: A kubelet that runs a pod already does not ask again whether it may.
_ADMITTED = "Running"


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
) -> NodeAdmission:
    """`unplaced`: why it cannot have what it is to have to itself, which is asked before what it shares."""
    if (manifest.get("status") or {}).get("phase") == _ADMITTED:
        return NodeAdmission()
    if (unsupported := refusal(manifest, has_root=has_root)) is not None:
        return NodeAdmission(unsupported)
    if (unlabelled := selinux_refusal(manifest, is_enabled=has_selinux)) is not None:
        return NodeAdmission(unlabelled)
    if (forbidden := sysctl_refusal(manifest["spec"], allowed_sysctls)) is not None:
        return NodeAdmission(forbidden)
    if unplaced is not None and pressure_refusal(manifest, pressures) is None:
        return NodeAdmission(unplaced)
    admission = admit(manifest, msgspec.to_builtins(node), list(neighbours), pressures)
    if admission.refusal is None and (unconfined := apparmor_refusal(manifest, is_enabled=has_apparmor)) is not None:
        return NodeAdmission(unconfined)
    return admission
