"""Roles and bindings, as authorization sees them, and the controller that adds roles up."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Object, View

GROUP: Final = "rbac.authorization.k8s.io"
ROLE, CLUSTER_ROLE = "Role", "ClusterRole"
USER, GROUP_SUBJECT, SERVICE_ACCOUNT = "User", "Group", "ServiceAccount"


class AggregationRule(View):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class ClusterRole(Object):
    aggregation_rule: AggregationRule | None = None
    rules: msgspec.Raw = msgspec.Raw(b"null")


_RENAMED: Final = {"api_groups": "apiGroups", "resource_names": "resourceNames", "urls": "nonResourceURLs"}


class PolicyRule(View, rename=_RENAMED):
    """What may be done: verbs on resources of groups, or on paths."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    resource_names: tuple[str, ...] | None = None
    urls: tuple[str, ...] | None = None


class Role(Object):
    """A Role or a ClusterRole."""

    rules: tuple[PolicyRule, ...] | None = None


class Subject(View):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleReference(View):
    kind: str = ""
    name: str = ""


class Binding(Object):
    """A RoleBinding or a ClusterRoleBinding."""

    role_ref: RoleReference = RoleReference()
    subjects: tuple[Subject, ...] | None = None
