"""Whatever comes and goes, no node is ever given more than it has, and no pod is put where its rules forbid it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.framework import Nominate
from tests.examples import examples
from tests.scheduler.both_schedulers import Pair, named
from tests.scheduler.scheduler_world import Obj, node_obj, pod_obj
from tests.scheduler.slow_cluster import SlowNode, host_ports, priority, requests
from tests.scheduler.slow_scheduler import reasons

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APPS, ZONES, TOPOLOGY = st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from(["zone", HOST])
TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}
RESOURCES = ("cpu", "memory", "test.dev/gpu")


@st.composite
def small_nodes(draw: st.DrawFn, name: str) -> Obj:
    more: dict[str, Any] = {"cpu": draw(st.integers(1, 4)), "memory": draw(st.sampled_from(["1Gi", "4Gi"]))}
    more |= {"gpu": draw(st.integers(0, 2)), "pods": draw(st.integers(1, 6))}
    more |= {"taints": [TAINT]} if draw(st.integers(0, 3)) == 0 else {}
    return node_obj(name, labels={"zone": draw(ZONES)} if draw(st.integers(0, 5)) else {}, **more)


@st.composite
def demanding_pods(draw: st.DrawFn) -> Obj:
    spec: dict[str, Any] = {"labels": {"app": draw(APPS)}, "priority": draw(st.integers(0, 2))}
    amounts = {"cpu": ["0", "500m", "1"], "memory": ["1", "700Mi"], "gpu": ["1"]}
    spec |= {key: draw(st.sampled_from(values)) for key, values in amounts.items() if draw(st.integers(0, 2)) == 0}
    if draw(st.integers(0, 3)) == 0:
        spec["ports"] = draw(st.lists(st.sampled_from([80, 81]), min_size=1, max_size=2, unique=True))
    selector = {"matchLabels": {"app": draw(APPS)}}
    if draw(st.integers(0, 3)) == 0:
        term = {"topologyKey": draw(TOPOLOGY), "labelSelector": selector}
        spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    if draw(st.integers(0, 3)) == 0:
        spread = {"maxSkew": draw(st.integers(1, 2)), "topologyKey": draw(TOPOLOGY), "labelSelector": selector}
        spec["topologySpreadConstraints"] = [spread | {"whenUnsatisfiable": "DoNotSchedule"}]
    if draw(st.integers(0, 2)) == 0:
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    return pod_obj("template", **spec)


class Life(RuleBasedStateMachine):
    """Nodes come and go and change, and few kinds of pods arrive, leave and drive each other away."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()
        self.kinds: list[Obj] = []
        self.count = 0

    @initialize(kinds=st.lists(demanding_pods(), min_size=2, max_size=5), node=small_nodes("n0"))
    def begin(self, kinds: list[Obj], node: Obj) -> None:
        self.kinds = kinds
        self.pair.set_node(node)

    @rule(data=st.data())
    def node_comes(self, data: st.DataObject) -> None:
        self.count += 1
        self.pair.set_node(data.draw(small_nodes(f"n{self.count}")))

    @precondition(lambda self: self.pair.slow.nodes)
    @rule(data=st.data(), unschedulable=st.booleans())
    def node_is_cordoned_or_not(self, data: st.DataObject, unschedulable: bool) -> None:
        obj = self.pair.slow.nodes[data.draw(st.sampled_from(sorted(self.pair.slow.nodes)))].obj
        self.pair.set_node(obj | {"spec": obj["spec"] | {"unschedulable": unschedulable}})

    @precondition(lambda self: self.pair.slow.nodes)
    @rule(data=st.data())
    def node_goes(self, data: st.DataObject) -> None:
        self.pair.remove_node(data.draw(st.sampled_from(sorted(self.pair.slow.nodes))))

    @rule(data=st.data(), number=st.integers(1, 3))
    def pods_come(self, data: st.DataObject, number: int) -> None:
        template = data.draw(st.sampled_from(self.kinds))
        for _ in range(number):
            self.count += 1
            self.goes_where_it_may(named(template, f"p{self.count}"))

    @precondition(lambda self: self.pair.placed)
    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        self.pair.remove_pod(data.draw(st.sampled_from(sorted(self.pair.placed))))

    def goes_where_it_may(self, obj: Obj) -> None:
        """Every rule of the pod's and of the others' holds at that moment; if there is no such node, room is made."""
        newcomer, pair = encoded(obj).view(Pod), self.pair
        decision = pair.real.decide(newcomer)
        allowed = {name for name in pair.slow.nodes if not reasons(obj, name, pair.slow)[0]}
        if isinstance(decision, Chosen):
            assert decision.node in allowed
            pair.place(obj, decision.node)
            return
        assert not allowed
        found = pair.real.preempt(newcomer)
        if isinstance(found, Nominate):
            for victim in found.victims:
                assert victim.pod.priority < priority(obj)
                pair.remove_pod(victim.key)
            assert not reasons(obj, found.node, pair.slow)[0]
            self.goes_where_it_may(obj)

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        for node in self.pair.slow.nodes.values():
            assert len(node.pods) <= node.allocatable("pods")
            for resource in RESOURCES:
                assert asked(node, resource) <= node.allocatable(resource)

    @invariant()
    def no_two_pods_of_a_node_share_a_port(self) -> None:
        for node in self.pair.slow.nodes.values():
            held = [port for pod in node.pods for port in host_ports(pod)]
            assert len(held) == len(set(held))

    @invariant()
    def pods_that_avoid_each_other_are_apart(self) -> None:
        """Labels of pods and nodes do not change here, so what held when they were bound holds on."""
        placed = list(self.pair.slow.placed())
        for where, pod in placed:
            for term in pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, []):
                place = where.labels.get(term["topologyKey"])
                for there, placed_pod in placed:
                    is_meant = (
                        placed_pod is not pod
                        and placed_pod["metadata"]["labels"] == term["labelSelector"]["matchLabels"]
                    )
                    assert not is_meant or place is None or there.labels.get(term["topologyKey"]) != place


def asked(node: SlowNode, resource: str) -> Fraction:
    return sum((requests(pod).get(resource, Fraction(0)) for pod in node.pods), Fraction(0))


Life.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25)
TestLife = Life.TestCase
