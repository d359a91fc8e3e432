"""What a node says that it can do, so that the API server lets pods on it ask for it (KEP-5328).

Without them every resize of a pod's own resources is refused, whatever the node could do.
Source: k8s.io/component-helpers/nodedeclaredfeatures.
"""

from __future__ import annotations

from typing import Final

from fairlead.node.configuration.feature_gates import (
    EXCLUSIVE_CPUS_RESIZE,
    NODE_DECLARED_FEATURES,
    POD_LEVEL_RESIZE,
)
from fairlead.node.configuration.load import Configured

GUARANTEED_CPU_RESIZE: Final = "GuaranteedQoSPodCPUResize"


def declared_features(configured: Configured) -> list[str]:
    """In their order by name, of those that are done here."""
    gates, policy = configured.gates, configured.configuration.cpu_manager_policy
    if not gates.enabled(NODE_DECLARED_FEATURES):
        return []
    found = []
    if policy == "none" or (policy == "static" and gates.enabled(EXCLUSIVE_CPUS_RESIZE)):
        found.append(GUARANTEED_CPU_RESIZE)
    if gates.enabled(POD_LEVEL_RESIZE):
        found.append(POD_LEVEL_RESIZE)
    return found
