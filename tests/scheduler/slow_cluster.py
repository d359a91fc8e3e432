"""What the slow scheduler reads: API objects in plain dicts, and questions about one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

Obj = dict[str, Any]

MIB = 1024 * 1024
UNITS: dict[str, Fraction | int] = {"m": Fraction(1, 1000), "Ki": 1024, "Mi": MIB, "Gi": 1024 * MIB}


def amount(text: str) -> Fraction:
    for suffix, unit in UNITS.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * unit
    return Fraction(text)


def requests(pod: Obj) -> dict[str, Fraction]:
    """Of pods with one container, as the tests make them."""
    return {name: amount(text) for name, text in pod["spec"]["containers"][0]["resources"]["requests"].items()}


def host_ports(pod: Obj) -> set[int]:
    return {port["hostPort"] for port in pod["spec"]["containers"][0].get("ports", [])}


def priority(pod: Obj) -> int:
    return int(pod["spec"]["priority"])


@dataclass
class SlowNode:
    obj: Obj
    pods: list[Obj] = field(default_factory=list)
    #: Taken on the node: a set, from which whoever leaves takes his own, even if somebody else holds the same.
    ports: set[int] = field(default_factory=set)
    #: Pods that are only supposed to be gone, and those that are only supposed to be there.
    gone: list[Obj] = field(default_factory=list)
    come: list[Obj] = field(default_factory=list)
    #: Pods that wait for room here.
    nominated: list[Obj] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def labels(self) -> Obj:
        return dict(self.obj["metadata"]["labels"])

    @property
    def taints(self) -> list[Obj]:
        return list(self.obj["spec"].get("taints", []))

    def add(self, pod: Obj) -> None:
        self.pods.append(pod)
        self.ports |= host_ports(pod)

    def remove(self, pod: Obj) -> None:
        self.pods.remove(pod)
        self.ports -= host_ports(pod)

    def allocatable(self, resource: str) -> Fraction:
        return amount(self.obj["status"]["allocatable"].get(resource, "0"))

    def requested(self, resource: str, default: str = "0") -> Fraction:
        return sum((requests(pod).get(resource, amount(default)) for pod in self.pods), Fraction(0))


@dataclass
class SlowCluster:
    nodes: dict[str, SlowNode] = field(default_factory=dict)
    #: Their labels, by name.
    namespaces: dict[str, Obj] = field(default_factory=dict)
    services: list[Obj] = field(default_factory=list)

    def placed(self) -> Iterator[tuple[SlowNode, Obj]]:
        """Every pod, with its node."""
        return ((node, pod) for node in self.nodes.values() for pod in node.pods)

    def without(self, name: str, pods: Iterable[Obj]) -> SlowCluster:
        """As it would be if these pods of that node were gone."""
        node = self.nodes[name]
        node = replace(node, pods=list(node.pods), ports=set(node.ports), gone=list(node.gone))
        for pod in pods:
            node.remove(pod)
            node.gone.append(pod)
        return replace(self, nodes=self.nodes | {name: node})

    def beside(self, name: str, pods: Iterable[Obj]) -> SlowCluster:
        """As it would be if these pods were on that node too."""
        node = self.nodes[name]
        node = replace(node, pods=list(node.pods), ports=set(node.ports), come=list(node.come))
        for pod in pods:
            node.add(pod)
            node.come.append(pod)
        return replace(self, nodes=self.nodes | {name: node})


def is_tolerated(taint: Obj, pod: Obj) -> bool:
    for toleration in pod["spec"].get("tolerations", []):
        same_key = not toleration.get("key") or toleration["key"] == taint["key"]
        same_effect = not toleration.get("effect") or toleration["effect"] == taint["effect"]
        same_value = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
        if same_key and same_effect and same_value:
            return True
    return False


def meets(expression: Obj, labels: Obj) -> bool:
    key, values = expression["key"], expression.get("values", [])
    return {
        "In": key in labels and labels[key] in values,
        "NotIn": key not in labels or labels[key] not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[expression["operator"]]


def meets_all(expressions: list[Obj], labels: Obj) -> bool:
    return all(meets(expression, labels) for expression in expressions)


def selects(selector: Obj | None, labels: Obj) -> bool:
    """A label selector: none at all selects nothing, an empty one everything."""
    if selector is None:
        return False
    is_equal = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return is_equal and meets_all(selector.get("matchExpressions", []), labels)


def is_selected(pod: Obj, node: SlowNode) -> bool:
    """Whether the node meets the pod's node selector and what its node affinity requires."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] if required else None
    is_equal = all(node.labels.get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())
    return is_equal and (terms is None or any(meets_all(term["matchExpressions"], node.labels) for term in terms))
