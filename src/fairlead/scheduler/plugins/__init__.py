"""The plugins of the default scheduler, in the order in which they are asked, with their weights (getDefaultPlugins).

A new plugin of ours is a module of its own and a row here; one of yours is an entry point of the group
`fairlead.scheduler.plugins` (docs/scheduler-plugins.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.framework import AnyPlugin
from fairlead.scheduler.gangs import Coscheduling
from fairlead.scheduler.plugins.default_binder import DefaultBinder
from fairlead.scheduler.plugins.default_preemption import DefaultPreemption
from fairlead.scheduler.plugins.dynamic_resources import DynamicResources
from fairlead.scheduler.plugins.gates import SchedulingGates
from fairlead.scheduler.plugins.images import ImageLocality
from fairlead.scheduler.plugins.node.affinity import NodeAffinity
from fairlead.scheduler.plugins.node.declared_features import NodeDeclaredFeatures
from fairlead.scheduler.plugins.node.ports import NodePorts
from fairlead.scheduler.plugins.node.taints import TaintToleration
from fairlead.scheduler.plugins.node.unschedulable import NodeUnschedulable
from fairlead.scheduler.plugins.node.volume_limits import NodeVolumeLimits
from fairlead.scheduler.plugins.node.volume_restrictions import VolumeRestrictions
from fairlead.scheduler.plugins.node.volume_zone import VolumeZone
from fairlead.scheduler.plugins.node.volumes import VolumeBinding
from fairlead.scheduler.plugins.pod_relations.inter_pod_affinity import InterPodAffinity
from fairlead.scheduler.plugins.pod_relations.topology_spread import PodTopologySpread
from fairlead.scheduler.plugins.resources.balanced import NodeResourcesBalancedAllocation
from fairlead.scheduler.plugins.resources.fit import NodeResourcesFit

ENTRY_POINTS: Final = "fairlead.scheduler.plugins"

BUILT_IN: Final[tuple[type[AnyPlugin], ...]] = (
    SchedulingGates,
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
)
#: Plugins of ours that no profile has unless it asks for them.
OPTIONAL: Final[tuple[type[AnyPlugin], ...]] = (Coscheduling,)
#: What a configuration may name that is no class of ours: the queue's order is a part of the scheduler itself, a pod
#: with a node name never comes here, and the rest waits for what it is about.
NAMES_ALONE: Final[Mapping[str, type[Arguments]]] = {
    "PrioritySort": Arguments,
    "NodeName": Arguments,
    "GangScheduling": Arguments,
}
#: The default profile, with the weights that are not 1.
DEFAULT_ORDER: Final[Mapping[str, int]] = {
    **dict.fromkeys(NAMES_ALONE, 1),
    **{plugin.name: 1 for plugin in BUILT_IN},
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
}


_BY_NAME: Final[Mapping[str, type[AnyPlugin]]] = {plugin.name: plugin for plugin in (*BUILT_IN, *OPTIONAL)}


def find(name: str) -> type[AnyPlugin] | None:
    """The plugin of that name: one of ours, or one that an installed package brings. None if there is none."""
    found = _BY_NAME.get(name)
    return found if found is not None or name in NAMES_ALONE else _installed().get(name)


@cache
def _installed() -> Mapping[str, type[AnyPlugin]]:
    return {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
