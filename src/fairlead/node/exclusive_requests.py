"""What the containers of a pod ask to have to themselves: whole CPUs, and memory of NUMA nodes.

It is looked through once: a pod may have thousands of containers, and whether any has anything depends on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple, TypeAlias

from fairlead.api.objects import Obj
from fairlead.api.podresources import ending_init_containers, is_hugepages
from fairlead.node.cpus.exclusive import containers_of, exclusive_cpus, exclusive_cpus_of_pod, has_own
from fairlead.node.requests import most_at_once, stated_request

MEMORY: Final = "memory"

#: By type of memory.
Bytes: TypeAlias = Mapping[str, int]


class ExclusiveRequests(NamedTuple):
    uid: str
    #: The names of its containers, in the order in which they are given what they ask for.
    names: Sequence[str]
    #: Of init containers that have ended when those after them begin.
    ending: Set[str]
    #: Who has any: by name of the container.
    cpus: Mapping[str, int]
    memory: Mapping[str, Bytes]
    #: The most that containers have at the same time.
    cpus_at_once: int
    memory_at_once: Bytes


def exclusive_requests(pod: Obj) -> ExclusiveRequests:
    spec, containers = pod["spec"], containers_of(pod["spec"])
    memory = {each["name"]: _memory(each) for each in containers} if has_own(spec) else {}
    return ExclusiveRequests(
        pod["metadata"]["uid"],
        [each["name"] for each in containers],
        ending_init_containers(spec),
        exclusive_cpus(spec),
        {name: amounts for name, amounts in memory.items() if amounts},
        exclusive_cpus_of_pod(spec),
        _at_once(spec, memory) if memory else {},
    )


def _at_once(spec: Obj, memory: Mapping[str, Bytes]) -> Bytes:
    """As with a kubelet, of those types that containers want which are no init containers."""
    types = {name for container in spec["containers"] for name in memory[container["name"]]}
    every = most_at_once(spec, lambda container: memory[container["name"]])
    return {name: size for name, size in every.items() if name in types}


def _memory(container: Obj) -> Bytes:
    requests = (container.get("resources") or {}).get("requests") or {}
    names = [name for name in sorted(requests) if name == MEMORY or is_hugepages(name)]
    return {name: stated_request(container, name).units for name in names}
