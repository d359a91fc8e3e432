"""The plugins of the default scheduler, in the order in which they are asked, with their weights (getDefaultPlugins).

A new plugin is a module of its own and a row here.
"""

from __future__ import annotations

from fairlead.scheduler.framework import Profile, Weighted
from fairlead.scheduler.plugins.gates import SchedulingGates
from fairlead.scheduler.plugins.images import ImageLocality
from fairlead.scheduler.plugins.node.affinity import NodeAffinity
from fairlead.scheduler.plugins.node.ports import NodePorts
from fairlead.scheduler.plugins.node.taints import TaintToleration
from fairlead.scheduler.plugins.node.unschedulable import NodeUnschedulable
from fairlead.scheduler.plugins.resources.balanced import NodeResourcesBalancedAllocation
from fairlead.scheduler.plugins.resources.fit import NodeResourcesFit

DEFAULT_PROFILE = Profile(
    (
        Weighted(SchedulingGates()),
        Weighted(NodeUnschedulable()),
        Weighted(TaintToleration(), weight=3),
        Weighted(NodeAffinity(), weight=2),
        Weighted(NodePorts()),
        Weighted(NodeResourcesFit()),
        Weighted(NodeResourcesBalancedAllocation()),
        Weighted(ImageLocality()),
    )
)
