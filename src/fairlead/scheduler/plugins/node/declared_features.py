"""A pod that needs something of its node that not all kubelets can do goes to nodes that declare it (KEP-5328).

Which features those are is told by its specification alone. Source: plugins/nodedeclaredfeatures.
"""

from __future__ import annotations

import numpy as np

from fairlead.api.scheduling import Node
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import EventKind, Plugin
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot


class NodeDeclaredFeatures(Plugin):
    name = "NodeDeclaredFeatures"
    reason = "node(s) didn't match Pod's required features"
    events = EventKind.NODE_ADDED | EventKind.NODE_FEATURES

    def filters(self, requirements: PodRequirements) -> bool:
        return bool(requirements.features)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        found = (_declares(snapshot.nodes[row], requirements) for row in rows.tolist())
        return np.fromiter(found, np.bool_, len(rows))


def _declares(node: Node | None, requirements: PodRequirements) -> bool:
    return node is not None and requirements.features.issubset(node.status.declared_features or ())
