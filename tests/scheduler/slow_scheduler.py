"""A scheduler that is slow and obviously right: plain loops over plain dicts, one node and one rule after another.

It reads the API objects themselves, knows nothing of columns, shapes or caches, and is written from the documentation
of the default plugins. The real one must agree with it on every cluster that hypothesis can think of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Obj = dict[str, Any]

WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1}
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


@dataclass
class SlowNode:
    obj: Obj
    pods: list[Obj] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def labels(self) -> Obj:
        return dict(self.obj["metadata"]["labels"])

    @property
    def taints(self) -> list[Obj]:
        return list(self.obj["spec"].get("taints", []))

    def allocatable(self, resource: str) -> Fraction:
        return amount(self.obj["status"]["allocatable"].get(resource, "0"))

    def requested(self, resource: str, default: str = "0") -> Fraction:
        return sum((requests(pod).get(resource, amount(default)) for pod in self.pods), Fraction(0))


def is_tolerated(taint: Obj, pod: Obj) -> bool:
    for one in pod["spec"].get("tolerations", []):
        same_key = not one.get("key") or one["key"] == taint["key"]
        same_effect = not one.get("effect") or one["effect"] == taint["effect"]
        same_value = one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")
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
    return all(meets(one, labels) for one in expressions)


def reasons(pod: Obj, node: SlowNode) -> tuple[list[str], bool]:
    """Why the node will not do, and whether eviction might help; the first rule that refuses speaks alone."""
    if node.obj["spec"].get("unschedulable"):
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if not is_tolerated(taint, pod):
            return ["node(s) were unschedulable"], False
    for taint in node.taints:
        if taint["effect"] != "PreferNoSchedule" and not is_tolerated(taint, pod):
            return ["node(s) had untolerated taint(s)"], False
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    is_selected = all(node.labels.get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())
    terms = required["nodeSelectorTerms"] if required else None
    if not is_selected or (
        terms is not None and not any(meets_all(term["matchExpressions"], node.labels) for term in terms)
    ):
        return ["node(s) didn't match Pod's node affinity/selector"], False
    if any(host_ports(pod) & host_ports(other) for other in node.pods):
        return ["node(s) didn't have free ports for the requested pod ports"], True
    lacking, can_help = [], True
    if len(node.pods) + 1 > node.allocatable("pods"):
        lacking.append("Too many pods")
    for resource, wanted in requests(pod).items():
        if wanted > 0 and wanted > node.allocatable(resource) - node.requested(resource):
            lacking.append(f"Insufficient {resource}")
            can_help = can_help and wanted <= node.allocatable(resource)
    return lacking, can_help


def raw_scores(pod: Obj, node: SlowNode) -> dict[str, int]:
    asked = requests(pod)
    unwelcoming = [one for one in node.taints if one["effect"] == "PreferNoSchedule" and not is_tolerated(one, pod)]
    preferred = (
        pod["spec"]
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("preferredDuringSchedulingIgnoredDuringExecution", [])
    )
    matched = [one["weight"] for one in preferred if meets_all(one["preference"]["matchExpressions"], node.labels)]
    scores = {
        "TaintToleration": len(unwelcoming),
        "NodeAffinity": sum(matched),
        "NodeResourcesFit": least_allocated(asked, node),
    }
    if asked.get("cpu") or asked.get("memory"):
        before = balance(node, {})
        scores["NodeResourcesBalancedAllocation"] = 50 + (50 + balance(node, asked) - before) // 2
    return scores


def least_allocated(asked: dict[str, Fraction], node: SlowNode) -> int:
    shares = []
    for resource, default in (("cpu", "100m"), ("memory", "200Mi")):
        offered = node.allocatable(resource)
        if offered:
            left = offered - node.requested(resource, default) - asked.get(resource, amount(default))
            shares.append(max(left, Fraction(0)) * 100 // offered)
    return int(sum(shares) // len(shares)) if shares else 0


def balance(node: SlowNode, asked: dict[str, Fraction]) -> int:
    """Upstream computes with float64, so this does too."""
    fractions = [
        min(float(node.requested(one) + asked.get(one, 0)) / float(node.allocatable(one)), 1.0)
        for one in ("cpu", "memory")
        if node.allocatable(one)
    ]
    deviation = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
    return int((1 - deviation) * 100.0)


def totals(pod: Obj, nodes: list[SlowNode]) -> dict[str, int]:
    """The total of every feasible node."""
    raw = {node.name: raw_scores(pod, node) for node in nodes if not reasons(pod, node)[0]}
    most_taints = max((scores["TaintToleration"] for scores in raw.values()), default=0)
    most_affinity = max((scores["NodeAffinity"] for scores in raw.values()), default=0)
    for scores in raw.values():
        scores["TaintToleration"] = 100 - (scores["TaintToleration"] * 100 // most_taints if most_taints else 0)
        scores["NodeAffinity"] = scores["NodeAffinity"] * 100 // most_affinity if most_affinity else 0
    return {name: sum(WEIGHTS[plugin] * score for plugin, score in scores.items()) for name, scores in raw.items()}


def best(pod: Obj, nodes: list[SlowNode]) -> set[str]:
    found = totals(pod, nodes)
    return {name for name, total in found.items() if total == max(found.values())}


def message(pod: Obj, nodes: list[SlowNode]) -> str:
    """What is said of a pod that fits nowhere."""
    if not nodes:
        return "no nodes available to schedule pods"
    told = [reasons(pod, node) for node in nodes]
    counts = Counter(text for texts, _ in told for text in texts)
    hopeless = Counter(
        "No preemption victims found for incoming pod" if can_help else "Preemption is not helpful for scheduling"
        for _, can_help in told
    )
    head = f"0/{len(nodes)} nodes are available:"
    return f"{head} {listed(counts)} no new claims to deallocate, preemption: {head} {listed(hopeless)}"


def listed(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {text}" for text, count in counts.items())) + "."
