"""Which requests are told of, and how much: the first rule that matches a request decides; without one, nothing is.

Source: k8s.io/apiserver, pkg/audit/policy/checker.go (1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.caches import LONGEST
from fairlead.server.access import AccessRequest
from fairlead.server.audit.event import Level, Stage

#: For how many kinds of request it is remembered which rules may match them.
_MOST_REMEMBERED: Final = 1024


class Decision(msgspec.Struct, frozen=True):
    """How much is told of a request, and at which stages nothing is."""

    level: Level = Level.NONE
    omitted_stages: frozenset[Stage] = frozenset()
    omits_managed_fields: bool = False


class GroupResources(msgspec.Struct, frozen=True):
    """Resources of a group, or of all (`*`); none are all of them."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()

    def has(self, group: str, resource: str, subresource: str) -> bool:
        """Whether such a request may be about these, whatever its object is called."""
        if self.group not in (group, "*"):
            return False
        if not self.resources:
            return True
        combined = f"{resource}/{subresource}" if subresource else resource
        wanted = {combined, "*", f"{resource}/*"}
        if subresource:
            wanted.add(f"*/{subresource}")
        return not wanted.isdisjoint(self.resources)

    def matches(self, asked: AccessRequest) -> bool:
        is_named = not (self.resources and self.names) or asked.name in self.names
        return is_named and self.has(asked.group, asked.resource, asked.subresource)


class Rule(msgspec.Struct, frozen=True):
    """A request matches if every list that says something has it; an empty one has everything."""

    decision: Decision
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[GroupResources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    def may_match(self, asked: AccessRequest) -> bool:
        """Whether a request with this verb, on this resource or path, can match."""
        if self.verbs and asked.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return asked.is_resource_request and (
                not self.resources
                or any(of.has(asked.group, asked.resource, asked.subresource) for of in self.resources)
            )
        if self.paths:
            return not asked.is_resource_request and any(_is_path(asked.path, path) for path in self.paths)
        return True

    def matches(self, asked: AccessRequest) -> bool:
        """Whether a request that may match does, by who asks, and where."""
        if self.users and asked.user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(asked.user.groups):
            return False
        if self.namespaces and asked.namespace not in self.namespaces:
            return False
        return not self._has_names or any(of.matches(asked) for of in self.resources)

    @property
    def matches_always(self) -> bool:
        """Whether what may match does."""
        return not (self.users or self.groups or self.namespaces or self._has_names)

    @property
    def _has_names(self) -> bool:
        return any(of.names for of in self.resources)


def _is_path(path: str, pattern: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


class Policy:
    """The rules, in order."""

    def __init__(self, rules: Sequence[Rule], otherwise: Decision = Decision()) -> None:  # immutable
        self._rules, self._otherwise = tuple(rules), otherwise
        self._remembered: dict[tuple[str, ...], _Candidates] = {}

    def decide(self, asked: AccessRequest) -> Decision:
        key = (asked.verb, asked.group, asked.resource, asked.subresource, asked.path)
        found = self._remembered.get(key)
        if found is None:
            found = self._candidates(asked)
            if sum(map(len, key)) <= LONGEST:
                if len(self._remembered) >= _MOST_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = found
        for rule in found.rules:
            if rule.matches(asked):
                return rule.decision
        return found.otherwise

    def _candidates(self, asked: AccessRequest) -> _Candidates:
        rules: list[Rule] = []
        for rule in self._rules:
            if rule.may_match(asked):
                if rule.matches_always:
                    return _Candidates(tuple(rules), rule.decision)
                rules.append(rule)
        return _Candidates(tuple(rules), self._otherwise)


class _Candidates(msgspec.Struct, frozen=True):
    """The rules that may match requests of one kind, of which there are few, and what holds if none of them does."""

    rules: tuple[Rule, ...]
    otherwise: Decision
