"""Policy rules: what one allows, whether others cover it, and how it is printed.

Sources: pkg/apis/rbac/v1/evaluation_helpers.go, component-helpers auth/rbac/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final, NamedTuple

from fairlead.api.roles import PolicyRule
from fairlead.golang.quoting import go_quote
from fairlead.server.access import AccessRequest

ALL: Final = "*"
#: How many single permissions are compared one by one; few bytes can say a billion of them.
MOST_COMPARED: Final = 20_000
#: With how many rules they are compared altogether.
_MOST_LOOKS: Final = 1_000_000
#: So many are found as quickly one after the other.
_FEW: Final = 8


class TooManyPermissions(ValueError):
    """Rules that say more single permissions than are compared."""


#: Rules that name a value, and the resources of each.
_Rules = dict[str, list[tuple["CompiledRule", frozenset[str]]]]


class Permission(NamedTuple):
    """One verb on one thing: the smallest part of a rule. Of resources, `name` may be empty: all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    url: str = ""


class CompiledRule:
    """A rule that is asked often."""

    __slots__ = ("_all_groups", "_all_verbs", "_groups", "_names", "_paths", "_prefixes", "_verbs", "rule")

    def __init__(self, rule: PolicyRule) -> None:
        self.rule = rule
        self._verbs, self._groups = _quick(rule.verbs), _quick(rule.api_groups or ())
        self._all_verbs, self._all_groups = ALL in self._verbs, ALL in self._groups
        self._names = _quick(rule.resource_names or ())
        urls = rule.urls or ()
        self._paths = _quick(urls)
        self._prefixes = tuple(url.rstrip(ALL) for url in urls if url.endswith(ALL))

    def allows_resource(self, request: AccessRequest) -> bool:
        """Whether it allows this, of the resources that it is about."""
        return self.gives(request.verb, request.group, request.name)

    def gives(self, verb: str, group: str, name: str) -> bool:
        """Whether it allows this, of the resources that it is about; without a name: whatever their names are."""
        return (
            (self._all_verbs or verb in self._verbs)
            and (self._all_groups or group in self._groups)
            and (not self._names or name in self._names)
        )

    def allows_path(self, request: AccessRequest) -> bool:
        return self.gives_path(request.verb, request.path)

    def gives_path(self, verb: str, path: str) -> bool:
        """Whether it allows this of a path."""
        return (self._all_verbs or verb in self._verbs) and (path in self._paths or path.startswith(self._prefixes))


class CompiledRules:
    """The rules of a role, by what they are about."""

    def __init__(self, rules: tuple[PolicyRule, ...]) -> None:
        self.rules = rules
        self.by_resource: dict[str, list[CompiledRule]] = {}
        self.of_paths: list[CompiledRule] = []
        for rule in rules:
            compiled = CompiledRule(rule)
            for resource in dict.fromkeys(rule.resources or ()):
                self.by_resource.setdefault(resource, []).append(compiled)
            if rule.urls:
                self.of_paths.append(compiled)


def _quick(values: tuple[str, ...]) -> Container[str]:
    """The values, in whatever is quickest to look them up in."""
    return values if len(values) <= _FEW else frozenset(values)


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
    """Rules by what they name: of a permission's group, resource and name the one counts that the fewest name."""

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._by_group: _Rules = {}
        self._by_resource: _Rules = {}
        self._by_name: _Rules = {}
        self._with_paths: list[CompiledRule] = []
        self._looks = 0
        for rule in rules:
            compiled = CompiledRule(rule)
            held = compiled, frozenset(rule.resources or ())
            for by_value, values in (
                (self._by_group, rule.api_groups or ()),
                (self._by_resource, rule.resources or ()),
                (self._by_name, rule.resource_names or ("",)),
            ):
                for value in dict.fromkeys(values):
                    by_value.setdefault(value, []).append(held)
            if rule.urls:
                self._with_paths.append(compiled)

    def covers(self, permission: Permission) -> bool:
        if permission.url:
            return self._covers_path(permission)
        _, _, subresource = permission.resource.partition("/")
        keys = {permission.resource, ALL} | ({f"*/{subresource}"} if subresource else set())
        candidates = (
            [self._by_group.get(group, ()) for group in {permission.group, ALL}],
            [self._by_resource.get(key, ()) for key in keys],
            [self._by_name.get(name, ()) for name in {permission.name, ""}],
        )
        fewest = min(candidates, key=lambda found: sum(map(len, found)))
        self._look(sum(map(len, fewest)))
        return any(
            not keys.isdisjoint(resources)
            and rule.gives(permission.verb, permission.group, permission.name)
            and (permission.name or not rule.rule.resource_names)
            for found in fewest
            for rule, resources in found
        )

    def _covers_path(self, permission: Permission) -> bool:
        for rule in self._with_paths:
            self._look(len(rule.rule.urls or ()))
            if rule.gives_path(permission.verb, permission.url):
                return True
        return False

    def _look(self, count: int) -> None:
        self._looks += count
        if self._looks > _MOST_LOOKS:
            raise TooManyPermissions


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
