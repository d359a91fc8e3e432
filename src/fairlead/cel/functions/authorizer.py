"""Questions to authorization: `authorizer.group('').resource('pods').check('get').allowed()` (library/authz.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fairlead.cel.errors import CelError
from fairlead.cel.functions.overloads import Overload, methods
from fairlead.cel.types import BOOL, STRING, opaque
from fairlead.cel.values import Opaque

#: What a question costs: one evaluation may ask two.
_COST: Final = 350_000


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, without who asks: a resource, or a path."""

    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    label_selector: str = ""
    #: A service account that is asked about instead of the requester, as `namespace:name`.
    account: str = ""


@dataclass(frozen=True, slots=True)
class Answer(Opaque):
    is_allowed: bool
    reason: str = ""
    error: str = ""
    type_name = "kubernetes.authorization.Decision"

    def key(self) -> object:
        return self.is_allowed, self.reason, self.error


Ask: TypeAlias = Callable[[Question], Answer]


@dataclass(frozen=True, slots=True)
class Authorizer(Opaque):
    """The variable `authorizer`, for one requester."""

    ask: Ask
    question: Question = Question()
    type_name = "kubernetes.authorization.Authorizer"

    def key(self) -> object:
        return self.question


class PathCheck(Authorizer):
    __slots__ = ()
    type_name = "kubernetes.authorization.PathCheck"


class GroupCheck(Authorizer):
    __slots__ = ()
    type_name = "kubernetes.authorization.GroupCheck"


class ResourceCheck(Authorizer):
    __slots__ = ()
    type_name = "kubernetes.authorization.ResourceCheck"


AUTHORIZER, DECISION = opaque(Authorizer), opaque(Answer)
PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK = opaque(PathCheck), opaque(GroupCheck), opaque(ResourceCheck)


def overloads() -> Iterator[Overload]:
    yield from methods(
        AUTHORIZER,
        ("path", [STRING], PATH_CHECK, lambda a, path: PathCheck(a.ask, replace(a.question, path=_path(path)))),
        ("group", [STRING], GROUP_CHECK, lambda a, group: GroupCheck(a.ask, replace(a.question, group=group))),
        ("serviceAccount", [STRING, STRING], AUTHORIZER, _as_account),
    )
    yield from methods(GROUP_CHECK, ("resource", [STRING], RESOURCE_CHECK, _resource))
    yield from methods(
        RESOURCE_CHECK,
        *((name, [STRING], RESOURCE_CHECK, _narrowed(field)) for name, field in _PARTS.items()),
    )
    yield Overload("check", (RESOURCE_CHECK, STRING), DECISION, _checked, True, lambda *_: _COST)
    yield Overload("check", (PATH_CHECK, STRING), DECISION, _checked, True, lambda *_: _COST)
    yield from methods(
        DECISION,
        ("allowed", [], BOOL, lambda answer: answer.is_allowed),
        ("reason", [], STRING, lambda answer: answer.reason),
        ("errored", [], BOOL, lambda answer: bool(answer.error)),
        ("error", [], STRING, lambda answer: answer.error),
    )


_PARTS: Final = {
    "subresource": "subresource",
    "namespace": "namespace",
    "name": "name",
    "fieldSelector": "field_selector",
    "labelSelector": "label_selector",
}


def _path(path: str) -> str:
    if not path:
        raise CelError("path must not be empty")
    return path


def _as_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    return Authorizer(authorizer.ask, replace(authorizer.question, account=f"{namespace}:{name}"))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource:
        raise CelError("resource must not be empty")
    return ResourceCheck(check.ask, replace(check.question, resource=resource))


def _narrowed(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    return lambda check, value: ResourceCheck(check.ask, replace(check.question, **{field: value}))


def _checked(check: Authorizer, verb: str) -> Answer:
    return check.ask(replace(check.question, verb=verb))
