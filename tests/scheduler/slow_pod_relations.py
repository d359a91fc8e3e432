"""The rules about other pods, plainly: InterPodAffinity and PodTopologySpread, pod by pod and node by node."""

from __future__ import annotations

import math

from tests.scheduler.slow_cluster import Obj, SlowCluster, SlowNode, is_selected, is_tolerated, selects

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
OTHERS_APART = "node(s) didn't satisfy existing pods anti-affinity rules"
TOO_SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{TOO_SKEWED} (missing required label)"


# --- InterPodAffinity -----------------------------------------------------------------------------------------------


def required(pod: Obj, kind: str) -> list[Obj]:
    affinity = pod["spec"].get("affinity", {}).get(kind, {})
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution", []))


def preferred(pod: Obj) -> list[tuple[int, Obj]]:
    """The terms with their weights, which are negative for what it avoids."""
    affinity, key = pod["spec"].get("affinity", {}), "preferredDuringSchedulingIgnoredDuringExecution"
    near = [(term["weight"], term["podAffinityTerm"]) for term in affinity.get("podAffinity", {}).get(key, [])]
    apart = [(-term["weight"], term["podAffinityTerm"]) for term in affinity.get("podAntiAffinity", {}).get(key, [])]
    return near + apart


def means(term: Obj, owner: Obj, target: Obj, cluster: SlowCluster) -> bool:
    """Whether the owner's term is about the other pod."""
    namespace = target["metadata"]["namespace"]
    named, selector = term.get("namespaces", []), term.get("namespaceSelector")
    if not named and selector is None:
        is_in = namespace == owner["metadata"]["namespace"]
    else:
        is_in = namespace in named or selects(selector, cluster.namespaces.get(namespace, {}))
    return is_in and selects(term.get("labelSelector"), target["metadata"]["labels"])


def is_near(term: Obj, node: SlowNode, peer: SlowNode) -> bool:
    key = term["topologyKey"]
    return key in node.labels and key in peer.labels and node.labels[key] == peer.labels[key]


def affinity_reason(pod: Obj, node: SlowNode, cluster: SlowCluster) -> str | None:
    """Why the node will not do; terminating pods count like all others."""
    near = required(pod, "podAffinity")
    if near and not finds_company(pod, near, node, cluster):
        return NOT_NEAR
    for where, placed in cluster.placed():
        for term in required(pod, "podAntiAffinity"):
            if is_near(term, node, where) and means(term, pod, placed, cluster):
                return NOT_APART
    for where, placed in cluster.placed():
        for term in required(placed, "podAntiAffinity"):
            if is_near(term, node, where) and means(term, placed, pod, cluster):
                return OTHERS_APART
    return None


def finds_company(pod: Obj, terms: list[Obj], node: SlowNode, cluster: SlowCluster) -> bool:
    """Pods that all terms mean are near by each term; or there are none anywhere, and it is such a pod itself."""
    if any(term["topologyKey"] not in node.labels for term in terms):
        return False
    meant = [(where, placed) for where, placed in cluster.placed() if means_all(terms, pod, placed, cluster)]
    if all(any(is_near(term, node, where) for where, _ in meant) for term in terms):
        return True
    is_first = not any(term["topologyKey"] in where.labels for term in terms for where, _ in meant)
    return is_first and means_all(terms, pod, pod, cluster)


def means_all(terms: list[Obj], owner: Obj, target: Obj, cluster: SlowCluster) -> bool:
    return all(means(term, owner, target, cluster) for term in terms)


def affinity_scores(pod: Obj, feasible: list[SlowNode], cluster: SlowCluster) -> dict[str, int]:
    raw = {node.name: pull(pod, node, cluster) for node in feasible}
    least, most = min(raw.values()), max(raw.values())
    if least == most:
        return dict.fromkeys(raw, 0)
    return {name: int(100.0 * (float(score - least) / float(most - least))) for name, score in raw.items()}


def pull(pod: Obj, node: SlowNode, cluster: SlowCluster) -> int:
    """What draws the pod to the node, less what repels it; what others require to be near counts 1."""
    total = 0
    for where, placed in cluster.placed():
        theirs = preferred(placed) + [(1, term) for term in required(placed, "podAffinity")]
        for weight, term in preferred(pod):
            total += weight * (is_near(term, node, where) and means(term, pod, placed, cluster))
        for weight, term in theirs:
            total += weight * (is_near(term, node, where) and means(term, placed, pod, cluster))
    return total


# --- PodTopologySpread ----------------------------------------------------------------------------------------------


def constraints(pod: Obj, when: str) -> list[Obj]:
    listed = pod["spec"].get("topologySpreadConstraints", [])
    return [rule for rule in listed if rule["whenUnsatisfiable"] == when]


def is_about(rule: Obj, pod: Obj, counted: Obj) -> bool:
    """Whether the rule of the pod means the other one."""
    mine, theirs = pod["metadata"], counted["metadata"]
    same = [key for key in rule.get("matchLabelKeys", []) if key in mine["labels"]]
    return (
        mine["namespace"] == theirs["namespace"]
        and selects(rule.get("labelSelector"), theirs["labels"])
        and all(theirs["labels"].get(key) == mine["labels"][key] for key in same)
    )


