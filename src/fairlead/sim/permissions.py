"""What whoever sets up the machines of simulated nodes may do; each node writes the rest itself, as a node may."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj

RULES: Final[tuple[Obj, ...]] = (
    # nodes with labels that they may not give themselves, now and when they are registered again
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "patch"]},
    # what no attacher of a driver will attach, and detach
    {
        "apiGroups": ["storage.k8s.io"],
        "resources": ["volumeattachments", "volumeattachments/status"],
        "verbs": ["patch"],
    },
    # what makes no sense in a UsageProfile
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
)
