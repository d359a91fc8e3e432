"""What may be chosen for a real node; whoever merely starts its agent needs no more of it than these words."""

from __future__ import annotations

from enum import StrEnum


class RuntimeKind(StrEnum):
    """What makes its containers: conmon and crun, whatever listens behind CRI, or processes of a user."""

    OCI = "oci"
    CRI = "cri"
    PROCESS = "process"


class ClusterNetwork(StrEnum):
    """Who brings the network of the cluster."""

    FAIRLEAD = "fairlead"
    NONE = "none"
