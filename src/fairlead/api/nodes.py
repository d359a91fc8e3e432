"""Nodes as controllers see them: what decides whether pods may be there, and what the node says of itself."""

from __future__ import annotations

from fairlead.api.meta import Condition, Object, View


class Taint(View, frozen=True, rename="camel", gc=False, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(View, frozen=True, rename="camel", gc=False, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class Node(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
