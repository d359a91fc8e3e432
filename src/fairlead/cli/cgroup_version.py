"""What is said of cgroups where a command sets a node up by itself."""

from __future__ import annotations

from fairlead.agent.cgroups.hierarchies import hierarchies


def said_of_cgroup_v1() -> str:
    """A kubelet of today refuses version 1 unless it is told not to."""
    return " (cgroup v1: failCgroupV1 is false)" if hierarchies().version == 1 else ""
