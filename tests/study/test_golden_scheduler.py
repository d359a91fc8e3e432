"""Recorded decisions of kube-scheduler 1.36, turned into a dump and a change: foretold placements and victims agree.

Only cases in which nothing else acts than in a whole cluster: no budgets with a stated status, no taints that a node's
conditions would remove, no pods that are terminating already, and victims of a single pod alone, for here they do end,
and make room for others.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import DEFAULT_EPOCH, run_virtual
from fairlead.sim.histories import PREEMPTED, PodHistories, PodHistory
from fairlead.study.changes.carry_out import carry_out
from fairlead.study.changes.changed_cluster import ChangedCluster
from fairlead.study.changes.document import Step, step_of
from fairlead.study.changes.errors import Origin
from tests.conftest import GOLDEN
from tests.examples import each_time
from tests.study.clusters import TIME

sys.path.insert(0, str(GOLDEN))
from shortforms import class_name, node_object, pod_object

from scheduler import load

Obj = dict[str, Any]
FILES = ("fit", "node-affinity", "pod-affinity", "preemption", "spread", "taints")
#: Between two pods that arrive, and after the last: what was preempted has ended, and its successor started.
STEP_SECONDS, END_SECONDS = 2.0, 60.0


def cases(file: str) -> list[Obj]:
    _, found = load(GOLDEN / "scheduler" / f"{file}.yaml")
    return [case for case in found if is_whole(case)]


def is_whole(case: Obj) -> bool:
    if any(case.get(key) for key in ("pdbs", "other", "at_once", "events", "namespaces", "priorityClasses")):
        return False
    pods, coming, expected = case.get("pods", []), case["schedule"], case["expect"]
    particular = ("terminating", "phase", "class", "scheduler", "runtime", "gates", "owner", "raw", "grace")
    if any("name" not in pod or any(key in pod for key in particular) for pod in (*pods, *coming)):
        return False
    taints = [taint for node in case.get("nodes", []) for taint in node.get("taints", [])]
    if any("node.kubernetes.io/" in taint or taint.endswith(":NoExecute") for taint in taints):
        return False  # controllers would take such taints off, or pods away
    return len(coming) == 1 or not any((outcome or {}).get("nominated") for outcome in expected)


def cluster(case: Obj) -> list[Obj]:
    values = sorted({pod["priority"] for pod in (*case.get("pods", []), *case["schedule"]) if "priority" in pod})
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": class_name(value)},
            "value": value,
        }
        for value in values
    ]
    nodes = [{"apiVersion": "v1", "kind": "Node"} | node_object(short) for short in case.get("nodes", [])]
    return [*classes, *nodes, *(running(short) for short in case.get("pods", []))]


def running(short: Obj) -> Obj:
    pod: Obj = {"apiVersion": "v1", "kind": "Pod"} | pod_object(short)
    if "priority" in short:
        pod["spec"]["priority"] = short["priority"]
    pod["metadata"]["creationTimestamp"] = TIME
    start = f"2026-01-01T00:{short.get('start', 0) // 60:02d}:{short.get('start', 0) % 60:02d}Z"
    return pod | {"status": {"phase": "Running", "startTime": start}}


async def played(case: Obj) -> dict[str, PodHistory]:
    objects = cluster(case)
    nodes = tuple(obj for obj in objects if obj["kind"] == "Node")
    settings = Settings(nodes=nodes, imported=tuple(objects), disabled_admission=("ServiceAccount",))
    steps: list[Step] = []
    for number, short in enumerate(case["schedule"]):
        manifest = {"apiVersion": "v1", "kind": "Pod"} | pod_object(short)
        steps.append(step_of(Origin(case["id"]), "apply", {"manifests": [manifest]}, number * STEP_SECONDS))
    async with simulation(settings) as (api, informers):
        histories = PodHistories(informers)
        await carry_out(steps, ChangedCluster(api, informers), lambda step: lambda: None, asyncio.Event())
        await asyncio.sleep(END_SECONDS)
        return {pod.pod: pod for pod in histories}


def difference(case: Obj, pods: dict[str, PodHistory]) -> str:
    victims: set[str] = set()
    for short, expected in zip(case["schedule"], case["expect"], strict=True):
        pod = pods[f"{short.get('ns', 'default')}/{short['name']}"]
        victims |= set(expected.get("victims", ()))
        wanted = expected.get("nodes") or [expected.get("node") or expected.get("nominated") or ""]
        if pod.node not in wanted:
            return f"{pod.pod} is on {pod.node or 'no node'} instead of {' or '.join(wanted) or 'none'}"
    preempted = {pod.pod for pod in pods.values() if any(d.kind == PREEMPTED for d in pod.disruptions)}
    return f"victims {sorted(preempted)} instead of {sorted(victims)}" if preempted != victims else ""


@pytest.mark.parametrize("file", each_time(["preemption", "spread"], FILES))
def test_what_is_foretold_of_a_dump_is_what_kube_scheduler_did(file: str) -> None:
    found: dict[str, str] = {}
    chosen = cases(file)
    assert chosen
    for case in chosen:
        rng.seed(1)
        if problem := difference(case, run_virtual(played(case), DEFAULT_EPOCH)):
            found[case["id"]] = problem
    assert not found, "\n".join(f"{case}: {why}" for case, why in found.items())
