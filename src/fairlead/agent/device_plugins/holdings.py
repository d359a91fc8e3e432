"""Which devices the containers of this node's pods have, and what they got with them.

It outlives the agent: what a container was given is given to it again when it starts anew, whether its plugin is there
or not. Source: pkg/kubelet/cm/devicemanager/pod_devices.go (1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.device_plugins.messages import Allocated
from fairlead.agent.state_file import StateFile

#: In the folder of device plugins, as a kubelet calls it; what is in it is of our own form.
CHECKPOINT: Final = "kubelet_internal_checkpoint"


class Holding(msgspec.Struct, frozen=True):
    """The devices of one resource that a container has."""

    pod: str
    container: str
    resource: str
    #: With their NUMA nodes.
    devices: Mapping[str, tuple[int, ...]]
    given: Allocated


class _State(msgspec.Struct):
    holdings: list[Holding]
    #: Those that plugins had registered.
    resources: list[str]


class Holdings:
    def __init__(self, folder: Path) -> None:
        self._file = StateFile(folder / CHECKPOINT, _State)
        #: By uid of the pod, container and resource.
        self._pods: dict[str, dict[str, dict[str, Holding]]] = {}
        state = self._file.read()
        for holding in state.holdings if state is not None else ():
            self.add(holding)
        #: Those that plugins had registered when it was last kept.
        self.registered_before: Collection[str] = state.resources if state is not None else ()

    @property
    def pods(self) -> Collection[str]:
        return self._pods.keys()

    def add(self, holding: Holding) -> None:
        of_pod = self._pods.setdefault(holding.pod, {})
        of_pod.setdefault(holding.container, {})[holding.resource] = holding

    def release(self, pod: str) -> bool:
        """Whether it had anything."""
        return self._pods.pop(pod, None) is not None

    def has(self, pod: str) -> bool:
        return pod in self._pods

    def of(self, pod: str, container: str) -> list[Holding]:
        """By resource, in the order of their names."""
        found = self._pods.get(pod, {}).get(container, {})
        return [found[resource] for resource in sorted(found)]

    def find(self, pod: str, container: str, resource: str) -> Holding | None:
        return self._pods.get(pod, {}).get(container, {}).get(resource)

    def all_of(self, resource: str) -> Iterator[Holding]:
        return (each for each in self if each.resource == resource)

    def taken(self, resource: str) -> set[str]:
        return {device for holding in self.all_of(resource) for device in holding.devices}

    def counts(self) -> Mapping[str, int]:
        """How many devices are taken of each resource: one that several containers of a pod use in turn is one."""
        return Counter(
            resource for resource, _ in {(each.resource, device) for each in self for device in each.devices}
        )

    def __iter__(self) -> Iterator[Holding]:
        return (holding for pod in self._pods.values() for of in pod.values() for holding in of.values())

    async def keep(self, resources: Iterable[str]) -> None:
        """OSError where the disk takes it not."""
        await self._file.keep(_State(list(self), sorted(resources)))
