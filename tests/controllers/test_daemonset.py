"""Daemon sets keep one pod on every node that they fit (X-10, S3-91)."""

from __future__ import annotations

import tracemalloc
from typing import Any, ClassVar

import msgspec
import pytest

from fairlead.api.objects import Obj
from fairlead.controllers.actions import Action, Create, Delete, Emit, Patch, Requeue
from fairlead.controllers.daemonset import DaemonSets
from fairlead.controllers.daemonset.backoff import FailureBackoff
from fairlead.controllers.daemonset.placement import placement_of
from fairlead.controllers.history import Wanted, new_revision
from fairlead.controllers.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from fairlead.runtime.clock import timestamp
from tests.controllers.driving import StillWorld, drive, of_type, view

NOW = 1_767_225_600.0
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "u-ds", "controller": True}


def template(version: str, **spec: Any) -> Obj:
    return {"metadata": {"labels": {"app": "a", "v": version}}, "spec": {"containers": [{"name": "c"}]} | spec}


def daemon_set(version: str = "2", *, unavailable: int | str = 1, surge: int | str = 0, **spec: Any) -> Obj:
    rolling = {"maxUnavailable": unavailable, "maxSurge": surge}
    return {
        "metadata": {"name": "ds", "namespace": "n", "uid": "u-ds", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": template(version, **spec),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    }


def revision(version: str) -> Obj:
    bare = view(DAEMON_SETS, {"metadata": {"name": "ds", "namespace": "n", "uid": "u-ds"}, "spec": {"selector": {}}})
    wanted = Wanted(DAEMON_SETS, bare, template(version), "controller-revision-hash", 0)
    return new_revision(wanted, {"spec": {"template": template(version) | {"$patch": "replace"}}}, int(version), 0)


def node(name: str, *, taints: tuple[tuple[str, str], ...] = (), **labels: str) -> Obj:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": key, "effect": effect} for key, effect in taints]},
    }


def pod(name: str, on: str, version: str = "2", *, ready: bool = True, phase: str = "Running") -> Obj:
    hash_ = revision(version)["metadata"]["labels"]["controller-revision-hash"]
    since = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": timestamp(NOW - 60)}
    return {
        "metadata": {
            "name": name,
            "namespace": "n",
            "uid": f"u-{name}",
            "labels": {"app": "a", "controller-revision-hash": hash_},
            "ownerReferences": [OWNER],
        },
        "spec": {"nodeName": on},
        "status": {"phase": phase, "conditions": [since]},
    }


def decide(
    owner: Obj, nodes: list[Obj], *pods: Obj, controller: DaemonSets | None = None, now: float = NOW
) -> list[Action]:
    world = StillWorld(now)
    world.put(DAEMON_SETS, [owner])
    world.put(NODES, nodes)
    world.put(PODS, pods)
    world.put(CONTROLLER_REVISIONS, [revision("1"), revision("2")])
    return drive((controller or DaemonSets()).reconcile(view(DAEMON_SETS, owner), world))


def changes(actions: list[Action]) -> list[str]:
    """`+n1` for a pod made for that node, `-x` for a deleted pod."""
    made = [f"+{view(PODS, one.obj).target_node}" for one in of_type(actions, Create) if one.kind is PODS]
    return made + [f"-{one.target.metadata.name}" for one in of_type(actions, Delete) if one.kind is PODS]


NO_SCHEDULE, NO_EXECUTE = ("t", "NoSchedule"), ("t", "NoExecute")
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


def affinity(*expressions: Obj) -> Obj:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("spec", "place", "expected"),
    [
        ({}, node("n"), (True, True)),
        ({"nodeName": "other"}, node("n"), (False, False)),
        ({"nodeSelector": {"gpu": "yes"}}, node("n", gpu="yes"), (True, True)),
        ({"nodeSelector": {"gpu": "yes"}}, node("n"), (False, False)),
        ({"affinity": affinity(ZONE)}, node("n", zone="a"), (True, True)),
        ({"affinity": affinity(ZONE)}, node("n", zone="b"), (False, False)),
        ({"affinity": affinity({"key": "x", "operator": "Gt", "values": ["3"]})}, node("n", x="4"), (True, True)),
        ({"affinity": affinity({"key": "x", "operator": "Lt", "values": ["3"]})}, node("n", x="word"), (False, False)),
        ({}, node("n", taints=(NO_SCHEDULE,)), (False, True)),
        ({}, node("n", taints=(NO_EXECUTE,)), (False, False)),
        ({"tolerations": [{"operator": "Exists"}]}, node("n", taints=(NO_EXECUTE,)), (True, True)),
        ({}, node("n", taints=(("node.kubernetes.io/unschedulable", "NoSchedule"),)), (True, True)),
        ({}, node("n", taints=(("node.kubernetes.io/not-ready", "NoExecute"),)), (True, True)),
        ({}, node("n", taints=(("node.kubernetes.io/not-ready", "NoSchedule"),)), (False, True)),
        ({}, node("n", taints=(("node.kubernetes.io/network-unavailable", "NoSchedule"),)), (False, True)),
        (
            {"hostNetwork": True},
            node("n", taints=(("node.kubernetes.io/network-unavailable", "NoSchedule"),)),
            (True, True),
        ),
    ],
)
def test_where_a_pod_should_run_and_where_it_may_stay(spec: Obj, place: Obj, expected: tuple[bool, bool]) -> None:
    placement = placement_of(view(DAEMON_SETS, daemon_set(**spec)))
    found = view(NODES, place)
    assert (placement.should_run(found), placement.may_stay(found)) == expected


