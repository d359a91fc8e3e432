"""The decision about requests of nodes.

Some kinds it decides about object by object: what a node needs for its pods, and what is its own. For everything else
the rules of the cluster role system:node hold, which is bound to nobody.

A node must say that it wants its own pods or its own node where it lists or watches these (AuthorizeNodeWithSelectors).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from fairlead.api import field_selectors
from fairlead.api.nodes import LEASE_NAMESPACE
from fairlead.api.roles import PolicyRule
from fairlead.api.selectors import SelectorError
from fairlead.api.users import User, node_identity
from fairlead.golang.quoting import go_quote
from fairlead.server.access import NO_OPINION, AccessRequest, Decision, UserRules, Verdict
from fairlead.server.auth.authorizer import LocalAuthorizer
from fairlead.server.auth.node.graph import Needed, NodeGraph
from fairlead.server.auth.rbac.defaults import default_policy
from fairlead.server.auth.rbac.rules import CompiledRule, resource_keys

_Observer = Callable[[str, str, bytes | None], None]
_Check = Callable[[str, AccessRequest], Verdict]

_ALLOW: Final = Verdict(Decision.ALLOW)
_ROLE: Final = "system:node"
_READ: Final = frozenset(("get", "list", "watch"))
_CHANGE: Final = frozenset(("update", "patch"))
_OWN_OBJECT: Final = frozenset(("get", "create", "update", "patch", "delete"))
_SELECTED: Final = frozenset(("watch", "list", "deletecollection"))
_NO_RULES: Final = UserRules(is_complete=False, error="node authorizer does not support user rule resolution")


class NodeAuthorizer(LocalAuthorizer):
    """Allows nodes, the members of system:nodes, what their pods and their own objects take."""

    def __init__(self) -> None:
        self.graph: Final = NodeGraph()
        self._rules = _rules_of(_ROLE)
        self._checks: dict[tuple[str, str], _Check] = {
            ("", "secrets"): self._check_content,
            ("", "configmaps"): self._check_content,
            ("", "persistentvolumeclaims"): self._check_claim,
            ("", "persistentvolumes"): self._check_volume,
            ("", "serviceaccounts"): self._check_account,
            ("", "nodes"): _check_node,
            ("", "pods"): self._check_pod,
            ("resource.k8s.io", "resourceclaims"): self._check_resource_claim,
            ("resource.k8s.io", "resourceslices"): self._check_slice,
            ("storage.k8s.io", "volumeattachments"): self._check_attachment,
            ("storage.k8s.io", "csinodes"): _check_csi_node,
            ("coordination.k8s.io", "leases"): _check_lease,
        }

    @property
    def observers(self) -> dict[str, _Observer]:
        """Who is to hear of changes of which kind."""
        graph = self.graph
        return {
            "pods": graph.observe_pod,
            "persistentvolumes": graph.observe_volume,
            "volumeattachments.storage.k8s.io": graph.observe_attachment,
            "resourceslices.resource.k8s.io": graph.observe_slice,
        }

    def decide(self, request: AccessRequest) -> Verdict:
        node = node_identity(request.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _silent(f"unknown node for user {go_quote(request.user.name)}")
        if not request.is_resource_request:
            return NO_OPINION
        if (check := self._checks.get((request.group, request.resource))) is not None:
            return check(node, request)
        keys = resource_keys(request.resource, request.subresource)
        rules = (rule for key in keys for rule in self._rules.get(key, ()))
        return _ALLOW if any(rule.allows_resource(request) for rule in rules) else NO_OPINION

    def rules_for(self, user: User, namespace: str) -> UserRules:
        return UserRules() if node_identity(user) is None else _NO_RULES

    def _check_content(self, node: str, request: AccessRequest) -> Verdict:
        """ConfigMaps and Secrets: one at a time, also to list and watch."""
        if request.verb not in _READ:
            return _silent("can only read resources of this type")
        if request.subresource:
            return _silent("cannot read subresource")
        if not request.namespace:
            return _silent("can only read namespaced object of this type")
        return self._check_needed(node, request, Needed(request.resource))

    def _check_claim(self, node: str, request: AccessRequest) -> Verdict:
        if request.subresource == "status":
            if request.verb not in _CHANGE:
                return _silent("can only get/update/patch this type")
        elif (refusal := _unless_get(request)) is not None:
            return refusal
        return self._check_needed(node, request, Needed.CLAIM)

    def _check_resource_claim(self, node: str, request: AccessRequest) -> Verdict:
        return _unless_get(request) or self._check_needed(node, request, Needed.RESOURCE_CLAIM)

    def _check_needed(self, node: str, request: AccessRequest, kind: Needed) -> Verdict:
        is_related = self.graph.needs(node, kind, request.namespace, request.name)
        return _if_related(node, request, is_related=is_related)

    def _check_volume(self, node: str, request: AccessRequest) -> Verdict:
        is_related = self.graph.needs_volume(node, request.name)
        return _unless_get(request) or _if_related(node, request, is_related=is_related)

    def _check_attachment(self, node: str, request: AccessRequest) -> Verdict:
        is_related = self.graph.has_attachment(node, request.name)
        return _unless_get(request) or _if_related(node, request, is_related=is_related)

    def _check_account(self, node: str, request: AccessRequest) -> Verdict:
        """Tokens for the accounts of its pods."""
        if request.verb != "create" or not request.name:
            return _silent("can only create tokens for individual service accounts")
        if request.subresource != "token":
            return _silent("can only create token subresource of serviceaccount")
        return self._check_needed(node, request, Needed.ACCOUNT)

    def _check_slice(self, node: str, request: AccessRequest) -> Verdict:
        """Its own; which one it creates, admission knows."""
        if request.subresource:
            return _silent("cannot authorize ResourceSlice subresources")
        if request.verb == "create":
            return _ALLOW
        if request.verb in _OWN_OBJECT:
            return _if_related(node, request, is_related=self.graph.has_slice(node, request.name))
        if request.verb not in _SELECTED:
            text = "only the following verbs are allowed for a ResourceSlice: "
            return _silent(f"{text}get, watch, list, create, update, patch, delete, deletecollection")
        if _selects(request, node):
            return _ALLOW
        return _silent("can only list/watch/deletecollection resourceslices with nodeName field selector")

    def _check_pod(self, node: str, request: AccessRequest) -> Verdict:
        """Those on the node; which ones it writes, admission knows."""
        match request.subresource, request.verb:
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOW
            case "", "get":
                return self._if_on_node(node, request)
            case "", "list" | "watch":
                if _selects(request, node):
                    return _ALLOW
                if request.name:
                    return self._if_on_node(node, request)
                return _silent("can only list/watch pods with spec.nodeName field selector")
        return NO_OPINION

    def _if_on_node(self, node: str, request: AccessRequest) -> Verdict:
        is_related = self.graph.has_pod(node, request.namespace, request.name)
        return _if_related(node, request, is_related=is_related)


def _check_node(node: str, request: AccessRequest) -> Verdict:
    """Its own, also before it exists; which one it writes, admission knows."""
    match request.subresource, request.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOW
        case "", "get" | "list" | "watch":
            if request.name == node:
                return _ALLOW
            what = f"'{request.name}'" if request.name else "all nodes"
            return _silent(f"node '{node}' cannot read {what}, only its own Node object")
    return NO_OPINION


def _check_lease(node: str, request: AccessRequest) -> Verdict:
    if request.verb not in _OWN_OBJECT:
        return _silent("can only get, create, update, patch, or delete a node lease")
    if request.namespace != LEASE_NAMESPACE:
        return _silent(f"can only access leases in the {go_quote(LEASE_NAMESPACE)} system namespace")
    if request.verb != "create" and request.name != node:
        return _silent("can only access node lease with the same name as the requesting node")
    return _ALLOW


def _check_csi_node(node: str, request: AccessRequest) -> Verdict:
    if request.verb not in _OWN_OBJECT:
        return _silent("can only get, create, update, patch, or delete a CSINode")
    if request.subresource:
        return _silent("cannot authorize CSINode subresources")
    if request.verb != "create" and request.name != node:
        return _silent("can only access CSINode with the same name as the requesting node")
    return _ALLOW


def _unless_get(request: AccessRequest) -> Verdict | None:
    if request.verb != "get":
        return _silent("can only get individual resources of this type")
    return _silent("cannot get subresource") if request.subresource else None


def _if_related(node: str, request: AccessRequest, *, is_related: bool) -> Verdict:
    if not request.name:
        return _silent("No Object name found")
    return _ALLOW if is_related else _silent(f"no relationship found between node '{node}' and this object")


def _selects(request: AccessRequest, node: str) -> bool:
    """Whether the request is about objects of that node alone."""
    try:
        terms = field_selectors.parse(request.field_selector).terms
    except SelectorError:  # whoever lists says so
        return False
    return any((term.field, term.value, term.is_negated) == ("spec.nodeName", node, False) for term in terms)


def _silent(reason: str) -> Verdict:
    return Verdict(Decision.NO_OPINION, reason)


def _rules_of(role: str) -> dict[str, list[CompiledRule]]:
    """The rules of a default role, by the resources that they name."""
    found: dict[str, list[CompiledRule]] = {}
    for obj in default_policy():
        if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] == role:
            for rule in msgspec.convert(obj["rules"], tuple[PolicyRule, ...]):
                for resource in rule.resources or ():
                    found.setdefault(resource, []).append(CompiledRule(rule))
    return found
