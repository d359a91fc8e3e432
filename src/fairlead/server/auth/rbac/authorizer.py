"""The decision by roles and bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead.api.roles import GROUP
from fairlead.api.users import User
from fairlead.server.access import NO_OPINION, AccessRequest, Decision, UserRules, Verdict
from fairlead.server.auth.authorizer import LocalAuthorizer
from fairlead.server.auth.rbac.index import RoleIndex

_Observer = Callable[[str, str, bytes | None], None]


class RbacAuthorizer(LocalAuthorizer):
    """Allows what a role allows that is bound to the user, to a group of the user, or to the service account it is."""

    def __init__(self) -> None:
        self.index: Final = RoleIndex()

    @property
    def observers(self) -> dict[str, _Observer]:
        """Who is to hear of changes of which kind."""
        role, binding = self.index.observe_role, self.index.observe_binding
        observers = {"roles": role, "clusterroles": role, "rolebindings": binding, "clusterrolebindings": binding}
        return {f"{plural}.{GROUP}": observer for plural, observer in observers.items()}

    def decide(self, request: AccessRequest) -> Verdict:
        permissions = self.index.permissions(request.user)
        if (grant := permissions.allowing(request)) is not None:
            return Verdict(Decision.ALLOW, f"RBAC: allowed by {grant}")
        errors = [grant.error for grant in permissions.grants(request.namespace) if grant.error]
        return Verdict(Decision.NO_OPINION, f"RBAC: {_joined(errors)}") if errors else NO_OPINION

    def rules_for(self, user: User, namespace: str) -> UserRules:
        grants = list(self.index.permissions(user).grants(namespace))
        errors = [grant.error for grant in grants if grant.error]
        rules = tuple(rule for grant in grants if grant.rules for rule in grant.rules.rules)
        return UserRules(rules, is_complete=not errors, error=_joined(errors) if errors else "")


def _joined(errors: list[str]) -> str:
    """As apimachinery prints several errors."""
    told = list(dict.fromkeys(errors))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"