def counts(rule: Obj, pod: Obj, counted: Obj) -> bool:
    """Whether the rule counts a pod that is there: not one that is going away, and nobody if it means everybody."""
    selector, labels = rule.get("labelSelector") or {}, pod["metadata"]["labels"]
    says_something = any(selector.values()) or any(key in labels for key in rule.get("matchLabelKeys", []))
    return says_something and "deletionTimestamp" not in counted["metadata"] and is_about(rule, pod, counted)


def counted_on(rule: Obj, pod: Obj, node: SlowNode) -> int:
    """Who is supposed to be there, or not to be, is counted or missed even if the rule would not count it."""
    real = [*(placed for placed in node.pods if not any(placed is arrived for arrived in node.come)), *node.gone]
    supposed = sum(is_about(rule, pod, changed) for changed in node.come) - sum(
        is_about(rule, pod, changed) for changed in node.gone
    )
    return sum(counts(rule, pod, placed) for placed in real) + supposed


def has_labels(rules: list[Obj], node: SlowNode) -> bool:
    return all(rule["topologyKey"] in node.labels for rule in rules)


def is_included(rule: Obj, pod: Obj, node: SlowNode) -> bool:
    """KEP-3094."""
    if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not is_selected(pod, node):
        return False
    binding = [taint for taint in node.taints if taint["effect"] != "PreferNoSchedule"]
    return rule.get("nodeTaintsPolicy", "Ignore") == "Ignore" or all(is_tolerated(taint, pod) for taint in binding)


def by_domain(rule: Obj, rules: list[Obj], pod: Obj, cluster: SlowCluster) -> dict[str, int]:
    """How many pods are counted in each domain, over the nodes that count."""
    found: dict[str, int] = {}
    for node in cluster.nodes.values():
        if has_labels(rules, node) and is_included(rule, pod, node):
            domain = node.labels[rule["topologyKey"]]
            found[domain] = found.get(domain, 0) + counted_on(rule, pod, node)
    return found


def spread_reason(pod: Obj, node: SlowNode, cluster: SlowCluster) -> str | None:
    rules = constraints(pod, "DoNotSchedule")
    for rule in rules:
        if rule["topologyKey"] not in node.labels:
            return NO_LABEL
        domains = by_domain(rule, rules, pod, cluster)
        least = min(domains.values()) if len(domains) >= rule.get("minDomains", 1) else 0
        there = domains.get(node.labels[rule["topologyKey"]], 0)
        if there + is_about(rule, pod, pod) - least > rule["maxSkew"]:
            return TOO_SKEWED
    return None


def defaults(pod: Obj, cluster: SlowCluster) -> list[Obj]:
    """The system's rules, for a pod that services select: they count who is selected by all of these services."""
    namespace, labels, chosen = pod["metadata"]["namespace"], pod["metadata"]["labels"], dict[str, str]()
    for service in cluster.services:
        selector = service["spec"]["selector"]
        if service["metadata"]["namespace"] == namespace and selects({"matchLabels": selector}, labels):
            chosen |= selector
    rule = {"whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": chosen}}
    return [rule | {"topologyKey": key, "maxSkew": skew} for key, skew in ((HOSTNAME, 3), (ZONE, 5)) if chosen]


def spread_scores(pod: Obj, feasible: list[SlowNode], cluster: SlowCluster) -> dict[str, int]:
    """Nodes without all the labels are ignored, and get 0, unless the rules are the system's."""
    is_default = not pod["spec"].get("topologySpreadConstraints")
    rules = defaults(pod, cluster) if is_default else constraints(pod, "ScheduleAnyway")
    scored = [node for node in feasible if is_default or has_labels(rules, node)]
    scores = dict.fromkeys([node.name for node in feasible], 0)
    if not rules or not scored:
        return scores
    raw = {node.name: math.floor(amounts(pod, node, rules, scored, cluster) + 0.5) for node in scored}
    least, most = min(raw.values()), max(raw.values())
    return scores | {name: 100 * (most + least - score) // most if most else 100 for name, score in raw.items()}


def amounts(pod: Obj, node: SlowNode, rules: list[Obj], scored: list[SlowNode], cluster: SlowCluster) -> float:
    """Upstream computes with float64, so this does too. Hosts are nodes, whatever their label says; a node without
    the label of one of the system's rules gets nothing by it, but adds a domain.
    """
    total = 0.0
    for rule in rules:
        key = rule["topologyKey"]
        if key not in node.labels:
            continue
        if key == HOSTNAME:
            size, count = len(scored), counted_on(rule, pod, node)
        else:
            needed = rules if pod["spec"].get("topologySpreadConstraints") else [rule]
            size = len({score.labels.get(key) for score in scored})
            count = by_domain(rule, needed, pod, cluster).get(node.labels[key], 0)
        total += count * math.log(size + 2) + (rule["maxSkew"] - 1)
    return total
