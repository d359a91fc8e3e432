"""A pod as the rules look at it, and the phrases of which their texts are made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, TypeAlias

from fairlead.api.objects import Obj, metadata
from fairlead.kinds.podspec.visiting import each_container


class CheckedContainer(NamedTuple):
    name: str
    fields: Obj
    context: Obj  # its securityContext


class CheckedPod:
    """A pod, or the template of one."""

    __slots__ = ("annotations", "containers", "context", "spec")

    def __init__(self, pod: Obj) -> None:
        self.annotations: dict[str, str] = metadata(pod).get("annotations") or {}
        self.spec: Obj = pod.get("spec") or {}
        self.context: Obj = self.spec.get("securityContext") or {}
        #: Of every sort: init containers, containers, ephemeral containers.
        self.containers = [
            CheckedContainer(container.get("name", ""), container, container.get("securityContext") or {})
            for container in each_container(self.spec)
        ]

    @property
    def is_for_windows(self) -> bool:
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """Whether its user ids are those of a user namespace of its own: its root is nobody on the node (KEP-127)."""
        return self.spec.get("hostUsers") is False

    def containers_with(self, is_so: Callable[[Obj], Any]) -> list[str]:
        """The names of the containers whose security context is so."""
        return [container.name for container in self.containers if is_so(container.context)]


class Violation(NamedTuple):
    """Why a rule does not allow a pod: in short, and which parts of it are to blame."""

    reason: str
    detail: str


#: A rule of the standards; None: the pod keeps to it.
Rule: TypeAlias = Callable[[CheckedPod], Violation | None]


def listed(items: Iterable[str]) -> str:
    """`"a", "b"`, not escaped."""
    return ", ".join(f'"{item}"' for item in items)


def counted(noun: str, items: Collection[object]) -> str:
    """The noun in singular or plural."""
    return noun if len(items) == 1 else f"{noun}s"


def named(noun: str, names: Collection[str]) -> str:
    """`containers "a", "b"`."""
    return f"{counted(noun, names)} {listed(names)}"


def use(users: Collection[object]) -> str:
    """The verb of so many."""
    return "uses" if len(users) == 1 else "use"


def setters(containers: Collection[str], *, pod: bool) -> str:
    """Who sets something: `pod and container "a"`; empty if nobody does."""
    found = ["pod"] if pod else []
    if containers:
        found.append(named("container", containers))
    return " and ".join(found)


def but_own_users(rule: Rule) -> Rule:
    """The rule for other pods than those with a user namespace (since 1.35)."""
    return lambda pod: None if pod.has_own_users else rule(pod)


def but_windows(rule: Rule) -> Rule:
    """The rule for other pods than those of Windows, which lacks what the rule is about (since 1.25)."""
    return lambda pod: None if pod.is_for_windows else rule(pod)