class Compared(str):
    """Counts how often it is compared."""

    __slots__ = ()
    times: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_thousands_of_values_are_not_looked_through_for_each_node(operator: str) -> None:
    """Nor copied, at every change of every node."""
    expression = {"key": "zone", "operator": operator, "values": [f"z{number}" for number in range(5000)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    placement, found = placement_of(view(DAEMON_SETS, daemon_set(affinity=affinity))), view(NODES, node("a"))
    labels = {"zone": Compared("elsewhere")}
    found = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, labels=labels))
    Compared.times = 0
    tracemalloc.start()
    try:
        assert placement.should_run(found) is (operator == "NotIn")
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()
    assert Compared.times < 10


N1, N2 = node("n1"), node("n2")


def leaving(pod: Obj) -> Obj:
    return pod | {"metadata": pod["metadata"] | {"deletionTimestamp": timestamp(NOW + 30)}}


@pytest.mark.parametrize(
    ("owner", "nodes", "pods", "expected"),
    [
        pytest.param(daemon_set(), [N1, N2], [pod("a", "n1")], ["+n2"], id="a missing pod is made"),
        pytest.param(daemon_set(), [N1], [pod("a", "n1"), pod("b", "n1")], ["-b"], id="a second pod goes"),
        pytest.param(daemon_set(), [node("n1", taints=(NO_EXECUTE,))], [pod("a", "n1")], ["-a"], id="driven off"),
        pytest.param(daemon_set(), [node("n1", taints=(NO_SCHEDULE,))], [pod("a", "n1")], [], id="may stay"),
        pytest.param(daemon_set(), [], [pod("a", "n1")], [], id="a vanished node is pod garbage collection's"),
        pytest.param(
            daemon_set(unavailable=1), [N1, N2], [pod("a", "n1", "1"), pod("b", "n2", "1")], ["-a"], id="one at a time"
        ),
        pytest.param(
            daemon_set(unavailable="100%"), [N1, N2], [pod("a", "n1", "1"), pod("b", "n2", "1")], ["-a", "-b"], id="all"
        ),
        pytest.param(
            daemon_set(), [N1, N2], [pod("a", "n1", ready=False), pod("b", "n2", "1")], [], id="waits for the new pod"
        ),
        pytest.param(
            daemon_set(),
            [N1, N2],
            [pod("a", "n1", ready=False), pod("b", "n2", "1", ready=False)],
            ["-b"],
            id="an old pod that serves nobody goes at once",
        ),
        pytest.param(
            daemon_set(unavailable=0, surge=1),
            [N1, N2],
            [pod("a", "n1", "1"), pod("b", "n2", "1")],
            ["+n1"],
            id="surge: the new one comes first",
        ),
        pytest.param(
            daemon_set(unavailable=0, surge=1),
            [N1, N2],
            [pod("a", "n1", "1"), pod("c", "n1"), pod("b", "n2", "1")],
            ["-a"],
            id="surge: then the old one goes",
        ),
        pytest.param(
            daemon_set(unavailable=0, surge=1),
            [N1, N2],
            [pod("a", "n1", "1"), pod("c", "n1", ready=False), pod("b", "n2", "1")],
            [],
            id="surge: not before the new one is available",
        ),
        pytest.param(
            daemon_set(unavailable=0, surge=1), [N1], [leaving(pod("a", "n1"))], ["+n1"], id="surge: none is waited for"
        ),
        pytest.param(daemon_set(), [N1], [leaving(pod("a", "n1"))], [], id="no surge: one after the other"),
        pytest.param(
            daemon_set(unavailable=0, surge=1),
            [node("n1", taints=(NO_SCHEDULE,)), N2],
            [pod("a", "n1", "1"), pod("b", "n2", ready=False)],
            [],
            id="surge: a node that would get none keeps its pod while it is needed",
        ),
        pytest.param(
            daemon_set(unavailable=0, surge=1),
            [node("n1", taints=(NO_SCHEDULE,)), N2],
            [pod("a", "n1", "1"), pod("b", "n2")],
            ["-a"],
            id="surge: and loses it then",
        ),
    ],
)
def test_one_step_follows_the_other(owner: Obj, nodes: list[Obj], pods: list[Obj], expected: list[str]) -> None:
    assert changes(decide(owner, nodes, *pods)) == expected


