"""Who is tried next: priority, age, back-off, and the changes that wake a refused pod."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fairlead.api.scheduling import Pod
from fairlead.scheduler.cluster_events import node_changed
from fairlead.scheduler.configuration import load
from fairlead.scheduler.framework import EXTENDER, ClusterEvent, EventKind, Plugin
from fairlead.scheduler.pod_relations import relations_of
from fairlead.scheduler.profile import Weighted
from fairlead.scheduler.queue import QueuedPod, QueueState, SchedulingQueue
from fairlead.scheduler.requirements import RequirementsCache, requirements_of
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot
from tests.scheduler.scheduler_world import node, pod

PROFILE = load().profiles[0]
FIT = frozenset({"NodeResourcesFit"})


def task_of(pod: Pod) -> SchedulingRequest:
    return SchedulingRequest(requirements_of(pod), relations_of(pod), pod.priority, pod.metadata.uid)


class Line:
    """A queue, spoken to by names."""

    def __init__(self) -> None:
        self.queue = SchedulingQueue(Snapshot(), PROFILE.events)

    def add(self, name: str, now: float, **more: Any) -> None:
        newcomer = pod(name, **more)
        self.queue.add(newcomer, task_of(newcomer), PROFILE, now)

    def pop(self) -> QueuedPod:
        found = self.queue.pop()
        assert found is not None
        return found

    def names(self) -> list[str]:
        """Everybody who can be tried now, in order."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.metadata.name)
        return names

    def refuse_all(self, now: float, plugins: frozenset[str] = FIT) -> None:
        waiting = []
        while (queued := self.queue.pop()) is not None:
            waiting.append(queued)
        for queued in waiting:
            self.queue.refused(queued, plugins, now)


def test_higher_priority_goes_first_then_who_waits_longer() -> None:
    """S3-15."""
    line = Line()
    for at, (name, priority) in enumerate([("a", 0), ("b", 10), ("c", 0), ("d", -5), ("e", 10)]):
        line.add(name, now=100.0 + at, priority=priority)
    assert line.names() == ["b", "e", "a", "c", "d"]


def test_a_refused_pod_waits_for_a_change_that_helps() -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2)
    line.refuse_all(now=100.0)
    line.queue.on_cluster_event(node_changed(None, node("small", cpu=1)), now=110.0)
    line.queue.on_cluster_event(node_changed(node(cpu=4), node(cpu=4, labels={"x": "y"})), now=110.0)
    assert line.names() == []
    line.queue.on_cluster_event(node_changed(None, node("large", cpu=2)), now=110.0)
    assert line.names() == ["w"]


@pytest.mark.parametrize(
    ("plugin", "event"),
    [
        ("NodeResourcesFit", node_changed(node(cpu=1), node(cpu=2))),
        ("NodeResourcesFit", ClusterEvent(EventKind.POD_REMOVED, old_requirements=requirements_of(pod()))),
        ("NodeUnschedulable", node_changed(node(unschedulable=True), node())),
        ("TaintToleration", node_changed(node(taints=[{"key": "k", "effect": "NoSchedule"}]), node())),
        ("NodeAffinity", node_changed(node(), node(labels={"a": "1"}))),
        ("NodePorts", ClusterEvent(EventKind.POD_REMOVED, old_requirements=requirements_of(pod(ports=[80])))),
    ],
)
def test_each_plugin_names_the_change_that_may_help(plugin: str, event: ClusterEvent) -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2, ports=[80], nodeSelector={"a": "1"})
    line.refuse_all(now=100.0, plugins=frozenset({plugin}))
    line.queue.on_cluster_event(event, now=110.0)
    assert line.names() == ["w"]


@pytest.mark.parametrize(
    ("plugin", "event"),
    [
        ("NodeUnschedulable", node_changed(None, node(unschedulable=True))),
        ("TaintToleration", node_changed(node(), node(labels={"a": "1"}))),
        ("NodeAffinity", node_changed(node(), node(labels={"a": "2"}))),
        ("NodeAffinity", ClusterEvent(EventKind.POD_REMOVED, old_requirements=requirements_of(pod()))),
        ("NodePorts", ClusterEvent(EventKind.POD_REMOVED, old_requirements=requirements_of(pod(ports=[81])))),
        ("NodeResourcesFit", ClusterEvent(EventKind.POD_PLACED, new_requirements=requirements_of(pod()))),
    ],
)
def test_other_changes_let_a_refused_pod_sleep(plugin: str, event: ClusterEvent) -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2, ports=[80], nodeSelector={"a": "1"})
    line.refuse_all(now=100.0, plugins=frozenset({plugin}))
    line.queue.on_cluster_event(event, now=110.0)
    assert line.names() == []


