"""Every kind of step, by the word that a file writes for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.study.changes import node_actions
from fairlead.study.changes.actions import Action, Apply, Delete, KubeletSetting, Patch, Scale, Set
from fairlead.study.changes.pools import NodePool

ACTIONS: Final[Mapping[str, type[Action]]] = {
    "apply": Apply,
    "patch": Patch,
    "delete": Delete,
    "scale": Scale,
    "set": Set,
    "kubelet": KubeletSetting,
    "cordon": node_actions.Cordon,
    "uncordon": node_actions.Uncordon,
    "drain": node_actions.Drain,
    "failNode": node_actions.FailNode,
    "shutDownNode": node_actions.ShutDownNode,
    "outOfService": node_actions.OutOfService,
    "recoverNode": node_actions.RecoverNode,
    "removeNode": node_actions.RemoveNode,
    "addNodes": node_actions.AddNodes,
    "upgrade": node_actions.Upgrade,
    "pool": NodePool,
}
