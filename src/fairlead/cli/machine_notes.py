"""What is said of the machine where a command sets a node up by itself."""

from __future__ import annotations

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.machine import is_swap_on
from fairlead.api.objects import Obj


def said_of_machine(kubelet: Obj, *, has_cgroups: bool = True) -> str:
    """A kubelet of today refuses cgroup v1 and swap unless its configuration, as given, says otherwise."""
    said = ["cgroup v1: failCgroupV1 is false"] if has_cgroups and hierarchies().version == 1 else []
    if is_swap_on() and not kubelet["failSwapOn"]:
        said.append("swap: failSwapOn is false")
    return f" ({', '.join(said)})" if said else ""