def test_back_off_doubles_from_one_to_ten_seconds() -> None:
    """S3-11; it ends on whole seconds, so the second in which it ends still counts."""
    line, now, waits = Line(), 100.0, []
    line.add("w", now=now, cpu=2)
    for _ in range(6):
        queued = line.pop()
        line.queue.refused(queued, FIT, now)
        waits.append(queued.backoff_until - now)
        now += 20.0
        line.queue.on_cluster_event(node_changed(None, node(cpu=2)), now)
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_pod_that_backs_off_is_tried_early_when_nothing_else_waits() -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2)
    line.refuse_all(now=100.0)
    line.queue.on_cluster_event(node_changed(None, node(cpu=2)), now=100.2)
    assert line.queue.count(QueueState.BACKOFF) == 1
    line.add("x", now=100.3, priority=-10)
    assert line.names() == ["x", "w"]


def test_a_pod_whose_back_off_is_over_goes_before_a_more_important_one_that_still_waits() -> None:
    line = Line()
    line.add("old", now=100.0, cpu=1)
    line.refuse_all(now=100.0)
    line.add("new", now=105.0, cpu=1, priority=50)
    line.refuse_all(now=105.0)
    line.queue.on_cluster_event(node_changed(None, node(cpu=2)), now=105.5)
    assert line.names() == ["old", "new"]


def test_an_error_is_tried_again_by_time_alone() -> None:
    line = Line()
    line.add("w", now=100.0)
    line.queue.failed(line.pop(), now=100.0)
    assert line.names() == []
    assert line.queue.next_tick(100.0) == 102.0
    line.queue.tick(101.5)
    assert line.names() == []
    line.queue.tick(102.0)
    assert line.names() == ["w"]


def test_a_refused_pod_is_tried_again_after_five_minutes_whatever_happens() -> None:
    line = Line()
    line.add("w", now=0.0, cpu=2)
    line.refuse_all(now=0.0)
    for now in range(0, 301, 30):
        line.queue.tick(float(now))
    assert line.names() == []
    line.queue.tick(330.0)
    assert line.names() == ["w"]


def test_time_has_something_to_do_only_when_a_refused_pod_has_waited_for_five_minutes() -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2)
    line.refuse_all(now=100.0)
    assert line.queue.next_tick(100.0) == 420.0


def test_a_pod_that_is_held_back_for_long_is_looked_at_twice_a_minute() -> None:
    line = Line()
    line.add("w", now=0.0, cpu=2)
    for now, due in ((400.0, 420.0), (420.0, 450.0), (455.0, 480.0)):
        line.queue.tick(now)
        line.queue.refused(line.pop(), FIT, now, backs_off=False)
        line.queue.tick(now)
        assert (line.queue.has_next, line.queue.next_tick(now)) == (False, due)


def test_a_pod_whose_victims_are_leaving_is_looked_at_again_later_and_not_at_once() -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2)
    queued = line.pop()
    queued.is_preempting = True
    line.queue.refused(queued, FIT, now=100.0)
    line.queue.tick(now=420.0)
    assert (line.names(), line.queue.next_tick(now=420.0)) == ([], 450.0)
    line.queue.preempted(queued, now=430.0)
    assert line.names() == ["w"]


@pytest.mark.parametrize(("refuser", "asked"), [("Hinting", 1), ("InterPodAffinity", 100)])
def test_pods_with_labels_of_their_own_are_asked_about_once_unless_a_plugin_about_pods_refused_them(
    refuser: str, asked: int
) -> None:
    """Each Job's pods have labels that no other pod has."""
    hints: list[str] = []

    class Hinting(Plugin):
        name = "Hinting"
        events = EventKind.POD_REMOVED

        def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
            hints.append(request.uid)
            return False

    profile = replace(PROFILE, plugins=(Weighted(Hinting()),))
    queue, cache = SchedulingQueue(Snapshot(), profile.events), RequirementsCache()
    for number in range(100):
        newcomer = pod(f"p-{number}", labels={"job": str(number)})
        request = msgspec.structs.replace(task_of(newcomer), requirements=cache.of(newcomer))
        queue.add(newcomer, request, profile, 100.0)
    while (queued := queue.pop()) is not None:
        queue.refused(queued, frozenset({"Hinting", refuser}), 100.0)
    queue.on_cluster_event(ClusterEvent(EventKind.POD_REMOVED, old_requirements=requirements_of(pod())), 110.0)
    assert len(hints) == asked


@pytest.mark.parametrize("is_error", [False, True])
def test_a_pod_that_is_tried_again_and_again_takes_no_more_room_than_one(is_error: bool) -> None:
    """Also where it is tried long before its time has come, as whenever something helps it for a moment."""
    line = Line()
    line.add("w", now=100.0, cpu=2)
    helping = node_changed(None, node(cpu=4))
    tracemalloc.start()
    try:
        for _ in range(10_000):
            queued = line.pop()
            if is_error:
                line.queue.failed(queued, 100.0)
                line.queue.tick(200.0)
            else:
                line.queue.refused(queued, FIT, 100.0)
                line.queue.on_cluster_event(helping, 100.0)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
    assert line.names() == ["w"]


