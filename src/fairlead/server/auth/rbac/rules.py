"""Policy rules: what one allows, whether others cover it, and how it is printed.

Sources: pkg/apis/rbac/v1/evaluation_helpers.go, component-helpers auth/rbac/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fairlead.api.roles import PolicyRule
from fairlead.golang.quoting import go_quote
from fairlead.server.access import AccessRequest

ALL: Final = "*"
#: How many single permissions are compared one by one; few bytes can say a billion of them.
MOST_COMPARED: Final = 20_000


class TooManyPermissions(ValueError):
    """Rules that say more single permissions than are compared."""


class Permission(NamedTuple):
    """One verb on one thing: the smallest part of a rule. Of resources, `name` may be empty: all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    url: str = ""


class CompiledRule:
    """A rule that is asked often."""

    __slots__ = ("_all_groups", "_all_verbs", "_groups", "_names", "_urls", "_verbs", "rule")

    def __init__(self, rule: PolicyRule) -> None:
        self.rule = rule
        self._verbs, self._groups = frozenset(rule.verbs), frozenset(rule.api_groups or ())
        self._all_verbs, self._all_groups = ALL in self._verbs, ALL in self._groups
        self._names = frozenset(rule.resource_names or ())
        self._urls = tuple(rule.urls or ())

    def allows_resource(self, request: AccessRequest) -> bool:
        """Whether it allows this, of the resources that it is about."""
        return (
            (self._all_verbs or request.verb in self._verbs)
            and (self._all_groups or request.group in self._groups)
            and (not self._names or request.name in self._names)
        )

    def allows_path(self, request: AccessRequest) -> bool:
        return (self._all_verbs or request.verb in self._verbs) and _any_covers(self._urls, request.path)


def resource_keys(resource: str, subresource: str) -> tuple[str, ...]:
    """The spellings under which a rule may name a resource."""
    return (f"{resource}/{subresource}", ALL, f"*/{subresource}") if subresource else (resource, ALL)


def permissions_of(rules: Iterable[PolicyRule]) -> Iterator[Permission]:
    """Every single permission; `TooManyPermissions` if there are too many to look at."""
    for rule in rules:
        names = rule.resource_names or ("",)
        groups, resources, urls = rule.api_groups or (), rule.resources or (), rule.urls or ()
        if len(rule.verbs) * (len(groups) * len(resources) * len(names) + len(urls)) > MOST_COMPARED:
            raise TooManyPermissions
        for group in groups:
            for resource in resources:
                for verb in rule.verbs:
                    for name in names:
                        yield Permission(verb, group, resource, name)
        for url in urls:
            for verb in rule.verbs:
                yield Permission(verb, url=url)


def not_covered(owned: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[Permission]:
    """What of the wanted permissions the owned rules do not give."""
    held, missing = _Held(owned), []
    for index, permission in enumerate(permissions_of(wanted)):
        if index >= MOST_COMPARED:
            raise TooManyPermissions
        if not held.covers(permission):
            missing.append(permission)
    return missing


class _Held:
    """Rules, by the resources that they name."""

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._by_resource: dict[str, list[PolicyRule]] = {}
        self._with_paths: list[PolicyRule] = []
        for rule in rules:
            for resource in rule.resources or ():
                self._by_resource.setdefault(resource, []).append(rule)
            if rule.urls:
                self._with_paths.append(rule)

    def covers(self, permission: Permission) -> bool:
        if permission.url:
            return any(
                _has(rule.verbs, permission.verb) and _any_covers(rule.urls or (), permission.url)
                for rule in self._with_paths
            )
        _, _, subresource = permission.resource.partition("/")
        keys = [permission.resource, ALL, *([f"*/{subresource}"] if subresource else ())]
        return any(
            _has(rule.verbs, permission.verb)
            and _has(rule.api_groups or (), permission.group)
            and (not rule.resource_names or (bool(permission.name) and permission.name in rule.resource_names))
            for key in dict.fromkeys(keys)
            for rule in self._by_resource.get(key, ())
        )


def as_rules(permissions: Iterable[Permission]) -> list[PolicyRule]:
    """The same as rules: one for each resource and name, with all its verbs."""
    resources: dict[tuple[str, str, str], list[str]] = {}
    paths: list[PolicyRule] = []
    for permission in permissions:
        if permission.url:
            paths.append(PolicyRule(verbs=(permission.verb,), urls=(permission.url,)))
        else:
            resources.setdefault((permission.group, permission.resource, permission.name), []).append(permission.verb)
    rules = [
        PolicyRule(
            verbs=tuple(verbs),
            api_groups=(group,),
            resources=(resource,),
            resource_names=(name,) if name else None,
        )
        for (group, resource, name), verbs in resources.items()
    ]
    return [*rules, *paths]


def text_of(rule: PolicyRule) -> str:
    """`{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`"""
    parts = (
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.urls),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in parts if values) + "}"


def quoted(values: Iterable[str]) -> str:
    """Go's `%q` of a slice: `["a" "b"]`."""
    return f"[{' '.join(map(go_quote, values))}]"


def _has(values: tuple[str, ...], value: str) -> bool:
    return ALL in values or value in values


def _any_covers(urls: Iterable[str], path: str) -> bool:
    return any(url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL))) for url in urls)
