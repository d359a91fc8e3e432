"""Equal pods that wait are refused for what one of them was refused for; nobody can tell that it was not asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.scheduler.plugins.default_preemption import DefaultPreemption
from fairlead.simulation import run_virtual, simulate, virtual_cluster
from tests.examples import examples

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LIFETIME = "sim.fairlead.dev/lifetime-seconds"
CLASSES: list[Obj] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("low", 1), ("high", 10))
]
CLASSES.append(CLASSES[1] | {"metadata": {"name": "polite"}, "preemptionPolicy": "Never"})


@contextmanager
def asking_every_time() -> Iterator[None]:
    """A plugin says of itself whether it repeats itself: now it does not."""
    DefaultPreemption.repeats_post_filter = False
    try:
        yield
    finally:
        DefaultPreemption.repeats_post_filter = True


@st.composite
def kinds(draw: st.DrawFn) -> list[Obj]:
    """A few pods that differ in nothing but when they end."""
    requests = {"cpu": draw(st.sampled_from(["500m", "1", "2", "5"]))}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
    }
    if name := draw(st.sampled_from(["", "", "low", "high", "polite"])):
        spec["priorityClassName"] = name
    labels = {"app": draw(st.sampled_from("ab"))}
    match draw(st.integers(0, 5)):
        case 0:
            term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": draw(st.sampled_from("ab"))}}}
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
        case 1:
            spec["nodeSelector"] = {"pool": "none"}
        case 2:
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    lives = draw(st.lists(st.integers(1, 400), min_size=1, max_size=8))
    prefix = draw(st.uuids())
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"p-{prefix.hex[:8]}-{number}",
                "namespace": "default",
                "labels": labels,
                "annotations": {LIFETIME: str(life)},
            },
            "spec": spec,
        }
        for number, life in enumerate(lives)
    ]


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(kinds(), min_size=1, max_size=5), st.integers(1, 3))
def test_no_decision_message_or_event_depends_on_it(workload: list[list[Obj]], nodes: int) -> None:
    pods = [*CLASSES, *(pod for kind in workload for pod in kind)]
    lazy = simulate(pods, nodes=nodes, node_cpu="2", duration="15m")
    with asking_every_time():
        eager = simulate(pods, nodes=nodes, node_cpu="2", duration="15m")
    assert lazy.summary == eager.summary
    assert list(lazy.pods) == list(eager.pods)
    assert list(lazy.events) == list(eager.events)


def waiter(name: str, class_name: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"priorityClassName": class_name, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_who_is_more_important_makes_room_although_equal_pods_were_refused() -> None:
    """The pods require the same, and nothing changes between them but who asks."""

    async def main() -> list[str]:
        async with virtual_cluster(nodes=1, node_cpu="2") as cluster:
            await cluster.apply([*CLASSES, *(waiter(f"low-{number}", "low") for number in range(3))])
            await cluster.run_for("1m")
            await cluster.apply(waiter("polite", "polite"))
            await cluster.run_for("1m")
            await cluster.apply(waiter("high", "high"))
            await cluster.run_for("1m")
            return [pod.name for pod in cluster.pods() if pod.node]

    assert set(run_virtual(main())) >= {"high"}
