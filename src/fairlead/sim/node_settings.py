"""Which configuration the kubelet of a simulated node runs with, and what the node then has to give.

The node's own annotation counts before a configuration for a group of nodes, and that before the one for all. Nodes
share what is worked out for them: thousands of them have a handful of configurations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.podresources import parsed
from fairlead.api.quantity import Quantity
from fairlead.api.selectors import Selector
from fairlead.caches import LruCache
from fairlead.golang import yaml as goyaml
from fairlead.node.allocatable import EPHEMERAL_STORAGE, Machine, allocatable, capacity, over_reserved, reserved
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.load import Configured, configure
from fairlead.node.cpus.policy import StaticPolicy, cpu_policy
from fairlead.node.cpus.topology import Shape
from fairlead.node.declared_features import declared_features
from fairlead.node.numa_hints import HintPolicy, hint_policy
from fairlead.node.plan import NodePlan, node_plan
from fairlead.node.startup import StartSettings, start_settings
from fairlead.sim.behaviour import PREFIX
from fairlead.sim.machine.hardware import CGROUP_VERSION, hardware_of, machine_of
from fairlead.sim.nodes import ALLOCATABLE, COMPUTED, NodeShape

#: A KubeletConfiguration in YAML or JSON: all that the kubelet of this node is told, whatever others are.
KUBELET_CONFIG: Final = PREFIX + "kubelet-config"
#: Cgroups that the machine lacks, with commas: `/sysd`. All others that a configuration names are there.
MISSING_CGROUPS: Final = PREFIX + "missing-cgroups"

#: Of which resource a threshold at which pods are evicted at once keeps a part back.
_OF_SIGNAL: Final = {"memory.available": "memory", "nodefs.available": EPHEMERAL_STORAGE}
#: Of which resource other fields speak.
_OF_FIELD: Final = {"maxPods": "pods", "podsPerCore": "pods", "reservedSystemCPUs": "cpu"}
_LONGEST_DOCUMENT: Final = 64 << 10
_REMEMBERED: Final = 256
_NO_SWAP: Final = "memorySwap.swapBehavior LimitedSwap does nothing: simulated machines have no swap"
#: On so many no list of CPUs is too long.
_MOST_CPUS: Final = 1 << 20


class NodeSettings(msgspec.Struct, frozen=True):
    """What the kubelet of a node runs with."""

    configured: Configured
    #: Reservations, thresholds and percentages, read.
    started: StartSettings
    #: Who has CPUs to itself; None: no container has.
    cpus: StaticPolicy | None = None
    #: Where these have to be.
    hints: HintPolicy = HintPolicy()


def _cpus(configured: Configured, started: StartSettings, machine: Machine) -> tuple[StaticPolicy | None, HintPolicy]:
    count, config = machine.cpus, configured.configuration
    kept = reserved({"cpu": Quantity.of_units(count)}, started.reservations, ()).get("cpu")
    try:
        cpus = cpu_policy(config, configured.gates, lambda: machine.shape.topology(count), kept)
        return cpus, hint_policy(config, machine.shape.numa)
    except ValueError as problem:
        raise StartupError(Stage.START, str(problem)) from None


class NodeResources(NamedTuple):
    """As a node's status has them."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]


class NodeGroup(msgspec.Struct, frozen=True, eq=False):
    """Nodes that share a configuration file."""

    document: Obj
    path: str
    #: None: all nodes that belong to no other group.
    selector: Selector | None = None


class ConfigurationKey(NamedTuple):
    """Nodes with the same key run with the same configuration."""

    group: NodeGroup | None
    document: str | None
    cgroup_version: str = ""


