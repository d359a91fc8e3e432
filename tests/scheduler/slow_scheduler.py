"""A scheduler that is slow and obviously right: plain loops over plain dicts, one node and one rule after another.

It reads the API objects themselves, knows nothing of columns or caches, and is written from the documentation
of the default plugins. The real one must agree with it on every cluster that hypothesis can think of.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from tests.scheduler.slow_cluster import (
    Obj,
    SlowCluster,
    SlowNode,
    amount,
    host_ports,
    is_selected,
    is_tolerated,
    meets_all,
    priority,
    requests,
)
from tests.scheduler.slow_pod_relations import NO_LABEL as NO_SPREAD_LABEL
from tests.scheduler.slow_pod_relations import NOT_NEAR, affinity_reason, affinity_scores, spread_reason, spread_scores

WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
}
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def reasons(pod: Obj, name: str, cluster: SlowCluster) -> tuple[list[str], bool]:
    """Why the node will not do, and whether eviction might help; as if those were there whose nominations count."""
    uid = pod["metadata"]["uid"]
    rivals = [rival for rival in cluster.nodes[name].nominated if rival["metadata"]["uid"] != uid]
    respected = [rival for rival in rivals if priority(rival) >= priority(pod)]
    reasons = reasons_now(pod, name, cluster.beside(name, respected))
    return reasons if reasons[0] else reasons_now(pod, name, cluster)


def reasons_now(pod: Obj, name: str, cluster: SlowCluster) -> tuple[list[str], bool]:
    """The first rule that refuses speaks alone."""
    node = cluster.nodes[name]
    if node.obj["spec"].get("unschedulable"):
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if not is_tolerated(taint, pod):
            return ["node(s) were unschedulable"], False
    for taint in node.taints:
        if taint["effect"] != "PreferNoSchedule" and not is_tolerated(taint, pod):
            return ["node(s) had untolerated taint(s)"], False
    if not is_selected(pod, node):
        return ["node(s) didn't match Pod's node affinity/selector"], False
    if host_ports(pod) & node.ports:
        return ["node(s) didn't have free ports for the requested pod ports"], True
    lacking, can_help = [], True
    if len(node.pods) + 1 > node.allocatable("pods"):
        lacking.append("Too many pods")
    for resource, wanted in requests(pod).items():
        if wanted > 0 and wanted > node.allocatable(resource) - node.requested(resource):
            lacking.append(f"Insufficient {resource}")
            can_help = can_help and wanted <= node.allocatable(resource)
    if lacking:
        return lacking, can_help
    for rule in (spread_reason, affinity_reason):
        reason = rule(pod, node, cluster)
        if reason is not None:
            return [reason], reason not in (NO_SPREAD_LABEL, NOT_NEAR)
    return [], True


def raw_scores(pod: Obj, node: SlowNode) -> dict[str, int]:
    asked = requests(pod)
    unwelcoming = [
        taint for taint in node.taints if taint["effect"] == "PreferNoSchedule" and not is_tolerated(taint, pod)
    ]
    preferred = (
        pod["spec"]
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("preferredDuringSchedulingIgnoredDuringExecution", [])
    )
    matched = [
        preference["weight"]
        for preference in preferred
        if meets_all(preference["preference"]["matchExpressions"], node.labels)
    ]
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
        min(float(node.requested(resource) + asked.get(resource, 0)) / float(node.allocatable(resource)), 1.0)
        for resource in ("cpu", "memory")
        if node.allocatable(resource)
    ]
    deviation = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
    return int((1 - deviation) * 100.0)


def totals(pod: Obj, cluster: SlowCluster) -> dict[str, int]:
    """The total of every feasible node."""
    feasible = [node for name, node in cluster.nodes.items() if not reasons(pod, name, cluster)[0]]
    if not feasible:
        return {}
    raw = {node.name: raw_scores(pod, node) for node in feasible}
    most_taints = max(scores["TaintToleration"] for scores in raw.values())
    most_affinity = max(scores["NodeAffinity"] for scores in raw.values())
    spread, near = spread_scores(pod, feasible, cluster), affinity_scores(pod, feasible, cluster)
    for name, scores in raw.items():
        scores["TaintToleration"] = 100 - (scores["TaintToleration"] * 100 // most_taints if most_taints else 0)
        scores["NodeAffinity"] = scores["NodeAffinity"] * 100 // most_affinity if most_affinity else 0
        scores["PodTopologySpread"], scores["InterPodAffinity"] = spread[name], near[name]
    return {name: sum(WEIGHTS[plugin] * score for plugin, score in scores.items()) for name, scores in raw.items()}


def best(pod: Obj, cluster: SlowCluster) -> set[str]:
    found = totals(pod, cluster)
    return {name for name, total in found.items() if total == max(found.values())}


def lesser(pod: Obj, node: SlowNode) -> list[Obj]:
    """The pods that would have to give way."""
    return [placed for placed in node.pods if priority(placed) < priority(pod)]


def hopeless(pod: Obj, name: str, cluster: SlowCluster) -> list[str]:
    """Why driving pods away from a node that refuses the pod does not help; nothing if it does."""
    if not reasons(pod, name, cluster)[1]:
        return [NOT_HELPFUL]
    victims = lesser(pod, cluster.nodes[name])
    return reasons(pod, name, cluster.without(name, victims))[0] if victims else [NO_VICTIMS]


def message(pod: Obj, cluster: SlowCluster) -> str:
    """What is said of a pod that fits nowhere and cannot make room."""
    if not cluster.nodes:
        return "no nodes available to schedule pods"
    counts = Counter(text for name in cluster.nodes for text in reasons(pod, name, cluster)[0])
    unhelpful = Counter(text for name in cluster.nodes for text in hopeless(pod, name, cluster))
    head = f"0/{len(cluster.nodes)} nodes are available:"
    return f"{head} {listed(counts)} no new claims to deallocate, preemption: {head} {listed(unhelpful)}"


def listed(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {text}" for text, count in counts.items())) + "."
