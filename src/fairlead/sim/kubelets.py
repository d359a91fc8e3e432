"""The kubelets of simulated nodes start, and start again when their configuration changes.

One that does not start says why in an event of its node and changes nothing: the node stays as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.node.allocatable import extended_changes
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.load import Configured, configure
from fairlead.node.plan import NodeEvent
from fairlead.node.startup import start_settings
from fairlead.sim.machine.hardware import CPU_TOPOLOGY, hardware_of
from fairlead.sim.node_settings import MISSING_CGROUPS, ConfigurationKey, NodeConfigurations, NodeSettings

STARTING: Final = NodeEvent(NORMAL, "Starting", "Starting kubelet.")
#: A kubelet says this in its log alone.
NOT_STARTED: Final = "KubeletNotStarted"

log = logging.getLogger(__name__)
_EMPTY: Final = configure({})
_DEFAULT: Final = NodeSettings(_EMPTY, start_settings(_EMPTY.configuration, 1))


class Kubelets:
    """What each node runs with; `record` is told of the events of a node."""

    def __init__(
        self,
        configurations: NodeConfigurations,
        record: Callable[[Node, NodeEvent], None],
        pods_memory_bytes: Callable[[str], int] = lambda node: 0,
    ) -> None:
        """`pods_memory_bytes`: what the pods of a node use."""
        self._configurations, self._record, self._pods_memory_bytes = configurations, record, pods_memory_bytes
        self._keys: dict[str, tuple[ConfigurationKey, str, str]] = {}  # by node: what it was last started with
        self._settings: dict[str, NodeSettings] = {}  # by node
        self._extended: dict[str, set[str]] = {}  # by node: resources that others have put into its capacity since

    def completed(self, manifest: Obj) -> Obj:
        """With what the kubelet makes of its capacity, where that is its to say; as it is if it does not start."""
        try:
            completed = self._configurations.completed(manifest)
        except StartupError:
            completed = manifest
        names = self._extended.get(completed["metadata"]["name"])
        if not names:
            return completed
        status = completed["status"]
        extended = {name: status["capacity"].get(name) for name in names}
        return {**completed, "status": {**status, "allocatable": {**status["allocatable"], **extended}}}

    def settings(self, name: str) -> NodeSettings:
        """What the node runs with: that of before, if its last change was refused."""
        return self._settings.get(name, _DEFAULT)

    def configured(self, node: Node) -> Configured:
        return self.settings(node.metadata.name).configured

    def put_node(self, node: Node, before: Node | None) -> bool:
        """A node has come, or has changed; returns whether its kubelet has something new to say of it."""
        return self._follow_capacity(node, before) | self._start_again(node)

    def _follow_capacity(self, node: Node, before: Node | None) -> bool:
        """Whether others have set amounts of extended resources.

        What a node came with stays as it is: in a dump a device plugin may have said that some devices are broken.
        """
        capacity, allocatable = node.status.capacity, node.status.allocatable
        former = capacity if before is None else before.status.capacity
        changed = {
            name
            for name, amount in extended_changes(capacity, allocatable).items()
            if name not in allocatable or former.get(name) != amount
        }
        if changed:
            self._extended.setdefault(node.metadata.name, set()).update(changed)
        return bool(changed)

    def _start_again(self, node: Node) -> bool:
        """Whether its kubelet starts again, with something new."""
        name, annotations = node.metadata.name, node.metadata.annotations
        key = self._configurations.key(node.metadata.labels, annotations)
        started_with = (key, annotations.get(MISSING_CGROUPS, ""), annotations.get(CPU_TOPOLOGY, ""))
        if self._keys.get(name) == started_with:
            self._check_cpus(node)
            return False
        is_first = name not in self._keys
        self._keys[name] = started_with
        try:
            self._start(key, node)
        except StartupError as refusal:
            self._tell(node, refusal)
            if is_first:
                self._start_without(node)
            else:
                self._check_cpus(node)
            return False
        return not is_first

    def forget(self, name: str) -> None:
        self._keys.pop(name, None)
        self._settings.pop(name, None)
        self._extended.pop(name, None)

    def _start(self, key: ConfigurationKey, node: Node) -> None:
        settings = self._configurations.settings(key, node)
        if self._configurations.is_stated(key):
            plan = self._configurations.plan(key, node, self._pods_memory_bytes(node.metadata.name))
            for event in (STARTING, *plan.events):
                self._record(node, event)
            if plan.problem:
                raise StartupError(Stage.ENFORCEMENT, plan.problem)
        if key.document is not None:  # whoever configured all nodes was warned once
            for warning in settings.configured.warnings:
                log.warning("node %s: %s", node.metadata.name, warning)
        self._settings[node.metadata.name] = settings

    def _check_cpus(self, node: Node) -> None:
        """A machine may lose CPUs that its kubelet reserves: that runs without its own configuration then."""
        config = self.settings(node.metadata.name).configured.configuration
        if not config.reserved_system_cpus:
            return
        try:
            start_settings(config, hardware_of(node).machine.cpus)
        except StartupError as refusal:
            self._tell(node, refusal)
            self._start_without(node)

    def _tell(self, node: Node, refusal: StartupError) -> None:
        message = f"{refusal}; {refusal.hint}" if refusal.hint else str(refusal)
        log.warning("node %s: its kubelet does not start: %s", node.metadata.name, message)
        if refusal.stage is not Stage.ENFORCEMENT:  # which has an event of its own
            self._record(node, NodeEvent(WARNING, NOT_STARTED, message))

    def _start_without(self, node: Node) -> None:
        """A new node whose own configuration is refused runs with that of its group."""
        key = self._configurations.key(node.metadata.labels, {})
        try:
            self._settings[node.metadata.name] = self._configurations.settings(key, node)
        except StartupError:
            self._settings[node.metadata.name] = _DEFAULT
