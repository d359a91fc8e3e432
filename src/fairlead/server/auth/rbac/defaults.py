"""The roles and bindings that every cluster has, from the table `defaults.txt`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.roles import CLUSTER_ROLE, GROUP, GROUP_SUBJECT, ROLE, SERVICE_ACCOUNT, USER

_VERBS: Final = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
    "all": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
}
_CONTROLLER: Final = "system:controller:"
_SYSTEM: Final = "kube-system"
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_API_VERSION: Final = f"{GROUP}/v1"
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"


@cache
def default_policy() -> tuple[Obj, ...]:
    """All of them, roles before the bindings that name them."""
    found: list[Obj] = []
    for words, lines in _entries(files(__package__).joinpath("defaults.txt").read_text("utf-8")):
        match words:
            case ["clusterrole", name, *sums]:
                found.append(_cluster_role(name, sums, lines))
            case ["role", namespace, name]:
                found.append(_object(ROLE, name, namespace) | {"rules": [_rule(line) for line in lines]})
            case ["controller", name]:
                found.append(_cluster_role(f"{_CONTROLLER}{name}", [], lines))
                found.append(_binding(f"{_CONTROLLER}{name}", [f"sa:{_SYSTEM}:{name}"]))
            case ["bind", namespace, role, "as", name, *subjects]:
                found.append(_binding(role, subjects, namespace, name))
            case ["bind", namespace, role, *subjects] if namespace.startswith("kube-"):
                found.append(_binding(role, subjects, namespace))
            case ["bind", role, *subjects]:
                found.append(_binding(role, subjects))
            case _:
                raise ValueError(f"defaults.txt: {' '.join(words)}")
    return tuple(found)


def component_policy(user: str, rules: Iterable[Obj]) -> tuple[Obj, ...]:
    """The role of a component that Kubernetes does not know, and its binding; both are called as the component is."""
    return _object(CLUSTER_ROLE, user) | {"rules": list(rules)}, _binding(user, [f"user:{user}"])


def _entries(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The words of each entry, and the lines below it."""
    words: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            lines.append(line.strip())
            continue
        if words:
            yield words, lines
        words, lines = line.split(), []
    yield words, lines


def _object(kind: str, name: str, namespace: str = "") -> Obj:
    meta: Obj = {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {AUTO_UPDATE: "true"},
    }
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": meta}


def _cluster_role(name: str, sums: list[str], lines: list[str]) -> Obj:
    role = _object(CLUSTER_ROLE, name)
    role["rules"] = [_rule(line) for line in lines] or None
    for text in sums:
        what, _, label = text.partition("=")
        if what == "to":
            role["metadata"]["labels"][f"{_AGGREGATE}{label}"] = "true"
        else:
            role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {f"{_AGGREGATE}{label}": "true"}}]}
    return role


def _rule(line: str) -> Obj:
    scope, _, rest = line.partition(": ")
    verb, _, group = scope.partition(" ")
    verbs = list(_VERBS.get(verb) or verb.split(","))
    rest, _, names = rest.partition(" [")
    if group == "url":
        return {"verbs": verbs, "nonResourceURLs": rest.split()}
    groups = ["" if name == "core" else name for name in group.split("+")]
    rule: Obj = {"verbs": verbs, "apiGroups": sorted(groups), "resources": rest.split()}
    return rule | ({"resourceNames": names.rstrip("]").split()} if names else {})


def _binding(role: str, subjects: list[str], namespace: str = "", name: str = "") -> Obj:
    binding = _object("RoleBinding" if namespace else "ClusterRoleBinding", name or role, namespace)
    binding["roleRef"] = {"apiGroup": GROUP, "kind": ROLE if namespace else CLUSTER_ROLE, "name": role}
    binding["subjects"] = [_subject(text) for text in subjects] or None
    return binding


def _subject(text: str) -> Obj:
    kind, _, name = text.partition(":")
    if kind == "sa":
        namespace, _, name = name.partition(":")
        return {"kind": SERVICE_ACCOUNT, "name": name, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": USER if kind == "user" else GROUP_SUBJECT, "name": name}