def test_refused_pods_that_are_gone_take_no_room() -> None:
    line = Line()
    tracemalloc.start()
    try:
        for number in range(1_000):
            line.add(f"w{number}", now=100.0, cpu=2)
            line.refuse_all(now=100.0)
            line.queue.remove(f"default/w{number}")
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_gated_pod_waits_until_its_gates_are_gone() -> None:
    line = Line()
    line.add("w", now=100.0, schedulingGates=[{"name": "test.dev/g"}])
    line.queue.on_cluster_event(node_changed(None, node()), now=101.0)
    line.queue.tick(1000.0)
    assert (line.names(), line.queue.count(QueueState.GATED)) == ([], 1)
    free = pod("w")
    line.queue.update(free, task_of(free), EventKind.OWN_GATES, now=1001.0)
    assert line.names() == ["w"]


def test_a_new_toleration_wakes_a_pod_that_a_taint_refused() -> None:
    line = Line()
    line.add("w", now=100.0)
    line.refuse_all(now=100.0, plugins=frozenset({"TaintToleration"}))
    tolerant = pod("w", tolerations=[{"operator": "Exists"}])
    line.queue.update(tolerant, task_of(tolerant), EventKind.OWN_TOLERATIONS, now=110.0)
    assert line.names() == ["w"]


@pytest.mark.parametrize(
    ("plugin", "labels", "names"),
    [
        ("InterPodAffinity", {"app": "other"}, ["w"]),
        ("PodTopologySpread", {"app": "other"}, ["w"]),
        ("PodTopologySpread", {"app": "web", "other": "label"}, []),
        ("NodeResourcesFit", {"app": "other"}, []),
    ],
)
def test_new_labels_of_its_own_wake_a_pod_that_others_refused(plugin: str, labels: Any, names: list[str]) -> None:
    """A hard rule is helped if it counts the pod now, or no longer."""
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    rules = [rule | {"labelSelector": {"matchLabels": {"app": "web"}}}]
    line = Line()
    line.add("w", now=100.0, labels={"app": "web"}, topologySpreadConstraints=rules)
    line.refuse_all(now=100.0, plugins=frozenset({plugin}))
    relabelled = pod("w", labels=labels, topologySpreadConstraints=rules)
    line.queue.update(relabelled, task_of(relabelled), EventKind.OWN_LABELS, now=110.0)
    assert line.names() == names


@pytest.mark.parametrize(("policy", "names"), [("Honor", ["w"]), ("Ignore", [])])
def test_a_new_toleration_wakes_a_pod_whose_spread_minds_taints(policy: str, names: list[str]) -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": policy}
    line = Line()
    line.add("w", now=100.0, topologySpreadConstraints=[rule])
    line.refuse_all(now=100.0, plugins=frozenset({"PodTopologySpread"}))
    tolerant = pod("w", tolerations=[{"operator": "Exists"}], topologySpreadConstraints=[rule])
    line.queue.update(tolerant, task_of(tolerant), EventKind.OWN_TOLERATIONS, now=110.0)
    assert line.names() == names


def test_a_removed_pod_is_nowhere() -> None:
    line = Line()
    for name in "abc":
        line.add(name, now=100.0, cpu=1)
    line.queue.remove("default/b")
    assert line.names() == ["a", "c"]
    line.add("d", now=100.0, cpu=1)
    line.refuse_all(now=101.0)
    line.queue.remove("default/d")
    line.queue.on_cluster_event(node_changed(None, node()), now=110.0)
    assert (line.names(), len(line.queue)) == ([], 0)


def test_whom_extenders_refused_any_change_wakes() -> None:
    line = Line()
    line.add("w", now=100.0)
    line.refuse_all(now=100.0, plugins=frozenset({EXTENDER}))
    assert line.names() == []
    line.queue.on_cluster_event(node_changed(node(), node(labels={"a": "1"})), now=110.0)
    assert line.names() == ["w"]


@pytest.mark.parametrize(("cpu", "names"), [(1, []), (2, ["w"])])
def test_what_happens_while_others_are_asked_about_a_pod_counts_when_it_is_refused(cpu: int, names: list[str]) -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2)
    in_flight = line.pop()
    line.queue.track_in_flight(in_flight)
    line.queue.on_cluster_event(node_changed(None, node(cpu=cpu)), now=100.0)
    line.queue.refused(in_flight, FIT, now=100.0)
    assert line.names() == names


def test_a_pod_that_others_are_asked_about_changes_and_goes_like_any_other() -> None:
    line = Line()
    line.add("w", now=100.0, cpu=2)
    in_flight = line.pop()
    line.queue.track_in_flight(in_flight)
    smaller = pod("w", cpu=1)
    line.queue.update(smaller, task_of(smaller), EventKind.OWN_SCALED_DOWN, now=100.0)
    assert (line.queue.get("default/w"), in_flight.pod, line.names()) == (in_flight, smaller, [])
    line.queue.remove("default/w")
    assert line.queue.get("default/w") is None