def test_a_pod_can_run_on_its_node_only_whatever_the_template_says() -> None:
    [create] = of_type(decide(daemon_set(affinity=affinity(ZONE)), [node("n1", zone="a")]), Create)[-1:]
    required = create.obj["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]


@pytest.mark.parametrize(("on", "goes"), [("1", "2"), ("2", "1")])
def test_revisions_of_pods_are_part_of_the_history(on: str, goes: str) -> None:
    owner = daemon_set("3")
    owner["spec"]["revisionHistoryLimit"] = 1
    actions = decide(owner, [N1], pod("a", "n1", on))
    names = {revision(version)["metadata"]["name"]: version for version in ("1", "2")}
    forgotten = [one.target.metadata.name for one in of_type(actions, Delete) if one.kind is CONTROLLER_REVISIONS]
    assert [names[name] for name in forgotten] == [goes]


def test_a_failed_pod_is_replaced_at_once_and_the_next_one_only_after_a_wait() -> None:
    controller, failed = DaemonSets(), pod("a", "n1", phase="Failed")
    first = decide(daemon_set(), [N1], failed, controller=controller)
    assert changes(first) == ["-a"]
    assert of_type(first, Emit)[0].message == "Found failed daemon pod n/a on node n1, will try to kill it"
    second = decide(daemon_set(), [N1], failed, controller=controller, now=NOW + 0.25)
    assert changes(second) == []
    assert of_type(second, Requeue) == [Requeue(0.75)]


def test_the_wait_doubles_up_to_a_quarter_of_an_hour() -> None:
    backoff, now, waits = FailureBackoff(), NOW, []
    assert backoff.wait(("u", "n"), now) == 0
    for _ in range(12):
        waits.append(backoff.wait(("u", "n"), now))
        now += waits[-1]
        assert backoff.wait(("u", "n"), now) == 0
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == 900


def test_the_status_counts_nodes_by_their_oldest_pod() -> None:
    tainted = node("n3", taints=(NO_SCHEDULE,))
    pods = [pod("a", "n1"), pod("b", "n2", "1", ready=False), pod("c", "n3")]
    [patch] = [one for one in of_type(decide(daemon_set(), [N1, N2, tainted], *pods), Patch) if one.subresource]
    assert patch.patch["status"] == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "desiredNumberScheduled": 2,
        "numberReady": 1,
        "observedGeneration": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 1,
    }
