"""One cluster as both schedulers see it, the real one and the slow one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Node, Pod
from fairlead.api.services import Service
from fairlead.runtime import rng
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.framework import Nominate, NoRoom
from tests.scheduler.scheduler_world import Cluster
from tests.scheduler.slow_cluster import Obj, SlowCluster, SlowNode
from tests.scheduler.slow_preemption import best_plans
from tests.scheduler.slow_scheduler import best, message


class Pair:
    """Whatever happens, happens to both."""

    def __init__(self) -> None:
        rng.seed(1)  # what hypothesis draws next may depend on where pods went
        self.real, self.slow = Cluster(), SlowCluster()
        self.placed: dict[str, str] = {}
        self.budgets: list[Obj] = []

    def set_node(self, obj: Obj) -> None:
        self.real.snapshot.set_node(encoded(obj).view(Node))
        known = self.slow.nodes.get(obj["metadata"]["name"])
        self.slow.nodes[obj["metadata"]["name"]] = replace(known, obj=obj) if known else SlowNode(obj)

    def remove_node(self, name: str) -> None:
        for key in [key for key, where in self.placed.items() if where == name]:
            self.remove_pod(key)
        for rival in list(self.slow.nodes[name].nominated):
            self.nominate(rival, "")
        self.real.snapshot.remove_node(name)
        del self.slow.nodes[name]

    def remove_pod(self, key: str) -> None:
        self.real.snapshot.remove(key)
        node = self.slow.nodes[self.placed.pop(key)]
        node.remove(next(pod for pod in node.pods if key_of(pod) == key))

    def change_pod(self, key: str, change: Obj) -> None:
        """Its metadata changes."""
        name = self.placed[key]
        node = self.slow.nodes[name]
        old = next(pod for pod in node.pods if key_of(pod) == key)
        new = old | {"metadata": old["metadata"] | change}
        node.remove(old)
        node.add(new)
        self.real.place(encoded(new).view(Pod), name)

    def set_namespace(self, name: str, labels: Obj) -> None:
        self.real.snapshot.pod_index.set_namespace(name, labels)
        self.slow.namespaces[name] = labels

    def add_service(self, obj: Obj) -> None:
        self.real.snapshot.owners.set_service(None, encoded(obj).view(Service))
        self.slow.services.append(obj)

    def nominate(self, obj: Obj, name: str) -> None:
        """Nominate the pod to that node; `""` takes the nomination back."""
        pod = encoded(obj).view(Pod)
        request = self.real.request(pod)
        self.real.decider.nominations.set(pod, request.requirements, request.relations, name)
        for node in self.slow.nodes.values():
            node.nominated[:] = [rival for rival in node.nominated if key_of(rival) != key_of(obj)]
        if name:
            self.slow.nodes[name].nominated.append(obj)

    def add_budget(self, obj: Obj) -> None:
        self.real.snapshot.budgets.set(None, encoded(obj).view(PodDisruptionBudget))
        self.budgets.append(obj)

    def place(self, obj: Obj, name: str) -> None:
        """The pod is on that node, whether it fits or not."""
        pod = encoded(obj).view(Pod)
        row = self.real.snapshot.row_of(name)
        assert row is not None
        self.real.assume(pod, row)
        self.slow.nodes[name].add(obj)
        self.placed[pod.metadata.key] = name

    def decide(self, obj: Obj) -> None:
        """Both decide, and agree; the pod goes where the real one says, or nowhere."""
        pod = encoded(obj).view(Pod)
        decision = self.real.decide(pod)
        expected = best(obj, self.slow)
        if isinstance(decision, Chosen):
            assert decision.node in expected
            assert self.real.best(pod) == expected
            self.nominate(obj, "")
            self.place(obj, decision.node)
        else:
            assert not expected
            self.make_room(obj)

    def make_room(self, obj: Obj) -> Nominate | NoRoom:
        """Both look for victims, and agree: on the node and who has to go, or on why nobody has."""
        pod = encoded(obj).view(Pod)
        expected = best_plans(obj, self.slow, self.budgets)
        outcome = self.real.preempt(pod)
        if isinstance(outcome, Nominate):
            victims = {key_of(pod) for pod in expected[outcome.node].victims}
            assert {victim.key for victim in outcome.victims} == victims
        else:
            assert not expected
            assert self.real.message(pod, whole=True) == message(obj, self.slow)
        return outcome


def key_of(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def named(template: Obj, name: str, **spec: Any) -> Obj:
    """A pod of that kind, with more in its spec."""
    metadata = template["metadata"] | {"name": name, "uid": f"uid-{name}"}
    return template | {"metadata": metadata, "spec": template["spec"] | spec}


def unreserved(pod: Obj) -> Obj:
    """The same without required anti-affinity: upstream skips InterPodAffinity for a newcomer that neither has terms
    nor is meant by those of placed pods, so that a nominated pod's terms count or not depending on others.
    """
    affinity = {key: terms for key, terms in pod["spec"].get("affinity", {}).items() if key != "podAntiAffinity"}
    return pod | {"spec": pod["spec"] | {"affinity": affinity}}
