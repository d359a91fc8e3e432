"""What a node makes of pods that are resized in place (golden/node/resize.yaml, its rows with `steps`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.node.resize import (
    POD_LEVEL,
    NodePods,
    PodSize,
    ResizeSettings,
    allocation,
    queued,
    retried,
)
from fairlead.node.resize_messages import ResizeEvent
from tests.node.golden import Row, each_of, expected, read, with_uids


def _settings(row: Row) -> ResizeSettings:
    swap = row.get("swapBehavior", {})
    return ResizeSettings(
        row.get("cpuManagerPolicy", "none"),
        row.get("memoryManagerPolicy", "None"),
        lambda pod, container: swap.get(container, "NoSwap") != "NoSwap",
    )


def _resized(pod: Obj, sizes: Row) -> Obj:
    spec = dict(pod["spec"])
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [
                container | ({"resources": sizes[container["name"]]} if container["name"] in sizes else {})
                for container in spec[kind]
            ]
    if POD_LEVEL in sizes:
        spec["resources"] = sizes[POD_LEVEL]
    return {"metadata": pod["metadata"] | {"generation": pod["metadata"]["generation"] + 1}, "spec": spec}


def _event(event: ResizeEvent) -> Row:
    found = {"object": f"pod/{event.pod['metadata']['name']}", "type": event.type}
    return found | {"reason": event.reason, "message": event.message}


def _answer(state: NodePods, names: Iterable[str]) -> Row:
    sizes = {name: state.sizes[name] for name in names}
    return {name: {"allocated": dict(size.allocated), "conditions": size.conditions()} for name, size in sizes.items()}


def _replayed(row: Row, recorded: list[Row]) -> list[Row]:
    pods = {pod["metadata"]["name"]: pod for pod in with_uids(row["pods"])}
    pods = {uid: pod | {"metadata": pod["metadata"] | {"generation": 1}} for uid, pod in pods.items()}
    state = NodePods(row["node"], pods, {uid: PodSize(allocation(pod)) for uid, pod in pods.items()})
    answers = []
    for number, (step, expectation) in enumerate(zip(row["steps"], recorded, strict=True)):
        for uid, sizes in step.get("resize", {}).items():
            pods = {**state.pods, uid: _resized(state.pods[uid], sizes)}
            state = queued(replace(state, pods=pods), uid)
        left = {uid: pod for uid, pod in state.pods.items() if uid != step.get("remove")}
        result = retried(replace(state, pods=left), _settings(row), (), float(number))
        state = result.state
        preempted = [pod["metadata"]["name"] for pod in result.preempted]
        # The recording may list a pod that has just been killed as well.
        names = {*state.pods, *(set(preempted) & expectation["pods"].keys())}
        answer = {"events": list(map(_event, result.events)), "pods": _answer(state, names)}
        answers.append(answer | ({"preempted": preempted} if preempted else {}))
    return answers


def _with_names(recorded: list[Row]) -> list[Row]:
    """What was recorded, with the names alone of pods that were killed."""
    return [
        step | ({"preempted": [_name(pod) for pod in step["preempted"]]} if "preempted" in step else {})
        for step in recorded
    ]


def _name(pod: Any) -> str:
    return pod if isinstance(pod, str) else str(pod["pod"])


@each_of([row for row in read("resize") if "steps" in row])
def test_pods_are_resized_as_recorded(row: Row) -> None:
    alternatives = [_with_names(recorded) for recorded in expected(row)]
    answers = [_replayed(row, recorded) for recorded in alternatives]
    assert any(answer == recorded for answer, recorded in zip(answers, alternatives, strict=True)), answers
