"""On which NUMA nodes a pod could have the devices that it wants, for the topology manager.

Source: pkg/kubelet/cm/devicemanager/topology_hints.go (1.36).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import chain, combinations, islice
from typing import TypeAlias

from fairlead.agent.device_plugins.holdings import Holdings
from fairlead.agent.device_plugins.inventory import EMPTY, Inventory
from fairlead.api.objects import Obj
from fairlead.api.podresources import ending_init_containers
from fairlead.node.numa_hints import Hint, Hints
from fairlead.node.requests import most_at_once

#: How many devices there are of the same NUMA nodes, of those that the machine has.
_Counts: TypeAlias = Mapping[frozenset[int], int]


class PluginHints:
    """Of one pod. What its containers get one after the other is foretold, for those that come after them.

    `wanted` has the resources of a container, and how many of each; `nodes` are all that there are.
    """

    def __init__(
        self,
        manifest: Obj,
        nodes: frozenset[int],
        offered: Mapping[str, Inventory],
        holdings: Holdings,
        wanted: Callable[[Obj], Mapping[str, int]],
    ) -> None:
        self._manifest, self._nodes, self._offered = manifest, nodes, offered
        self._holdings, self._wanted = holdings, wanted
        self._uid: str = manifest["metadata"]["uid"]
        self._ending = ending_init_containers(manifest["spec"])
        self._promised: dict[str, set[str]] = defaultdict(set)  # by resource
        self._reusable: dict[str, dict[str, None]] = defaultdict(dict)

    def of_container(self, container: Obj) -> Hints:
        found: dict[str, list[Hint] | None] = {}
        for resource, count in self._wanted(container).items():
            holding = self._holdings.find(self._uid, container["name"], resource)
            held = holding.devices if holding is not None else None
            found[resource] = self._hints(resource, count, held, list(self._reusable[resource]))
        return found

    def of_pod(self) -> Hints:
        """For all of its containers together."""
        found: dict[str, list[Hint] | None] = {}
        for resource, count in most_at_once(self._manifest["spec"], self._wanted).items():
            every = (each for each in self._holdings.all_of(resource) if each.pod == self._uid)
            held = {id_: of for holding in every for id_, of in holding.devices.items()}
            found[resource] = self._hints(resource, count, held or None, ())
        return found

    def take(self, container: Obj, hint: Hint) -> None:
        """The container has its devices, of these NUMA nodes if they will do."""
        for resource, count in self._wanted(container).items():
            holding = self._holdings.find(self._uid, container["name"], resource)
            if holding is not None:
                chosen: Iterable[str] = holding.devices
            else:
                free = list(self._free(resource))
                near = by_affinity(self._of(resource), free, hint.nodes)
                chosen = islice(dict.fromkeys(chain(self._reusable[resource], *near)), count)
            for id_ in list(chosen):
                self._promised[resource].add(id_)
                if container["name"] in self._ending:
                    self._reusable[resource][id_] = None
                else:
                    self._reusable[resource].pop(id_, None)

    def _of(self, resource: str) -> Inventory:
        return self._offered.get(resource, EMPTY)

    def _free(self, resource: str) -> Iterable[str]:
        return self._of(resource).healthy_but(self._holdings.taken(resource) | self._promised[resource])

    def _hints(
        self, resource: str, count: int, held: Mapping[str, tuple[int, ...]] | None, reusable: Iterable[str]
    ) -> list[Hint] | None:
        inventory = self._of(resource)
        if not any(listed := Counter(inventory.nodes.values())):
            return None
        every = self._counted(listed)
        if held is not None:
            known = self._counted(Counter(held.values()))
            return self._possible(every, known, (), count) if len(held) == count else []
        again = [inventory.nodes.get(id_, ()) for id_ in reusable]
        free = self._counted(Counter(inventory.nodes[id_] for id_ in self._free(resource)))
        if free.total() + len(again) < count:
            return []
        return self._possible(every, free, again, count)

    def _counted(self, listed: Mapping[tuple[int, ...], int]) -> Counter[frozenset[int]]:
        """A plugin may name others than the machine has, and many of them."""
        found = Counter[frozenset[int]]()
        for of, count in listed.items():
            found[self._nodes & frozenset(of)] += count
        return found

    def _possible(self, every: _Counts, free: _Counts, again: Iterable[tuple[int, ...]], count: int) -> list[Hint]:
        """Those of the fewest NUMA nodes that could ever be enough are preferred; what is used again is there."""
        found, fewest, placed = list[frozenset[int]](), len(self._nodes), [set(of) for of in again if of]
        for size in range(1, len(self._nodes) + 1):
            for chosen in map(frozenset, combinations(sorted(self._nodes), size)):
                if _within(every, chosen) >= count:
                    fewest = min(fewest, size)
                if all(of & chosen for of in placed) and len(placed) + _within(free, chosen) >= count:
                    found.append(chosen)
        return [Hint(each, len(each) == fewest) for each in found]


def by_affinity(inventory: Inventory, devices: Iterable[str], nodes: Set[int] | None) -> tuple[list[str], list[str]]:
    """Those of these NUMA nodes, and the others: first those that belong to none. None: all are alike."""
    if nodes is None:
        return list(devices), []
    near, far = list[str](), list[str]()
    anywhere = list[str]()
    for id_ in devices:
        of = inventory.nodes[id_]
        (near if not nodes.isdisjoint(of) else far if of else anywhere).append(id_)
    return near, [*anywhere, *far]


def _within(counts: _Counts, chosen: Set[int]) -> int:
    return sum(count for of, count in counts.items() if not chosen.isdisjoint(of))
