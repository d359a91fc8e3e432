"""To which flow a request belongs: the first FlowSchema that speaks of it, and what that tells requests apart by.

Source: k8s.io/apiserver, util/flowcontrol/rule.go (1.36).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead.api.flow_control import (
    BY_NAMESPACE,
    BY_USER,
    FlowRule,
    FlowSchema,
    FlowSubject,
    PathRule,
    ResourceRule,
)
from fairlead.api.users import User
from fairlead.caches import LONGEST, LruCache
from fairlead.server.access import AccessRequest
from fairlead.server.fairness.queues import Level

#: For how many users it is remembered which schemas speak of them.
_MOST_USERS: Final = 1024


class Flow(msgspec.Struct, frozen=True):
    """The schema that speaks of a request, its level, what tells its flow from others of the schema, and the hash of
    both, which deals its queues."""

    schema: FlowSchema
    level: Level
    distinguisher: str
    hash: int


class Flows:
    """The FlowSchemas of a server, each with its level, in the order in which they are asked."""

    def __init__(self, schemas: Iterable[tuple[FlowSchema, Level]]) -> None:
        self._schemas = sorted(schemas, key=lambda pair: (pair[0].spec.matching_precedence, pair[0].metadata.name))
        self._by_user: LruCache[tuple[str, tuple[str, ...]], list[_Candidate]] = LruCache(_MOST_USERS)
        self._hashes: LruCache[tuple[str, str], int] = LruCache(_MOST_USERS)

    def of(self, request: AccessRequest) -> Flow:
        """The flow of a request. The schema `catch-all` speaks of everything."""
        for candidate in self._candidates(request.user):
            if any(_speaks_of(rule, request) for rule in candidate.rules):
                method = candidate.schema.spec.distinguisher_method
                distinguisher = "" if method is None else _distinguisher(method.type, request)
                schema, level = candidate.schema, candidate.level
                return Flow(schema, level, distinguisher, self._hash(schema, distinguisher))
        raise AssertionError("the schema catch-all speaks of every request")

    def _candidates(self, user: User) -> list[_Candidate]:
        key = user.name, user.groups
        known = self._by_user.get(key)
        if known is None:
            known = list(_about(user, self._schemas))
            if len(user.name) + sum(map(len, user.groups)) <= LONGEST:
                self._by_user.put(key, known)
        return known

    def _hash(self, schema: FlowSchema, distinguisher: str) -> int:
        key = schema.metadata.name, distinguisher
        known = self._hashes.get(key)
        if known is None:
            digest = hashlib.sha256(f"{key[0]},{distinguisher}".encode()).digest()
            known = int.from_bytes(digest[:8], "little")
            if len(distinguisher) <= LONGEST:
                self._hashes.put(key, known)
        return known


class _Candidate(msgspec.Struct, frozen=True):
    """A schema with those of its rules that are about a user."""

    schema: FlowSchema
    level: Level
    rules: Sequence[FlowRule]


def _about(user: User, schemas: Iterable[tuple[FlowSchema, Level]]) -> Iterable[_Candidate]:
    for schema, level in schemas:
        rules = [
            rule
            for rule in schema.spec.rules or ()
            if any(_is_subject(subject, user) for subject in rule.subjects or ())
        ]
        if rules:
            yield _Candidate(schema, level, rules)


def _is_subject(subject: FlowSubject, user: User) -> bool:
    if subject.kind == "User":
        return subject.user is not None and subject.user.name in ("*", user.name)
    if subject.kind == "Group":
        return subject.group is not None and (subject.group.name == "*" or subject.group.name in user.groups)
    if (account := subject.service_account) is None:
        return False
    prefix = f"system:serviceaccount:{account.namespace}:"
    return user.name.startswith(prefix) if account.name == "*" else user.name == prefix + account.name


def _speaks_of(rule: FlowRule, request: AccessRequest) -> bool:
    if request.is_resource_request:
        return any(_covers_resource(each, request) for each in rule.resource_rules or ())
    return any(_covers_path(each, request) for each in rule.non_resource_rules or ())


def _covers_resource(rule: ResourceRule, request: AccessRequest) -> bool:
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    if not (
        _is_in(request.verb, rule.verbs) and _is_in(resource, rule.resources) and _is_in(request.group, rule.api_groups)
    ):
        return False
    return _is_in(request.namespace, rule.namespaces or ()) if request.namespace else rule.cluster_scope


def _covers_path(rule: PathRule, request: AccessRequest) -> bool:
    return _is_in(request.verb, rule.verbs) and any(_is_below(request.path, url) for url in rule.urls)


def _is_below(path: str, url: str) -> bool:
    if url in ("*", path):
        return True
    prefix = url.removesuffix("*")
    return path.startswith(prefix if prefix.endswith("/") else f"{prefix}/")


def _is_in(value: str, allowed: Sequence[str]) -> bool:
    return value in allowed or tuple(allowed) == ("*",)


def _distinguisher(method: str, request: AccessRequest) -> str:
    if method == BY_USER:
        return request.user.name
    return request.namespace if method == BY_NAMESPACE else ""
