"""The roles and bindings of a cluster, by the users and groups whom they are for.

It follows the committed changes. What a user may do is put together when it is first asked, and again after a change of
a binding that names the user or of a role that such a binding names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fairlead.api.errors import qualified
from fairlead.api.roles import (
    CLUSTER_ROLE,
    GROUP,
    GROUP_SUBJECT,
    ROLE,
    SERVICE_ACCOUNT,
    USER,
    Binding,
    PolicyRule,
    Role,
)
from fairlead.api.users import AccountName, User
from fairlead.golang.quoting import go_quote
from fairlead.server.access import AccessRequest
from fairlead.server.auth.rbac.rules import CompiledRule, CompiledRules, resource_keys

#: How many users' permissions are kept; not those of whom somebody asks who is in very many groups, or in long ones.
_MOST_USERS: Final = 1000
_MOST_GROUPS: Final = 256
_LONGEST_NAMES: Final = 16 << 10
#: How many answers to which role names a resource are kept of a user, and roles in them.
_MOST_REMEMBERED: Final = 1000

#: Kind, namespace and name of a role.
RoleKey = tuple[str, str, str]
#: Kind and name of whom a binding names; a service account by its user name.
SubjectKey = tuple[str, str]
#: What decides about a user: the name and the groups, and nothing that a credential says beside.
_Known = tuple[str, tuple[str, ...]]
#: Namespace ("" for that of a cluster) and name of a binding.
BindingKey = tuple[str, str]

_decode_role = msgspec.json.Decoder(Role).decode
_decode_binding = msgspec.json.Decoder(Binding).decode


class Grant:
    """One binding, as one of its subjects sees it."""

    __slots__ = ("_binding", "_subject", "_text", "error", "namespace", "role", "rules")

    def __init__(self, binding: Binding, subject: SubjectKey, rules: CompiledRules | None) -> None:
        self._binding, self._subject, self._text = binding, subject, ""
        self.namespace = binding.metadata.namespace
        self.role = _role_of(binding)
        self.rules = rules
        kind, _, name = self.role
        self.error = f"{qualified(kind.lower(), GROUP)} {go_quote(name)} not found" if rules is None else ""

    def __str__(self) -> str:
        """`ClusterRoleBinding "x" of ClusterRole "y" to User "z"`, which is told of each request that it allows."""
        self._text = self._text or self._written()
        return self._text

    def _written(self) -> str:
        meta, reference = self._binding.metadata, self._binding.role_ref
        kind, name = (
            ("RoleBinding", f"{meta.name}/{meta.namespace}")
            if meta.namespace
            else (
                "ClusterRoleBinding",
                meta.name,
            )
        )
        to = _shown(self._binding, self._subject)
        return f"{kind} {go_quote(name)} of {reference.kind} {go_quote(reference.name)} to {to}"


class _Scope:
    """The grants for the cluster, or for one namespace, of which the first of a role stands for all."""

    def __init__(self) -> None:
        self.grants: dict[RoleKey, Grant] = {}
        self._with_rules: list[tuple[CompiledRules, Grant]] = []
        #: Who gives something of a resource that was asked about; not of so many that a user's questions fill memory.
        self._by_resource: dict[str, list[tuple[Sequence[CompiledRule], Grant]]] = {}
        self._remembered = 0

    def add(self, grant: Grant) -> None:
        if self.grants.setdefault(grant.role, grant) is grant and grant.rules is not None:
            self._with_rules.append((grant.rules, grant))

    def allowing(self, request: AccessRequest) -> Grant | None:
        if not request.is_resource_request:
            for role, grant in self._with_rules:
                if any(rule.allows_path(request) for rule in role.of_paths):
                    return grant
            return None
        for key in resource_keys(request.resource, request.subresource):
            for rules, grant in self._naming(key):
                for rule in rules:
                    if rule.allows_resource(request):
                        return grant
        return None

    def _naming(self, resource: str) -> list[tuple[Sequence[CompiledRule], Grant]]:
        found = self._by_resource.get(resource)
        if found is None:
            found = [
                (rules, grant)
                for role, grant in self._with_rules
                if (rules := role.by_resource.get(resource)) is not None
            ]
            if self._remembered < _MOST_REMEMBERED:
                self._remembered += 1 + len(found)
                self._by_resource[resource] = found
        return found


class Permissions:
    """What one user may do."""

    def __init__(self, grants: Iterable[Grant], subjects: frozenset[SubjectKey]) -> None:
        self.subjects = subjects
        self.roles: set[RoleKey] = set()
        self._scopes: dict[str, _Scope] = {"": _Scope()}
        for grant in grants:
            self.roles.add(grant.role)
            self._scopes.setdefault(grant.namespace, _Scope()).add(grant)

    def allowing(self, request: AccessRequest) -> Grant | None:
        """The grant that allows it."""
        for scope in self._in(request.namespace):
            if (found := scope.allowing(request)) is not None:
                return found
        return None

    def grants(self, namespace: str) -> Iterator[Grant]:
        """Those that hold in this namespace, one of each role; with "" for the cluster alone."""
        for scope in self._in(namespace):
            yield from scope.grants.values()

    def _in(self, namespace: str) -> Iterator[_Scope]:
        yield self._scopes[""]
        if namespace and (scope := self._scopes.get(namespace)) is not None:
            yield scope


class RoleIndex:
    """All roles and bindings."""

    def __init__(self) -> None:
        self._roles: dict[RoleKey, bytes | CompiledRules] = {}
        self._bindings: dict[BindingKey, Binding] = {}
        self._by_subject: dict[SubjectKey, dict[BindingKey, Binding]] = {}
        self._users: dict[_Known, Permissions] = {}

    def observe_role(self, namespace: str, name: str, raw: bytes | None) -> None:
        """A role was stored, or removed."""
        key = (ROLE if namespace else CLUSTER_ROLE, namespace, name)
        if raw is None:
            self._roles.pop(key, None)
        else:
            self._roles[key] = raw
        self._forget(lambda permissions: key in permissions.roles)

    def observe_binding(self, namespace: str, name: str, raw: bytes | None) -> None:
        """A binding was stored, or removed."""
        key, touched = (namespace, name), set()
        if (old := self._bindings.pop(key, None)) is not None:
            for subject in _subjects_of(old):
                touched.add(subject)
                known = self._by_subject[subject]
                known.pop(key, None)
                if not known:
                    del self._by_subject[subject]
        if raw is not None:
            binding = self._bindings[key] = _decode_binding(raw)
            for subject in _subjects_of(binding):
                touched.add(subject)
                self._by_subject.setdefault(subject, {})[key] = binding
        self._forget(lambda permissions: not touched.isdisjoint(permissions.subjects))

    def permissions(self, user: User) -> Permissions:
        """What the user may do."""
        if not _is_usual(user):
            return Permissions(self._grants_of(_keys_of(user)), frozenset())
        known = user.name, user.groups
        found = self._users.get(known)
        if found is None:
            if len(self._users) >= _MOST_USERS:
                self._users.clear()
            subjects = tuple(_keys_of(user))
            found = self._users[known] = Permissions(self._grants_of(subjects), frozenset(subjects))
        return found

    def rules_of(self, reference: RoleKey) -> tuple[PolicyRule, ...] | None:
        """The rules of a role; None if it does not exist."""
        found = self._compiled(reference)
        return None if found is None else found.rules

    def _compiled(self, reference: RoleKey) -> CompiledRules | None:
        found = self._roles.get(reference)
        if isinstance(found, bytes):
            found = self._roles[reference] = CompiledRules(_decode_role(found).rules or ())
        return found

    def _grants_of(self, subjects: Iterable[SubjectKey]) -> Iterator[Grant]:
        for subject in subjects:
            if (bindings := self._by_subject.get(subject)) is not None:
                for binding in bindings.values():
                    yield Grant(binding, subject, self._compiled(_role_of(binding)))

    def _forget(self, is_concerned: Callable[[Permissions], bool]) -> None:
        for known in [known for known, permissions in self._users.items() if is_concerned(permissions)]:
            del self._users[known]


def _keys_of(user: User) -> Iterator[SubjectKey]:
    yield USER, user.name
    for group in dict.fromkeys(user.groups):
        yield GROUP_SUBJECT, group


def _is_usual(user: User) -> bool:
    groups = user.groups
    return len(groups) <= _MOST_GROUPS and len(user.name) + sum(map(len, groups)) <= _LONGEST_NAMES


def _role_of(binding: Binding) -> RoleKey:
    reference = binding.role_ref
    return (reference.kind, binding.metadata.namespace if reference.kind == ROLE else "", reference.name)


def _subjects_of(binding: Binding) -> Iterator[SubjectKey]:
    for subject in binding.subjects or ():
        if subject.kind in (USER, GROUP_SUBJECT):
            yield subject.kind, subject.name
        elif subject.kind == SERVICE_ACCOUNT and (namespace := subject.namespace or binding.metadata.namespace):
            yield USER, AccountName(namespace, subject.name).user_name


def _shown(binding: Binding, key: SubjectKey) -> str:
    """How the subject of that key is called in a reason: as the binding calls it."""
    for subject in binding.subjects or ():
        if subject.kind == SERVICE_ACCOUNT:
            namespace = subject.namespace or binding.metadata.namespace
            if key == (USER, AccountName(namespace, subject.name).user_name):
                return f"{subject.kind} {go_quote(f'{subject.name}/{namespace}')}"
        elif key == (subject.kind, subject.name):
            return f"{subject.kind} {go_quote(subject.name)}"
    return ""
