"""What a node says that it can do, so that the API server lets pods on it ask for it (KEP-5328).

Without them every resize of a pod's own resources is refused, whatever the node could do, and no pod is placed there
whose containers may make all others run anew.
Source: k8s.io/component-helpers/nodedeclaredfeatures.
"""

from __future__ import annotations

from typing import Final

from fairlead.node.configuration.feature_gates import (
    INIT_CONTAINER_RESIZE,
    NODE_DECLARED_FEATURES,
    POD_LEVEL_RESIZE,
    RESTART_ALL_CONTAINERS,
)
from fairlead.node.configuration.load import Configured

#: Each has the name of the gate that turns it on.
_DONE_HERE: Final = (POD_LEVEL_RESIZE, INIT_CONTAINER_RESIZE, RESTART_ALL_CONTAINERS)


def declared_features(configured: Configured) -> list[str]:
    """In their order by name, of those that are done here."""
    if not configured.gates.enabled(NODE_DECLARED_FEATURES):
        return []
    return [feature for feature in _DONE_HERE if configured.gates.enabled(feature)]
