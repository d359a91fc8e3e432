"""The cluster as the scheduler believes it to be: nodes, the pods on them, and the pods it has just placed.

    (unknown) ──assume──▶ assumed ──place (the watch confirms)──▶ placed
                             │forget (binding failed)                │remove
                             ▼                                       ▼
                          (unknown)                              (unknown)

A decision must count every pod that was decided on before, whether or not the server has answered yet; so a pod is
assumed at once and confirmed or forgotten later. Changes are written to journals, by which cached answers catch up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy

import msgspec
import numpy as np

from fairlead.api.host_ports import HostPort
from fairlead.api.quantity import parse
from fairlead.api.scheduling import Node, Pod
from fairlead.api.taints import Taint
from fairlead.scheduler.columns import Amounts, Codes, Ints, Journal, Mask, Rows, grown
from fairlead.scheduler.facts.attach_limits import AttachLimits
from fairlead.scheduler.facts.budgets import Budgets
from fairlead.scheduler.facts.device_claims import DeviceClaims
from fairlead.scheduler.facts.device_offers import DeviceOffers
from fairlead.scheduler.facts.images import Images
from fairlead.scheduler.facts.least_priorities import LeastPriorities
from fairlead.scheduler.facts.owners import Owners
from fairlead.scheduler.facts.pod_index import PodIndex
from fairlead.scheduler.facts.ports import UsedPorts
from fairlead.scheduler.facts.storage_capacity import StorageCapacities
from fairlead.scheduler.facts.volume_uses import VolumeUses
from fairlead.scheduler.facts.volumes import Volumes
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.requirements import PodRequirements, amount_of, is_counted

FIRST_SIZE = 64


class Placed(msgspec.Struct, gc=False):
    """A pod on a node."""

    pod: Pod
    row: int
    requirements: PodRequirements
    relations: PodRelations
    is_assumed: bool = False

    @property
    def key(self) -> str:
        return self.pod.metadata.key

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid


class Snapshot:
    """Columns over nodes; `node_changes` and `pod_changes` are journals of the rows to look at again."""

    def __init__(self) -> None:
        size = FIRST_SIZE
        self.size = size
        self.count = 0
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        #: Rows that are nodes: a row without one is free, or holds pods of a node that is not known (yet).
        self.alive: Mask = np.zeros(size, dtype=np.bool_)
        self.unschedulable: Mask = np.zeros(size, dtype=np.bool_)
        self.taints: Codes[tuple[Taint, ...]] = Codes(size)
        self.allocatable = Amounts(size)
        self.requested = Amounts(size)
        self.nonzero_requested = Amounts(size)
        self.allowed_pods: Ints = np.zeros(size, dtype=np.int64)
        self.pod_count: Ints = np.zeros(size, dtype=np.int64)
        self.images = Images()
        self.ports = UsedPorts()
        self.pod_index = PodIndex(size)
        self.least_priorities = LeastPriorities(size)
        self.owners = Owners()
        self.volumes = Volumes()
        self.volume_uses = VolumeUses()
        self.attach_limits = AttachLimits()
        self.storage_capacities = StorageCapacities()
        self.device_offers = DeviceOffers()
        self.device_claims = DeviceClaims(self.device_offers)
        self.budgets = Budgets()
        self.node_changes = Journal[int]()
        self.pod_changes = Journal[int]()
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._labels: dict[str, Codes[str]] = {}
        #: How many nodes have each label; and the column of a label that no node has.
        self._label_uses: Counter[str] = Counter()
        self._no_label: Codes[str] = Codes(size)
        self._pods: dict[str, Placed] = {}
        self._pods_on: dict[int, dict[str, Placed]] = {}
        self._alive_rows: Rows | None = None

    # --- questions --------------------------------------------------------------------------------------------------

    def rows(self) -> Rows:
        """The rows of all nodes."""
        if self._alive_rows is None:
            self._alive_rows = np.flatnonzero(self.alive)
        return self._alive_rows

    @property
    def position(self) -> tuple[int, int]:
        """How far the journals are: it moves when anything changes."""
        return self.node_changes.position, self.pod_changes.position

    def row_of(self, name: str) -> int | None:
        """The row of a node that exists."""
        row = self._rows.get(name)
        return row if row is not None and self.alive[row] else None

    def labels(self, key: str) -> Codes[str]:
        """The column of a label; made when first asked for. Labels that no node has, as pods may name, share one."""
        column = self._labels.get(key)
        if column is None and not self._label_uses[key]:
            return self._no_label
        if column is None:
            column = self._labels[key] = Codes(self.size)
            for row, node in enumerate(self.nodes):
                if node is not None:
                    column[row] = node.metadata.labels.get(key)
        return column

    def placed(self, key: str) -> Placed | None:
        """The pod of that `namespace/name`, if it is on a node."""
        return self._pods.get(key)

    def pods_on(self, row: int) -> Iterable[Placed]:
        """The pods of one node."""
        return self._pods_on.get(row, {}).values()

    @property
    def pods_placed(self) -> int:
        return len(self._pods)

    @property
    def pods_assumed(self) -> int:
        """Those of them that nobody has confirmed yet."""
        return sum(placed.is_assumed for placed in self._pods.values())

    # --- nodes ------------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """A node appeared or changed."""
        name = node.metadata.name
        row = self._row_for(name)
        if not self.alive[row]:
            self.alive[row] = True
            self.count += 1
            self._alive_rows = None
        known = self.nodes[row]
        self.nodes[row] = node
        self.images.change(row, known, node)
        self.unschedulable[row] = node.spec.unschedulable
        self._set_taints(row, node.taints)
        self.allowed_pods[row] = allowed_pods_of(node)
        self._set_allocatable(row, known, node)
        self._set_labels(row, known.metadata.labels if known is not None else {}, node.metadata.labels)
        self.node_changes.mark(row)
        self.node_changes.trim(self.size)

    def remove_node(self, name: str) -> None:
        """A node is gone; its pods keep the row until they are gone too."""
        row = self.row_of(name)
        if row is None:
            return
        known = self.nodes[row]
        self.images.change(row, known, None)
        self.nodes[row] = None
        self.alive[row] = False
        self.count -= 1
        self._alive_rows = None
        self._set_allocatable(row, known, None)
        self._set_labels(row, known.metadata.labels if known is not None else {}, {})
        self.node_changes.mark(row)
        self._release(row)

    def _set_allocatable(self, row: int, before: Node | None, after: Node | None) -> None:
        if before is not None and after is not None and before.status.allocatable == after.status.allocatable:
            return
        if before is not None:
            self.allocatable.add(row, allocatable_of(before), -1)
        if after is not None:
            self.allocatable.add(row, allocatable_of(after), 1)

    def _set_labels(self, row: int, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        if before == after:
            return
        self._label_uses.update(after.keys())
        self._label_uses.subtract(before.keys())
        for key in (*before, *after):
            if not self._label_uses[key]:
                del self._label_uses[key]
                self._labels.pop(key, None)
            elif (column := self._labels.get(key)) is not None:
                column[row] = after.get(key)
                if column.is_outgrown:
                    del self._labels[key]

    def _set_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Taints tell when they were added: in time there are many that no node has any more."""
        self.taints[row] = taints
        if self.taints.is_outgrown:
            self.taints = Codes(self.size)
            for other, node in enumerate(self.nodes):
                if node is not None:
                    self.taints[other] = node.taints

    def _row_for(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            if self._free:
                row = self._free.pop()
                self.names[row] = name
            else:
                row = len(self.names)
                self.names.append(name)
                self.nodes.append(None)
                if row == self.size:
                    self._grow(2 * self.size)
            self._rows[name] = row
        return row

    def _release(self, row: int) -> None:
        """Let a row be used again that has neither a node nor pods."""
        if not self.alive[row] and not self.pod_count[row]:
            del self._rows[self.names[row]]
            self._free.append(row)

    def _grow(self, size: int) -> None:
        self.size = size
        self.alive = grown(self.alive, size)
        self.unschedulable = grown(self.unschedulable, size)
        self.allowed_pods = grown(self.allowed_pods, size)
        self.pod_count = grown(self.pod_count, size)
        for amounts in (self.allocatable, self.requested, self.nonzero_requested):
            amounts.grow(size)
        self.taints.grow(size)
        self.pod_index.grow(size)
        self.least_priorities.grow(size)
        for column in (*self._labels.values(), self._no_label):
            column.grow(size)

    # --- pods -------------------------------------------------------------------------------------------------------

    def assume(self, placed: Placed) -> None:
        """A decision was made; the server does not know yet."""
        placed.is_assumed = True
        self._count_in(placed)

    def forget(self, key: str, uid: str) -> bool:
        """The decision came to nothing. False if the pod is no longer assumed."""
        placed = self._pods.get(key)
        if placed is None or placed.uid != uid or not placed.is_assumed:
            return False
        self._count_out(key)
        return True

    def place(self, pod: Pod, requirements: PodRequirements, relations: PodRelations) -> None:
        """The server says that the pod is on its node."""
        key, name = pod.metadata.key, pod.spec.node_name
        row = self._row_for(name)
        known = self._pods.get(key)
        if known is not None:
            is_same = known.uid == pod.metadata.uid and known.row == row and known.pod.priority == pod.priority
            if is_same and known.requirements is requirements and known.relations is relations:
                known.is_assumed, known.pod = False, pod
                if requirements.host_ports and self.ports.take(
                    row, requirements.host_ports
                ):  # another pod had taken them along
                    self._mark(row)
                return
            self._count_out(key)
            row = self._row_for(name)
        self._count_in(Placed(pod, row, requirements, relations))

    def remove(self, key: str) -> None:
        """The server says that the pod is gone or has finished."""
        if key in self._pods:
            self._count_out(key)

    @contextmanager
    def assuming(self, *, without: Iterable[Placed] = (), beside: Iterable[Placed] = ()) -> Iterator[None]:
        """As it would be without these pods and with those; not noted in the journals, for it is undone afterwards."""
        changes = [(placed, -1) for placed in without] + [(placed, 1) for placed in beside]
        done = [(placed, sign, self.try_out(placed, sign)) for placed, sign in changes]
        try:
            yield
        finally:
            for change in reversed(done):
                self.take_back(*change)

    def try_out(self, placed: Placed, sign: int) -> Sequence[HostPort]:
        """As if the pod had come (1) or gone (-1), until it is taken back with the host ports that this returns."""
        return self._count(placed, sign, placed.requirements.host_ports)

    def take_back(self, placed: Placed, sign: int, ports: Sequence[HostPort]) -> None:
        """The last that was tried out first."""
        self._count(placed, -sign, ports)

    def with_nominated(self, requested: Amounts, pod_count: Ints) -> Snapshot:
        """A view of the same cluster in which that much more is requested on each row."""
        view = copy(self)
        view.requested = self.requested.plus(requested)
        view.pod_count = self.pod_count + pod_count
        return view

    def _count_in(self, placed: Placed) -> None:
        self._pods[placed.key] = placed
        self._pods_on.setdefault(placed.row, {})[placed.key] = placed
        self.least_priorities.add(placed.row, placed.pod.priority)
        self._count(placed, 1, placed.requirements.host_ports)
        self._mark(placed.row)

    def _count_out(self, key: str) -> None:
        placed = self._pods.pop(key)
        del self._pods_on[placed.row][key]
        self.least_priorities.remove(placed.row, placed.pod.priority)
        self._count(placed, -1, placed.requirements.host_ports)
        self._mark(placed.row)
        self._release(placed.row)

    def _mark(self, row: int) -> None:
        self.pod_changes.mark(row)
        self.pod_changes.trim(self.size)

    def _count(self, placed: Placed, sign: int, ports: Sequence[HostPort]) -> Sequence[HostPort]:
        """A pod came (1) or went (-1), with these of its host ports. Returns those that this has changed."""
        row, requirements = placed.row, placed.requirements
        self.requested.add(row, requirements.requests, sign)
        self.nonzero_requested.add(row, requirements.nonzero_requests, sign)
        self.pod_count[row] += sign
        self.pod_index.count(row, placed.relations, sign)
        if requirements.claims or requirements.disks:
            self.volume_uses.count(row, requirements.claims, requirements.disks, sign)
        if not ports:
            return ports
        return self.ports.take(row, ports) if sign > 0 else self.ports.release(row, ports)


def allocatable_of(node: Node) -> dict[str, int]:
    """What a node offers to pods, in the units of the scheduler."""
    return {name: amount_of(name, parse(text)) for name, text in node.status.allocatable.items() if is_counted(name)}


def allowed_pods_of(node: Node) -> int:
    return parse(node.status.allocatable.get("pods", "0")).units
