"""The vectorised, cached decision is the plain one's, on any cluster and after any history."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Node, Pod
from fairlead.scheduler.decide import Chosen
from tests.scheduler.scheduler_world import Cluster, node_obj, pod_obj
from tests.scheduler.slow_scheduler import SlowNode, best, message

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
def nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    more: dict[str, Any] = {"cpu": draw(CPU), "memory": draw(MEMORY), "pods": draw(st.sampled_from([1, 3, 110]))}
    if draw(st.booleans()):
        more["gpu"] = draw(st.integers(0, 2))
    if draw(st.integers(0, 4)) == 0:
        more["unschedulable"] = True
    taints = draw(st.lists(TAINTS, max_size=2, unique_by=lambda one: (one["key"], one["effect"])))
    return node_obj(name, labels=draw(st.dictionaries(KEYS, VALUES)), taints=taints, **more)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    more: dict[str, Any] = {"tolerations": draw(st.lists(TOLERATIONS, max_size=2))}
    for one in more["tolerations"]:
        one.setdefault("operator", "Exists")
    for key, values in (("cpu", CPU), ("memory", MEMORY), ("gpu", st.integers(0, 2))):
        if draw(st.booleans()):
            more[key] = draw(values)
    if draw(st.integers(0, 3)) == 0:
        more["ports"] = [draw(st.sampled_from([80, 81]))]
    if draw(st.integers(0, 3)) == 0:
        more["nodeSelector"] = draw(st.dictionaries(KEYS, VALUES, min_size=1))
    affinity: dict[str, Any] = {}
    if draw(st.integers(0, 3)) == 0:
        terms = [{"matchExpressions": one} for one in draw(st.lists(EXPRESSIONS, min_size=1, max_size=2))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw(st.integers(0, 2)) == 0:
        preferred = draw(st.lists(st.tuples(st.integers(1, 100), EXPRESSIONS), min_size=1, max_size=2))
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": {"matchExpressions": one}} for weight, one in preferred
        ]
    return pod_obj("template", affinity={"nodeAffinity": affinity}, **more)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_decisions_and_messages_agree_after_any_history(data: st.DataObject) -> None:
    """Nodes come, change and go; few kinds of pods arrive again and again and leave: caches are used all the time."""
    cluster, slow = Cluster(), dict[str, SlowNode]()
    kinds = data.draw(st.lists(pods(), min_size=1, max_size=3))
    placed: dict[str, str] = {}
    for step in range(data.draw(st.integers(1, 20))):
        action = data.draw(st.sampled_from(["node", "pod", "pod", "pod", "gone", "node gone"]))
        if action == "node":
            obj = data.draw(nodes(f"n{data.draw(st.integers(0, 4))}"))
            name = obj["metadata"]["name"]
            cluster.snapshot.set_node(encoded(obj).view(Node))
            slow[name] = SlowNode(obj, slow[name].pods if name in slow else [])
        elif action == "node gone" and slow:
            _remove_node(cluster, slow, placed, data.draw(st.sampled_from(sorted(slow))))
        elif action == "gone" and placed:
            _remove_pod(cluster, slow, placed, data.draw(st.sampled_from(sorted(placed))))
        elif action == "pod":
            obj = data.draw(st.sampled_from(kinds))
            _decide(cluster, slow, placed, obj | {"metadata": obj["metadata"] | {"name": f"p{step}"}})


def _decide(cluster: Cluster, slow: dict[str, SlowNode], placed: dict[str, str], obj: dict[str, Any]) -> None:
    one = encoded(obj).view(Pod)
    decision = cluster.decide(one)
    expected = best(obj, list(slow.values()))
    if isinstance(decision, Chosen):
        assert decision.node in expected
        assert cluster.best(one) == expected
        cluster.assume(one, decision.row)
        slow[decision.node].pods.append(obj)
        placed[one.metadata.key] = decision.node
    else:
        assert not expected
        assert cluster.message(one, whole=True) == message(obj, list(slow.values()))


def _remove_pod(cluster: Cluster, slow: dict[str, SlowNode], placed: dict[str, str], key: str) -> None:
    cluster.snapshot.remove(key)
    on_node = slow[placed.pop(key)].pods
    on_node[:] = [pod for pod in on_node if f"default/{pod['metadata']['name']}" != key]


def _remove_node(cluster: Cluster, slow: dict[str, SlowNode], placed: dict[str, str], name: str) -> None:
    for key in [key for key, where in placed.items() if where == name]:
        _remove_pod(cluster, slow, placed, key)
    cluster.snapshot.remove_node(name)
    del slow[name]
