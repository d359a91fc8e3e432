"""What ResourceQuota is told: of what nobody may use anything unless a quota of the namespace is about it.

Source: apiserver, pkg/admission/plugin/resourcequota/apis (1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from fairlead.api.fields import Errors, aggregated
from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts
from fairlead.api.quantity import ZERO
from fairlead.api.quota_scopes import ScopeCondition
from fairlead.api.strict import ConfigurationError, Strict, check_kind, read

_OLD_VERSIONS: Final = ("resourcequota.admission.k8s.io/v1beta1", "resourcequota.admission.k8s.io/v1alpha1")


class _Scope(Strict):
    scope_name: str
    operator: str = ""
    values: tuple[str, ...] = ()


class LimitedResource(Strict):
    """A kind of which some things, or objects of some scopes, take a quota."""

    api_group: str = ""
    resource: str = ""
    #: Parts of names as quotas have them: `requests.cpu`, `storageclass`.
    match_contains: tuple[str, ...] = ()
    match_scopes: tuple[_Scope, ...] = ()

    @property
    def qualified(self) -> str:
        return f"{self.resource}.{self.api_group}" if self.api_group else self.resource

    @property
    def scopes(self) -> list[ScopeCondition]:
        return [
            ScopeCondition(scope_name=scope.scope_name, operator=scope.operator, values=scope.values)
            for scope in self.match_scopes
        ]


class _Document(Strict):
    api_version: str = ""
    kind: str = ""
    limited_resources: tuple[LimitedResource, ...] = ()


def read_limited_resources(document: Obj) -> tuple[LimitedResource, ...]:
    """What the document says. Raises ConfigurationError."""
    found, errors = read(document, _Document, ""), Errors()
    if found.kind == "Configuration":
        check_kind(found, _OLD_VERSIONS, "Configuration")
    else:
        check_kind(found, ["apiserver.config.k8s.io/v1"], "ResourceQuotaConfiguration")
    for index, limited in enumerate(found.limited_resources):
        if not limited.resource:
            errors.required(f"limitedResources[{index}].resource", "")
    if errors:
        raise ConfigurationError(aggregated(errors))
    return found.limited_resources


def names_without_quota(
    limited: Iterable[LimitedResource], resource: str, usage: Amounts, covered: Collection[str]
) -> list[str]:
    """What of the usage takes a quota and has none, sorted."""
    parts = [part for each in limited if each.qualified == resource for part in each.match_contains]
    used = (name for name, amount in usage.items() if amount > ZERO and name not in covered)
    return sorted(name for name in used if any(part in name for part in parts))


def scopes_text(scopes: Sequence[ScopeCondition]) -> str:
    """As Go prints them."""
    texts = (f"{{{scope.scope_name} {scope.operator} [{' '.join(scope.values)}]}}" for scope in scopes)
    return f"[{' '.join(texts)}]"
