"""Nodes and pods that hypothesis makes up: few labels, taints and terms, so that they often meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.scheduler.scheduler_world import node_obj, pod_obj
from tests.scheduler.slow_cluster import Obj

KEYS, VALUES = st.sampled_from("ab"), st.sampled_from("xy")
TAINTS = st.fixed_dictionaries(
    {"key": KEYS, "value": VALUES, "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])}
)
TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["a", "b", "node.kubernetes.io/unschedulable"]),
        "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
    },
) | st.fixed_dictionaries({"key": KEYS, "operator": st.just("Equal"), "value": VALUES})
EXPRESSIONS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1, max_size=2)}
    )
    | st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    min_size=1,
    max_size=2,
)
CPU = st.sampled_from(["0", "1m", "333m", "500m", "1", "1900m", "3"])
MEMORY = st.sampled_from(["0", "1", "1000Ki", "700Mi", "1Gi", "3Gi"])


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Obj:
    more: dict[str, Any] = {"cpu": draw(CPU), "memory": draw(MEMORY), "pods": draw(st.sampled_from([1, 3, 110]))}
    if draw(st.booleans()):
        more["gpu"] = draw(st.integers(0, 2))
    if draw(st.integers(0, 4)) == 0:
        more["unschedulable"] = True
    taints = draw(st.lists(TAINTS, max_size=2, unique_by=lambda taint: (taint["key"], taint["effect"])))
    return node_obj(name, labels=draw(st.dictionaries(KEYS, VALUES)), taints=taints, **more)


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    more: dict[str, Any] = {"tolerations": draw(st.lists(TOLERATIONS, max_size=2))}
    for toleration in more["tolerations"]:
        toleration.setdefault("operator", "Exists")
    for key, values in (("cpu", CPU), ("memory", MEMORY), ("gpu", st.integers(0, 2))):
        if draw(st.booleans()):
            more[key] = draw(values)
    if draw(st.integers(0, 3)) == 0:
        more["ports"] = [draw(st.sampled_from([80, 81]))]
    if draw(st.integers(0, 3)) == 0:
        more["nodeSelector"] = draw(st.dictionaries(KEYS, VALUES, min_size=1))
    affinity: Obj = {}
    if draw(st.integers(0, 3)) == 0:
        terms = [{"matchExpressions": expression} for expression in draw(st.lists(EXPRESSIONS, min_size=1, max_size=2))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw(st.integers(0, 2)) == 0:
        preferred = draw(st.lists(st.tuples(st.integers(1, 100), EXPRESSIONS), min_size=1, max_size=2))
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": {"matchExpressions": term}} for weight, term in preferred
        ]
    return pod_obj("template", affinity={"nodeAffinity": affinity}, **more)


# --- pods about other pods ------------------------------------------------------------------------------------------

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMESPACES = st.sampled_from(["default", "other"])
TOPOLOGY = st.sampled_from(["a", "b", HOST])
SELECTORS = (
    st.fixed_dictionaries({"matchLabels": st.dictionaries(KEYS, VALUES, min_size=1)})
    | st.fixed_dictionaries({"matchExpressions": EXPRESSIONS})
    | st.just(dict[str, Any]())
)
TERMS = st.fixed_dictionaries(
    {"topologyKey": TOPOLOGY, "labelSelector": SELECTORS},
    optional={"namespaces": st.lists(NAMESPACES, min_size=1, max_size=2), "namespaceSelector": SELECTORS},
)
WEIGHTED = st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": TERMS})
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(TERMS, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(WEIGHTED, max_size=2),
    },
)
POLICIES = st.sampled_from(["Honor", "Ignore"])
CONSTRAINTS = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": TOPOLOGY,
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": SELECTORS,
    },
    optional={
        "nodeAffinityPolicy": POLICIES,
        "nodeTaintsPolicy": POLICIES,
        "matchLabelKeys": st.lists(KEYS, min_size=1, max_size=1),
    },
)


@st.composite
def constraints(draw: st.DrawFn) -> Obj:
    found = draw(CONSTRAINTS)
    if found["whenUnsatisfiable"] == "DoNotSchedule" and draw(st.booleans()):
        found["minDomains"] = draw(st.integers(1, 3))
    return found


@st.composite
def roomy_nodes(draw: st.DrawFn, name: str) -> Obj:
    """Nodes that differ in labels and taints above all."""
    labels = draw(st.dictionaries(KEYS, VALUES))
    if draw(st.integers(0, 7)) == 0:
        labels[HOST] = "shared"
    if draw(st.booleans()):
        labels[ZONE] = draw(VALUES)
    taints = draw(st.lists(TAINTS, max_size=1)) if draw(st.integers(0, 3)) == 0 else []
    return node_obj(name, labels=labels, taints=taints, pods=draw(st.sampled_from([3, 110])))


@st.composite
def services(draw: st.DrawFn, name: str) -> Obj:
    selector = draw(st.dictionaries(KEYS, VALUES, min_size=1))
    return {"metadata": {"name": name, "namespace": draw(NAMESPACES)}, "spec": {"selector": selector}}


@st.composite
def social_pods(draw: st.DrawFn) -> Obj:
    spec: dict[str, Any] = {"labels": draw(st.dictionaries(KEYS, VALUES))}
    affinity = {kind: draw(AFFINITIES) for kind in ("podAffinity", "podAntiAffinity") if draw(st.booleans())}
    if affinity:
        spec["affinity"] = affinity
    if draw(st.booleans()):
        unique = st.lists(
            constraints(),
            min_size=1,
            max_size=2,
            unique_by=lambda rule: (rule["topologyKey"], rule["whenUnsatisfiable"]),
        )
        spec["topologySpreadConstraints"] = draw(unique)
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = draw(st.dictionaries(KEYS, VALUES, min_size=1, max_size=1))
    if draw(st.integers(0, 3)) == 0:
        spec["tolerations"] = [{"operator": "Exists"}]
    pod = pod_obj("template", **spec)
    pod["metadata"]["namespace"] = draw(NAMESPACES)
    return pod