class NodeConfigurations:
    """Chooses the configuration of each node. Flags win over files, as in a kubelet, and not over annotations."""

    def __init__(self, groups: Sequence[NodeGroup] = (), flags: Sequence[str] = ()) -> None:
        self._groups = sorted(groups, key=lambda group: group.selector is None)
        self._flags = tuple(flags)
        self._configured: LruCache[ConfigurationKey, Configured] = LruCache(_REMEMBERED)
        #: By the CPUs of the machine, too.
        self._settings: LruCache[tuple[ConfigurationKey, int, Shape], NodeSettings] = LruCache(_REMEMBERED)
        self._resources: LruCache[tuple[ConfigurationKey, tuple[tuple[str, str], ...]], NodeResources] = LruCache(
            _REMEMBERED
        )

    def check(self, nodes: Sequence[Obj]) -> list[str]:
        """StartupError if the kubelet of any node would not start; returns what was said and does nothing."""
        warnings: dict[str, None] = {}
        every: Sequence[NodeGroup | None] = self._groups or [None]
        for group in every:
            configured = self.configured(ConfigurationKey(group, None))
            start_settings(configured.configuration, _MOST_CPUS)
            warnings.update(dict.fromkeys(configured.warnings))
        for node in nodes:
            self.completed(node)
        return list(warnings)

    def key(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> ConfigurationKey:
        document, cgroup_version = annotations.get(KUBELET_CONFIG), annotations.get(CGROUP_VERSION, "")
        if document is not None:
            return ConfigurationKey(None, document, cgroup_version)
        fitting = (group for group in self._groups if group.selector is None or group.selector.matches(labels))
        return ConfigurationKey(next(fitting, None), None, cgroup_version)

    def is_stated(self, key: ConfigurationKey) -> bool:
        """Whether anybody said anything of the configuration."""
        return key != ConfigurationKey(None, None) or bool(self._flags)

    def configured(self, key: ConfigurationKey) -> Configured:
        """StartupError for what a kubelet refuses."""
        found = self._configured.get(key)
        if found is None:
            found = self._configure(key)
            self._configured.put(key, found)
        return found

    def settings(self, key: ConfigurationKey, node: Node) -> NodeSettings:
        """StartupError for a configuration with which the kubelet of the node does not start."""
        machine = hardware_of(node).machine
        entry = (key, machine.cpus, machine.shape)
        found = self._settings.get(entry)
        if found is None:
            configured = self.configured(key)
            started = start_settings(configured.configuration, machine.cpus)
            found = NodeSettings(configured, started, *_cpus(configured, started, machine))
            self._settings.put(entry, found)
        return found

    def plan(self, key: ConfigurationKey, node: Node, pods_memory_bytes: int = 0) -> NodePlan:
        """What the kubelet does when it starts, with pods that use so much; StartupError if that ends it at once."""
        missing = tuple(map(str.strip, node.metadata.annotations.get(MISSING_CGROUPS, "").split(",")))
        return node_plan(self.configured(key), hardware_of(node).machine, missing, pods_memory_bytes)

    def completed(self, manifest: Obj) -> Obj:
        """The manifest with what its kubelet publishes; StartupError where that would not start."""
        completed = self._with_allocatable(manifest)
        meta, status = completed.get("metadata") or {}, completed.get("status") or {}
        configured = self.configured(self.key(meta.get("labels") or {}, meta.get("annotations") or {}))
        return {**completed, "status": {**status, "declaredFeatures": declared_features(configured)}}

    def _with_allocatable(self, manifest: Obj) -> Obj:
        """The manifest with what its kubelet makes of its capacity, unless it states what the node may give away.

        A node that comes with a configuration of its own and gives away all that it has (what an API server fills in)
        states nothing.
        """
        meta, status = manifest.get("metadata") or {}, manifest.get("status") or {}
        annotations, stated = meta.get("annotations") or {}, status.get("capacity") or {}
        states_nothing = (status.get("allocatable") or stated) == (stated if KUBELET_CONFIG in annotations else {})
        if annotations.get(ALLOCATABLE) != COMPUTED and not states_nothing:
            return manifest
        key = self.key(meta.get("labels") or {}, annotations)
        resources = self._published(key, NodeShape().amounts() | stated)
        return {
            **manifest,
            "metadata": {**meta, "annotations": {**annotations, ALLOCATABLE: COMPUTED}},
            "status": {**status, "capacity": dict(resources.capacity), "allocatable": dict(resources.allocatable)},
        }

    def _published(self, key: ConfigurationKey, stated: Mapping[str, str]) -> NodeResources:
        entry = (key, tuple(sorted(stated.items())))
        found = self._resources.get(entry)
        if found is None:
            found = published(self.configured(key), stated)
            self._resources.put(entry, found)
        return found

    def _configure(self, key: ConfigurationKey) -> Configured:
        version = key.cgroup_version or "2"
        if version not in ("1", "2"):
            raise StartupError(Stage.START, f"{CGROUP_VERSION}: {version!r} is neither 1 nor 2")
        if key.document is not None:
            configured = configure(_document(key.document), cgroup_version=int(version), path=KUBELET_CONFIG)
        else:
            document, path = (key.group.document, key.group.path) if key.group else ({}, "")
            configured = configure(document, self._flags, cgroup_version=int(version), path=path)
        if configured.configuration.swap_behavior != "LimitedSwap":
            return configured
        return replace(configured, warnings=(*configured.warnings, _NO_SWAP))


def published(configured: Configured, stated: Mapping[str, str]) -> NodeResources:
    """What a node of that capacity shows. How many pods it takes is the kubelet's to say, not the machine's."""
    config = configured.configuration
    machine = machine_of(stated, {})
    of_machine = capacity(machine, config)
    total = dict(parsed(stated)) | {"pods": of_machine["pods"]}
    if EPHEMERAL_STORAGE not in of_machine:
        del total[EPHEMERAL_STORAGE]
    started = start_settings(config, machine.cpus)
    taken = reserved(total, started.reservations, started.hard_thresholds)
    if problem := over_reserved(total, taken):
        raise StartupError(Stage.START, f"invalid Node Allocatable configuration. {problem}")
    left = allocatable(total, taken)
    return NodeResources(
        {name: str(amount) for name, amount in total.items()}, {name: str(amount) for name, amount in left.items()}
    )


def restated(manifest: Obj, document: str) -> NodeResources:
    """What a node that states what it may give away does once its kubelet is told that document: of what the document
    speaks, what its kubelet makes of the capacity; of the rest, what it states. StartupError if that does not start.
    """
    status, annotations = manifest["status"], (manifest.get("metadata") or {}).get("annotations") or {}
    key = ConfigurationKey(None, document, annotations.get(CGROUP_VERSION, ""))
    total = NodeShape().amounts() | (status.get("capacity") or {})
    made = published(NodeConfigurations().configured(key), total)
    spoken = _resources_of(_document(document))
    capacity_ = total | {name: made.capacity[name] for name in spoken & {"pods"}}
    changed = {name: made.allocatable[name] for name in sorted(spoken & made.allocatable.keys())}
    return NodeResources(capacity_, capacity_ | (status.get("allocatable") or {}) | changed)


def _resources_of(document: Obj) -> set[str]:
    """The resources of which a KubeletConfiguration says how much pods may have."""
    found = {str(name) for field in ("kubeReserved", "systemReserved") for name in document.get(field) or ()}
    found |= {_OF_SIGNAL[name] for name in document.get("evictionHard") or () if name in _OF_SIGNAL}
    found |= {resource for field, resource in _OF_FIELD.items() if field in document}
    return found


def _document(text: str) -> Obj:
    if len(text) > _LONGEST_DOCUMENT:
        raise StartupError(Stage.FILE, f"{KUBELET_CONFIG}: longer than {_LONGEST_DOCUMENT >> 10} KiB")
    try:
        document = next(goyaml.strict_documents(text.encode()), None)
    except ValueError as problem:
        raise StartupError(Stage.FILE, f"{KUBELET_CONFIG}: {problem}") from None
    if not isinstance(document, dict):
        raise StartupError(Stage.FILE, f"{KUBELET_CONFIG}: not a KubeletConfiguration")
    return document
