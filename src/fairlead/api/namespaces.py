"""Namespaces as components see them."""

from __future__ import annotations

from fairlead.api.meta import Condition, Object, View, WrittenView


class NamespaceSpec(View):
    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Condition, omit_defaults=True):
    """Says why a namespace is still there."""


class NamespaceStatus(WrittenView):
    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(Object):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
