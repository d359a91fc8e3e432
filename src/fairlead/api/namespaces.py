"""Namespaces as components see them."""

from __future__ import annotations

from fairlead.api.meta import Condition, Object, View


class NamespaceSpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Condition, frozen=True, rename="camel", gc=False, kw_only=True, omit_defaults=True):
    """Says why a namespace is still there."""


class NamespaceStatus(View, frozen=True, rename="camel", gc=False, kw_only=True, omit_defaults=True):
    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
