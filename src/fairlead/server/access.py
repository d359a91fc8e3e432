"""What is asked of authorization, and its answer: who wants to do what, and may they?

Source: k8s.io/apiserver, authorization/authorizer; texts of endpoints/handlers/responsewriters/errors.go (1.36).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

import msgspec

from fairlead.api import field_selectors, names
from fairlead.api.errors import Forbidden, qualified
from fairlead.api.roles import PolicyRule
from fairlead.api.selectors import SelectorError
from fairlead.api.users import User
from fairlead.golang.quoting import go_quote


class AccessRequest(msgspec.Struct, frozen=True):
    """Who wants to do what. For a path that is no resource's, `resource` is empty and `path` says which."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    #: Selectors of list, watch and deletecollection, as the client wrote them (KEP-4601).
    field_selector: str = ""
    label_selector: str = ""

    @property
    def is_resource_request(self) -> bool:
        return bool(self.resource)


class Decision(Enum):
    ALLOW = auto()
    DENY = auto()  # nobody else is asked
    NO_OPINION = auto()


class Verdict(msgspec.Struct, frozen=True):
    """A decision, why, and what went wrong on the way to it (which may be an ALLOW all the same)."""

    decision: Decision
    reason: str = ""
    error: str = ""

    @property
    def is_allowed(self) -> bool:
        return self.decision is Decision.ALLOW


NO_OPINION = Verdict(Decision.NO_OPINION)


class UserRules(msgspec.Struct, frozen=True):
    """What a user may do somewhere, as far as it can be listed."""

    rules: tuple[PolicyRule, ...] = ()
    is_complete: bool = True
    error: str = ""


class Authorizer(Protocol):
    """One way to decide who may do what, or several (`server/auth/authorizer.py`)."""

    def decide(self, request: AccessRequest) -> Verdict:
        """By what this process knows itself; a webhook has no opinion."""
        ...

    async def authorize(self, request: AccessRequest) -> Verdict:
        """By everything that can be asked."""
        ...

    def rules_for(self, user: User, namespace: str) -> UserRules:
        """What the user may do in that namespace; "" is the cluster alone."""
        ...


def forbidden(request: AccessRequest, reason: str = "") -> Forbidden:
    """`pods "x" is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "ns"`."""
    user, suffix = go_quote(request.user.name), f": {reason}" if reason else ""
    if not request.is_resource_request:
        text = f"forbidden: User {user} cannot {request.verb} path {go_quote(request.path)}{suffix}"
        return Forbidden(text, shows_details=True)
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    scope = f"in the namespace {go_quote(request.namespace)}" if request.namespace else "at the cluster scope"
    action = f"cannot {request.verb} resource {go_quote(resource)} in API group {go_quote(request.group)} {scope}"
    name = f" {go_quote(request.name)}" if request.name else ""
    what = f"{qualified(request.resource, request.group)}{name}"
    text = f"{what} is forbidden: User {user} {action}{suffix}"
    return Forbidden(text, name=request.name, group=request.group, kind=request.resource)


def check(verdict: Verdict, request: AccessRequest) -> None:
    """Raise `Forbidden` unless it is allowed; an error says more than a mere "no"."""
    if verdict.decision is not Decision.ALLOW:
        raise forbidden(request, verdict.reason or verdict.error)


def selected_name(fields: str) -> str:
    """The one object that a field selector can select; "" if there may be several."""
    if "metadata.name" not in fields:
        return ""
    try:
        name = field_selectors.parse(fields).exact("metadata.name") or ""
    except SelectorError:  # whoever lists says so
        return ""
    return "" if names.path_segment_name(name) else name
