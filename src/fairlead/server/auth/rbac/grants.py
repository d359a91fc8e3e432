"""Nobody gives away what they do not have: the check of every role and binding that somebody writes.

Whoever may `escalate` a role, or `bind` it, may do so all the same. Sources: pkg/registry/rbac/*/policybased,
pkg/registry/rbac/escalation_check.go (1.36).
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj, name_of
from fairlead.api.roles import CLUSTER_ROLE, GROUP, ROLE, PolicyRule
from fairlead.api.users import MASTERS
from fairlead.golang.quoting import go_quote
from fairlead.runtime.offload import offload
from fairlead.server.access import AccessRequest, Authorizer
from fairlead.server.admission.base import AdmissionPlugin, Attributes
from fairlead.server.auth.rbac.index import RoleIndex
from fairlead.server.auth.rbac.rules import ALL, TooManyPermissions, as_rules, not_covered, quoted, text_of

_EVERYTHING: Final = (
    PolicyRule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    PolicyRule(verbs=(ALL,), urls=(ALL,)),
)
#: To look at so many rules takes long.
_MANY: Final = 500
_PLURALS: Final = {ROLE: "roles", CLUSTER_ROLE: "clusterroles"}


class GrantCheck(AdmissionPlugin):
    """Refuses roles and bindings that give more than whoever writes them has."""

    name = "RBACEscalation"
    resources = frozenset(
        f"{plural}.{GROUP}" for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
    )

    def __init__(self, index: RoleIndex, authorizer: Authorizer) -> None:
        self._index, self._authorizer = index, authorizer

    async def admit(self, attributes: Attributes) -> None:
        """After all other changes, and before the object is looked at: who may not, hears that first."""
        if MASTERS in attributes.user.groups:
            return
        if "roleRef" in attributes.obj:
            await self._check_binding(attributes)
        else:
            await self._check_role(attributes)

    async def _check_role(self, attributes: Attributes) -> None:
        new, old = attributes.obj, attributes.old or {}
        parts = ("rules", "aggregationRule")
        if attributes.old is not None and all((new.get(part) or None) == (old.get(part) or None) for part in parts):
            return
        if await self._may("escalate", attributes, attributes.resource.plural, attributes.name or name_of(new)):
            return
        await self._check(attributes, _rules_of(new))
        if new.get("aggregationRule") and await self._missing(attributes, _EVERYTHING):
            raise attributes.forbidden("must have cluster-admin privileges to use an aggregationRule")

    async def _check_binding(self, attributes: Attributes) -> None:
        new, old = attributes.obj, attributes.old or {}
        if attributes.old is not None and all(new.get(part) == old.get(part) for part in ("roleRef", "subjects")):
            return
        reference = new["roleRef"]
        kind, name = reference.get("kind", ""), reference.get("name", "")
        plural = _PLURALS.get(kind)
        if plural is None:
            return  # the rules of the kind say so
        if await self._may("bind", attributes, plural, name):
            return
        rules = self._index.rules_of((kind, attributes.namespace if kind == ROLE else "", name))
        if rules is None:
            raise NotFound.of(kind.lower(), name, GROUP)
        await self._check(attributes, rules)

    async def _may(self, verb: str, attributes: Attributes, plural: str, name: str) -> bool:
        namespace = attributes.namespace if attributes.resource.namespaced else ""
        request = AccessRequest(attributes.user, verb, GROUP, "v1", plural, namespace=namespace, name=name)
        return (await self._authorizer.authorize(request)).is_allowed

    async def _check(self, attributes: Attributes, rules: tuple[PolicyRule, ...]) -> None:
        if missing := await self._missing(attributes, rules):
            user = attributes.user
            told = await offload(lambda: _told(missing), is_long=len(missing) > _MANY)
            who = f"user {go_quote(user.name)} (groups={quoted(user.groups)})"
            errors = self._authorizer.rules_for(user, attributes.namespace).error
            suffix = f"; resolution errors: [{errors}]" if errors else ""
            text = f"{who} is attempting to grant RBAC permissions not currently held:\n{told}{suffix}"
            raise attributes.forbidden(text)

    async def _missing(self, attributes: Attributes, rules: tuple[PolicyRule, ...]) -> list[PolicyRule]:
        owned = self._authorizer.rules_for(attributes.user, attributes.namespace).rules
        try:
            is_long = attributes.is_long or len(owned) + len(rules) > _MANY
            return await offload(lambda: as_rules(not_covered(owned, rules)), is_long=is_long)
        except TooManyPermissions:
            text = "it grants more single permissions than can be compared with those of who grants them"
            raise attributes.forbidden(text) from None


def _told(rules: list[PolicyRule]) -> str:
    return "\n".join(sorted({text_of(rule) for rule in rules}))


def _rules_of(role: Obj) -> tuple[PolicyRule, ...]:
    """The rules of a role that nobody has looked at yet."""
    return msgspec.convert(role.get("rules") or [], tuple[PolicyRule, ...])
