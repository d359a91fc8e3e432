"""Changes of a cluster, carried out: who fares worse, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest
from msgspec.structs import replace

from fairlead.api.builtin import DEPLOYMENTS
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.manifests import latest_date
from fairlead.sim.node_settings import restated
from fairlead.study.changes.changed_cluster import ChangedCluster
from fairlead.study.changes.document import Change, read_change
from fairlead.study.changes.errors import ChangeError
from fairlead.study.changes.pools import POOL_LABEL
from fairlead.study.comparison import Hurt, lost, missing, worse
from fairlead.study.dump_behaviour import declared
from fairlead.study.figures import FIGURES, Scope
from fairlead.study.outcome import Outcome
from fairlead.study.run import Scene, Stage, play
from tests.study.clusters import TIME, deployment, namespace, node, quota
from tests.study.real_clusters import running_job

HOUR = 3600.0
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CHANGE = "apiVersion: sim.fairlead.dev/v1alpha1\nkind: Change\nsteps:\n"


def played(objects: list[Obj], change: Change = Change("before"), limit: float | None = HOUR) -> Outcome:
    nodes = tuple(obj for obj in objects if obj["kind"] == "Node")
    scene = Scene(Settings(nodes=nodes, imported=tuple(objects)), (), limit, latest_date(objects) or 0.0)
    return play(scene, change, lambda count, at: None)


def change(folder: Path, text: str) -> Change:
    path = folder / "change.yaml"
    path.write_text(text)
    return read_change(path)


def hurt_by(objects: list[Obj], changed: Change, limit: float = HOUR) -> list[Hurt]:
    return worse(played(objects, limit=limit), played(objects, changed, limit))


def three_nodes() -> list[Obj]:
    return [node("a"), node("b"), node("c")]


def test_a_settled_cluster_stays_settled() -> None:
    objects = [*three_nodes(), *deployment("web", ["a", "b", "c", "a"]), *deployment("db", ["b"])]
    outcome = played(objects, limit=24 * HOUR)
    assert outcome.pods == []
    assert (outcome.placed, outcome.waiting, outcome.disruptions) == (5, 0, {})
    assert outcome.summary["created"] == 5


def test_how_far_a_variant_is_can_be_asked_while_it_is_played() -> None:
    asked: list[tuple[str, Stage, Stage]] = []

    @contextmanager
    def asking(name: str, stage: Callable[[], Stage]) -> Iterator[None]:
        began = stage()
        yield
        asked.append((name, began, stage()))

    objects = [*three_nodes(), *deployment("web", ["a", "b"])]
    nodes = tuple(obj for obj in objects if obj["kind"] == "Node")
    scene = Scene(Settings(nodes=nodes, imported=tuple(objects)), (), HOUR, latest_date(objects) or 0.0)
    play(replace(scene, on_playing=asking), Change("before"), lambda count, at: None)
    assert asked == [("before", Stage(0.0, 2), Stage(HOUR, 2))]


def test_a_drained_node_sends_its_pods_elsewhere(tmp_path: Path) -> None:
    objects = [*three_nodes(), *deployment("web", ["a", "b"])]
    (hurt,) = hurt_by(objects, change(tmp_path, CHANGE + "- at: 10m\n  drain: a\n"))
    assert (hurt.pod, hurt.how) == ("default/web-5f6d7c8b9-00000", "evicted")
    assert hurt.causes == ["after: drain a"]


def test_of_two_steps_about_a_node_that_which_does_it_is_the_cause(tmp_path: Path) -> None:
    objects = [*three_nodes(), *deployment("web", ["a", "a", "b"])]
    steps = "- at: 10m\n  drain: a\n- at: 10m\n  removeNode: a\n"
    found = [(hurt.how, hurt.causes) for hurt in hurt_by(objects, change(tmp_path, CHANGE + steps))]
    assert found == [("evicted", ["after: drain a"])] * 2


def test_of_steps_about_many_nodes_that_which_does_it_is_the_cause(tmp_path: Path) -> None:
    """And not one that was about the same node before."""
    objects = [*three_nodes(), *deployment("web", ["b"])]
    steps = (
        "- uncordon: b\n- at: 5m\n  failNode: c\n- at: 10m\n  upgrade: {selector: kubernetes.io/os=linux, by: 34%}\n"
    )
    for manifest in objects[:3]:
        manifest["metadata"]["labels"] = {"kubernetes.io/os": "linux"}
    hurt, *_ = hurt_by(objects, change(tmp_path, CHANGE + steps))
    assert (hurt.how, hurt.causes) == ("evicted", ["after: upgrade kubernetes.io/os=linux 34% at a time"])


def test_what_is_deleted_or_scaled_to_nothing_is_told_of(tmp_path: Path) -> None:
    single = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "shop"}}
    single["spec"] = {"nodeName": "c", "containers": [{"name": "c", "image": "i"}]}
    objects = [*three_nodes(), namespace("shop"), namespace("team"), single]
    objects += [*deployment("web", ["a", "b"], "shop"), *deployment("db", ["b"]), *deployment("etl", ["a"], "team")]
    steps = "- at: 5m\n  delete: {kind: deployment, name: web, namespace: shop}\n"
    steps += "- at: 10m\n  delete: {kind: pod, name: alone, namespace: shop}\n"
    steps += "- at: 15m\n  delete: {kind: namespace, name: team}\n- at: 20m\n  scale: {name: db, replicas: 0}\n"
    before, after = played(objects), played(objects, change(tmp_path, CHANGE + steps))
    assert worse(before, after) == []
    assert [(it.namespace, it.workload, it.pods, it.causes) for it in lost(before, after)] == [
        ("default", "Deployment/db", 1, ["after: scale deployment db to 0"]),
        ("shop", "Deployment/web", 2, ["after: delete deployment web"]),
        ("shop", "Pod/alone", 1, ["after: delete pod alone"]),
        ("team", "Deployment/etl", 1, ["after: delete namespace team"]),
    ]
    assert FIGURES["gone"](after, Scope("shop")) == 3


def test_what_a_manifest_has_no_more_goes_as_with_kubectl_apply(tmp_path: Path) -> None:
    """kubectl knows by its annotation what it applied before; what others have set stays."""
    objects = [*three_nodes(), *deployment("web", ["a"])]
    (web,) = (obj for obj in objects if obj["kind"] == "Deployment")
    spec = deepcopy(web["spec"])
    spec["template"]["spec"] |= {"nodeSelector": {"pool": "none"}}
    spec["template"]["spec"]["containers"].append({"name": "beside", "image": "i"})
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    web["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(manifest)}
    web["spec"] = deepcopy(spec) | {"minReadySeconds": 7}
    del spec["template"]["spec"]["nodeSelector"], spec["template"]["spec"]["containers"][1]
    path = tmp_path / "web.json"
    path.write_text(json.dumps(manifest))

    async def main() -> Obj:
        settings = Settings(nodes=tuple(objects[:3]), imported=tuple(objects))
        async with simulation(settings) as (api, informers):
            cluster = ChangedCluster(api, informers)
            for step in read_change(path).steps:
                await step.action.run(cluster)
            return (await api.get(DEPLOYMENTS, "web", "default")).obj()

    applied = run_virtual(main())["spec"]
    pods = applied["template"]["spec"]
    assert ("nodeSelector" in pods, len(pods["containers"]), applied["minReadySeconds"]) == (False, 1, 7)


def test_of_single_jobs_the_one_that_is_deleted_is_told_of(tmp_path: Path) -> None:
    objects = [*three_nodes(), *running_job("kept", "shop", "a"), *running_job("ended", "shop", "b")]
    objects += declared(objects)
    steps = "- at: 5m\n  delete: {kind: job, name: ended, namespace: shop}\n- at: 5m\n  cordon: c\n"
    before, after = played(objects), played(objects, change(tmp_path, CHANGE + steps))
    assert [(it.workload, it.pods, it.causes) for it in lost(before, after)] == [
        ("Job/ended", 1, ["after: delete job ended"])
    ]


def test_who_has_pods_again_is_not_gone(tmp_path: Path) -> None:
    objects = [*three_nodes(), *deployment("web", ["a", "b"])]
    patch = "{spec: {template: {metadata: {labels: {version: next}}}}}"
    steps = f"- patch: {{kind: deployment, name: web, patch: {patch}}}\n- at: 10m\n  removeNode: c\n"
    assert lost(played(objects), played(objects, change(tmp_path, CHANGE + steps))) == []


def test_each_pod_that_replaces_another_names_its_own(tmp_path: Path) -> None:
    objects = [node("a"), node("b"), *deployment("web", ["a", "a", "b"], cpu="2")]
    found = hurt_by(objects, change(tmp_path, CHANGE + "- cordon: b\n- at: 1m\n  removeNode: a\n"))
    lost = [pod.pod for pod in found if pod.how == "lost with its node"]
    replaced = [pod.causes[-1] for pod in found if pod.how == "waits"]
    assert len(lost) == 2
    assert sorted(replaced) == sorted(
        f"it replaces {pod}, lost with its node: PodGC: node no longer exists" for pod in lost
    )


def test_a_pod_of_a_stateful_set_replaces_its_former_self(tmp_path: Path) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": "db"}}
    spec = {"replicas": 3, "podManagementPolicy": "Parallel", "selector": selector, "template": template}
    meta = {"name": "db", "namespace": "default"}
    stateful_set = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}
    apply = f"- cordon: b\n- apply: {json.dumps(stateful_set)}\n"
    changed = change(tmp_path, CHANGE + apply + "- at: 10m\n  removeNode: a\n")
    found = hurt_by([node("a"), node("b")], changed)
    replaced = {pod.pod: pod.causes[-1].split()[2].rstrip(",") for pod in found if pod.how == "waits"}
    assert replaced == {f"default/db-{number}": f"default/db-{number}" for number in range(3)}


def test_of_a_single_pod_that_is_driven_away_it_is_told_that_nobody_makes_it_anew(tmp_path: Path) -> None:
    objects = [node("a"), *deployment("web", ["a", "a"])]
    meta = objects[-1]["metadata"]
    del meta["ownerReferences"], meta["labels"]
    meta["name"] = "single"
    found = hurt_by(objects, change(tmp_path, CHANGE + "- at: 10m\n  drain: a\n"))
    told = {pod.pod: pod.reason for pod in found if pod.how == "evicted"}
    assert told.pop("default/single").endswith("; nobody makes it anew")
    assert not any("anew" in reason for reason in told.values())


def test_pods_that_are_over_lose_nothing_when_their_node_is_drained(tmp_path: Path) -> None:
    """A drain takes them, too; the Job that they were of has had them."""
    job: Obj = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "done", "namespace": "default"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"kubernetes.io/hostname": "a"},
                    "containers": [{"name": "c", "image": "i"}],
                }
            }
        },
    }
    done, drained = f"- apply: {json.dumps(job)}\n", "- at: 10m\n  drain: a\n"
    before = played(three_nodes(), change(tmp_path, CHANGE + done))
    after = played(three_nodes(), change(tmp_path, CHANGE + done + drained))
    assert before.placed == after.placed == 1
    assert worse(before, after) == []
    assert missing(before, after) == []


def budgeted(*budgets: str) -> list[Obj]:
    """Two pods, of which budgets let none go."""
    found: list[Obj] = [*three_nodes(), *deployment("web", ["a", "b"])]
    for name in budgets:
        meta = {"name": name, "namespace": "default"}
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
        found.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})
    return found


def test_a_drain_waits_for_a_disruption_budget(tmp_path: Path) -> None:
    assert hurt_by(budgeted("web"), change(tmp_path, CHANGE + "- drain: {node: a, timeout: 5m}\n")) == []


@pytest.mark.parametrize("budgets", [("web",), ("web", "other")])
@pytest.mark.parametrize("step", ["drain: a", "upgrade: {selector: kubernetes.io/hostname=a}"])
def test_what_a_drain_cannot_evict_is_told_with_what_is_in_the_way(
    tmp_path: Path, budgets: tuple[str, ...], step: str
) -> None:
    outcome = played(budgeted(*budgets), change(tmp_path, CHANGE + f"- {step}\n"))
    (held,) = outcome.held_up
    assert (held.pod, held.node) == ("default/web-5f6d7c8b9-00000", "a")
    several = "more than one PodDisruptionBudget"
    assert (several if len(budgets) > 1 else "budget web needs 2 healthy pods and has 2 currently") in held.message
    assert [step.has_ended for step in outcome.steps] == [False]
    assert FIGURES["notEvicted"](outcome, Scope(namespace="default")) == 1
    assert FIGURES["notEvicted"](outcome, Scope(priority=">0")) == 0


def test_a_pod_that_a_finalizer_keeps_holds_a_drain_up(tmp_path: Path) -> None:
    objects = [*three_nodes(), *deployment("web", ["a"])]
    objects[-1]["metadata"]["finalizers"] = ["example.com/kept"]
    outcome = played(objects, change(tmp_path, CHANGE + "- drain: a\n"))
    (held,) = outcome.held_up
    assert held.message == "it is being deleted, and waits for its finalizers: example.com/kept"


def test_what_a_budget_has_held_up_for_a_while_is_told_no_more_once_it_has_gone(tmp_path: Path) -> None:
    steps = "- drain: a\n- at: 10m\n  delete: {kind: pdb, name: web}\n"
    outcome = played(budgeted("web"), change(tmp_path, CHANGE + steps))
    assert outcome.held_up == []
    assert [step.has_ended for step in outcome.steps] == [True, True]


def test_a_drain_that_never_ends_does_not_keep_a_run_from_ending(tmp_path: Path) -> None:
    outcome = played(budgeted("web"), change(tmp_path, CHANGE + "- drain: a\n"), limit=None)
    assert len(outcome.held_up) == 1


def test_pods_that_lose_their_node_wait_where_there_is_no_room(tmp_path: Path) -> None:
    objects = [node("a"), node("b"), *deployment("web", ["a", "b"], cpu="3")]
    lost, waiting = sorted(hurt_by(objects, change(tmp_path, CHANGE + "- removeNode: a\n")), key=lambda pod: pod.how)
    assert lost.how == "lost with its node"
    assert waiting.how == "waits"
    assert "1 Insufficient cpu" in waiting.reason
    assert waiting.causes == ["after: remove node a", f"it replaces {lost.pod}, {lost.reason}"]


def test_a_node_that_fails_loses_its_pods_after_the_grace_of_the_node_and_of_its_pods(tmp_path: Path) -> None:
    """50 s of silence, then the five minutes for which pods tolerate it."""
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    objects = [*three_nodes(), *deployment("web", ["a", "b"], tolerations=tolerations)]
    changed = change(tmp_path, CHANGE + "- failNode: a\n- at: 30m\n  recoverNode: a\n")
    after = played(objects, changed)
    (pod,) = after.pods
    assert [disruption.kind for disruption in pod.disruptions] == ["lost with its node"]
    assert 350 <= pod.disruptions[0].at - after.began < 360
    assert pod.ended is not None
    assert pod.ended - after.began >= 1800, "a node that is off confirms no end"
    assert after.placed == 2


def test_a_node_that_is_shut_down_ends_its_pods_first_if_its_kubelet_has_time_for_that(tmp_path: Path) -> None:
    told = "- kubelet:\n    configuration: {shutdownGracePeriod: 30s}\n    selector: kubernetes.io/hostname=a\n"
    objects = [*three_nodes(), *deployment("web", ["a", "b"])]
    after = played(objects, change(tmp_path, CHANGE + told + "- at: 1m\n  shutDownNode: a\n"))
    (pod,) = after.pods
    assert [disruption.kind for disruption in pod.disruptions] == ["evicted by node"]
    assert pod.ended is not None
    assert pod.ended - after.began < 91
    assert after.placed == 2


def database() -> list[Obj]:
    """A StatefulSet with a volume, which can only go to node a at first."""
    later = node("b") | {"spec": {"unschedulable": True}}
    labels = {"app": "db"}
    mount = {"name": "data", "mountPath": "/data"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "serviceName": "db",
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [mount]}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    meta = {"name": "db", "namespace": "default"}
    return [node("a"), later, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}]


FAILS = CHANGE + "- at: 1m\n  uncordon: b\n- at: 2m\n  failNode: a\n"


@pytest.mark.parametrize(
    ("step", "ended_at", "waits"),
    [
        ("", None, 0),  # nobody can say that the pod has ended
        ("- at: 30m\n  outOfService: a\n", 1800, 0),
        ("- at: 30m\n  removeNode: a\n", 1840, 360),
        ("- at: 30m\n  recoverNode: a\n", 1800, 10),
    ],
)
def test_a_volume_follows_its_pod_off_a_node_that_fails(
    tmp_path: Path, step: str, ended_at: float | None, waits: float
) -> None:
    after = played(database(), change(tmp_path, FAILS + step))
    first, *others = [pod for pod in after.pods if pod.pod == "default/db-0"]
    assert [disruption.kind for disruption in first.disruptions] == ["lost with its node"]
    assert (first.ended and first.ended - after.began) == pytest.approx(ended_at, abs=5)
    assert after.waiting == 0
    assert sum(pod.waited_for_volumes(after.ended) for pod in others) == pytest.approx(waits, abs=5)
    assert all(pod.mounted is not None for pod in others)


def test_who_has_a_node_and_waits_for_its_volumes_fares_worse(tmp_path: Path) -> None:
    changed = change(tmp_path, FAILS + "- at: 30m\n  removeNode: a\n")
    (waiting,) = [pod for pod in hurt_by(database(), changed, limit=2000) if pod.how != "lost with its node"]
    assert (waiting.pod, waiting.how) == ("default/db-0", "waits for its volumes")
    assert waiting.reason == "its volumes were not attached to b"
    assert waiting.causes[0] == "after: remove node a"
    (waited,) = [pod for pod in hurt_by(database(), changed) if pod.how != "lost with its node"]
    assert waited.how == "waited longer for its volumes"
    assert waited.waited == pytest.approx(360, abs=5)


def test_of_two_steps_that_about_the_node_of_a_pod_is_named(tmp_path: Path) -> None:
    objects = [*three_nodes(), *deployment("web", ["a"]), *deployment("db", ["b"])]
    hurt = hurt_by(objects, change(tmp_path, CHANGE + "- removeNode: a\n- at: 1s\n  failNode: b"))
    assert {pod.causes[0] for pod in hurt if "/web" in pod.pod} == {"after: remove node a"}
    assert {pod.causes[0] for pod in hurt if "/db" in pod.pod} == {"after: fail node b"}


def test_a_quota_that_is_cut_refuses_what_is_made_anew(tmp_path: Path) -> None:
    objects = [*three_nodes(), quota("cap", "default", requests_cpu="4"), *deployment("web", ["a", "b"])]
    text = (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: cap, namespace: default}\n"
        "spec: {hard: {requests.cpu: 1}}\n---\n" + CHANGE + "- at: 1m\n  drain: a\n"
    )
    after = played(objects, change(tmp_path, text))
    (state,) = after.quotas
    assert (state.quota, state.hard, state.refusals > 0) == ("cap", "1", True)
    (short,) = after.shortfalls
    assert short.owner == "ReplicaSet/web-5f6d7c8b9"
    assert "exceeded quota: cap" in short.message
    assert after.placed == 1


def test_what_events_of_a_dump_tell_of_the_past_is_not_told_of_the_run(tmp_path: Path) -> None:
    about = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5f6d7c8b9", "namespace": "default"}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "default", "uid": "e", "creationTimestamp": TIME},
        "involvedObject": about,
        "reason": "FailedCreate",
        "message": "forbidden: exceeded quota: cap, requested: pods=1, used: pods=9, limited: pods=9",
        "count": 7,
        "lastTimestamp": TIME,
    }
    objects = [node("a"), *deployment("web", ["a"]), quota("cap", "default", pods="9"), event]
    outcome = played(objects, change(tmp_path, CHANGE + "- cordon: a\n"))
    assert (outcome.shortfalls, outcome.quotas) == ([], [])


def test_what_was_done_to_pods_before_the_dump_is_not_told_of_the_run(tmp_path: Path) -> None:
    """Who was evicted lies about for weeks, and controllers have replaced it long ago."""
    pods = [obj for obj in deployment("web", ["a"] * 5, cpu="100m") if obj["kind"] == "Pod"]
    for pod in pods:
        del pod["metadata"]["ownerReferences"]
    evicted, refused, preempted, going, well = pods
    evicted["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "}
    refused["status"] |= {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have cpu"}
    preempted["status"]["phase"] = "Failed"
    for pod, reason in (
        (evicted, "TerminationByKubelet"),
        (preempted, "PreemptionByScheduler"),
        (going, "EvictionByEvictionAPI"),
    ):
        pod["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": reason})
    going["metadata"] |= {"deletionTimestamp": TIME, "deletionGracePeriodSeconds": 30}
    outcome = played([node("a"), *pods], change(tmp_path, CHANGE + "- at: 10m\n  drain: a\n"))
    assert outcome.disruptions == {"evicted": 1}
    assert [pod.pod for pod in outcome.pods if pod.disruptions] == [f"default/{well['metadata']['name']}"]
    troubles = outcome.summary["nodeTroubles"]
    assert (troubles["evictions"], troubles["refused"]) == ({}, {})
    assert outcome.summary["namespaces"]["default"]["evicted"] == 1


def test_preemption_names_the_preemptor(tmp_path: Path) -> None:
    objects = [node("a", cpu="2"), *deployment("low", ["a", "a"])]
    text = (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: vip, namespace: default}\n"
        "spec: {priorityClassName: high, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}\n"
    )
    found = hurt_by(objects, change(tmp_path, text))
    preempted = next(pod for pod in found if pod.how == "preempted")
    assert preempted.reason == "preempted by default/vip"
    assert any(pod.how == "waits" and pod.lineage.startswith("default/ReplicaSet/low") for pod in found)


def test_a_preemption_is_told_with_what_sent_the_preemptor(tmp_path: Path) -> None:
    """A node is lost, an important pod takes another's place, and that one waits: a chain of three."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    important = deployment("vip", ["a"], cpu="3", priorityClassName="high", priority=1000)
    objects = [high, node("a"), node("b"), *important, *deployment("low", ["b"], cpu="2")]
    text = (
        CHANGE + "- scale: {kind: deployment, namespace: default, name: low, replicas: 1}\n- at: 5m\n  removeNode: a\n"
    )
    text += "- at: 20m\n  cordon: b\n"
    found = {pod.how: pod for pod in hurt_by(objects, change(tmp_path, text))}
    lost, preempted, waiting = (found[how] for how in ("lost with its node", "preempted", "waits"))
    preemptor = preempted.reason.removeprefix("preempted by ")
    replaces = f"{preemptor} replaces {lost.pod}, {lost.reason}"
    assert lost.causes == ["after: remove node a"]
    assert preempted.causes == ["after: remove node a", replaces]
    assert waiting.causes == ["after: remove node a", replaces, f"it replaces {preempted.pod}, {preempted.reason}"]


def test_who_is_preempted_long_after_taking_a_lost_pods_place_is_not_told_of_that(tmp_path: Path) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    objects = [high, node("a"), node("b"), *deployment("low", ["a"], cpu="3")]
    vip = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "vip", "namespace": "default"},
        "spec": {
            "priorityClassName": "high",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        },
    }
    text = CHANGE + f"- removeNode: a\n- at: 20m\n  apply: {json.dumps(vip)}\n"
    preempted = next(pod for pod in hurt_by(objects, change(tmp_path, text)) if pod.how == "preempted")
    assert preempted.causes == ["after: apply Pod default/vip"]


def test_a_kubelet_that_keeps_more_back_leaves_less_to_pods(tmp_path: Path) -> None:
    """Nodes of dumps state what they give away: it had stayed as it was. Of memory the step says nothing."""
    small = node("a")
    small["status"] = {**small["status"], "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "110"}}
    text = CHANGE + '- kubelet: {configuration: {kubeReserved: {cpu: "2"}, maxPods: 50}}\n'
    text += "- at: 1m\n  scale: {name: web, replicas: 3}\n"
    objects = [small, *deployment("web", ["a", "a"])]
    assert played(objects, change(tmp_path, text.replace("- kubelet", "- at: 2h\n  kubelet"))).waiting == 0
    (waiting,) = played(objects, change(tmp_path, text)).pods
    assert waiting.waits_for.startswith("0/1 nodes are available: 1 Insufficient cpu.")


@pytest.mark.parametrize(
    ("document", "resource", "allocatable"),
    [
        ({"kubeReserved": {"cpu": "2"}}, "cpu", "2"),
        ({"kubeReserved": {"cpu": "2"}}, "memory", "15Gi"),
        ({"evictionHard": {"memory.available": "4Gi"}}, "memory", "12Gi"),
        ({"maxPods": 50}, "pods", "50"),
        ({"maxPods": 50}, "cpu", "3900m"),
        ({"imageGCHighThresholdPercent": 90}, "cpu", "3900m"),
    ],
)
def test_of_what_a_kubelet_is_not_told_a_node_gives_away_as_much_as_before(
    document: Obj, resource: str, allocatable: str
) -> None:
    stated = node("a")
    stated["status"] = {**stated["status"], "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "110"}}
    assert parse(restated(stated, json.dumps(document)).allocatable[resource]) == parse(allocatable)


def test_nodes_that_are_added_cost_as_much_as_the_one_that_they_are_like(tmp_path: Path) -> None:
    priced = node("a")
    priced["metadata"]["annotations"] = {"sim.fairlead.dev/price-per-hour": "0.5"}
    assert played([priced], change(tmp_path, CHANGE + "- addNodes: {count: 2, like: a}\n")).cost == 1.5


def test_nodes_that_are_added_have_labels_besides_those_of_the_one_that_they_are_like(tmp_path: Path) -> None:
    step = "- addNodes: {count: 1, like: a, labels: {pool: new}}\n- cordon: {selector: pool=new}\n"
    outcome = played([node("a")], change(tmp_path, CHANGE + step))
    assert outcome.node_hours == 2


def test_an_upgrade_replaces_nodes_batch_by_batch(tmp_path: Path) -> None:
    objects = [node("a", pool="x"), node("b", pool="x"), node("c"), *deployment("web", ["a", "b", "c"])]
    changed = change(tmp_path, CHANGE + "- upgrade: {selector: pool=x, by: 50%, takes: 5m}\n")
    after = played(objects, changed)
    times = sorted(disruption.at - after.began for pod in after.pods for disruption in pod.disruptions)
    assert len(times) >= 2
    assert times[1] - times[0] >= 300
    assert (after.placed, after.summary["nodes"]) == (3, 3)


def test_a_pool_grows_for_pods_that_wait_and_shrinks_when_they_are_gone(tmp_path: Path) -> None:
    objects = [node("a"), *deployment("web", ["a"])]
    text = CHANGE + (
        "- pool: {name: spot, cpu: '4', memory: 16Gi, max: 3, scaleUpDelay: 2m, pricePerHour: 0.5}\n"
        "- at: 10m\n  scale: {name: web, replicas: 9}\n"
        "- at: 2h\n  scale: {name: web, replicas: 0}\n"
    )
    after = played(objects, change(tmp_path, text), limit=3 * HOUR)
    assert after.waiting == 0
    longest = max(pod.waited(after.ended) for pod in after.pods)
    assert 120 <= longest <= 150
    assert after.summary["nodes"] == 1
    assert after.cost is not None
    assert 1.8 < after.cost < 2.5, "two nodes for about two hours"


def test_a_pool_that_is_too_small_gives_what_it_has_and_the_rest_wait(tmp_path: Path) -> None:
    """Large pods that fit nowhere any more do not keep small ones from what is left of the last node."""
    objects = [node("a", cpu="1"), *deployment("large", ["a"], cpu="3"), *deployment("small", ["a"], cpu="500m")]
    text = CHANGE + "- pool: {name: spot, cpu: '4', memory: 16Gi, max: 2}\n"
    text += "".join(f"- scale: {{name: {name}, replicas: 9}}\n" for name in ("large", "small"))
    after = played(objects, change(tmp_path, text), limit=3 * HOUR)
    assert after.summary["nodes"] == 3
    waiting = [pod.owner.partition("/")[2].partition("-")[0] for pod in after.pods if pod.is_waiting]
    assert waiting.count("large") >= 6
    assert after.summary["utilisation"]["cpu"]["overTime"][-1] > 0.9


def test_a_pool_that_shrinks_at_once_keeps_the_nodes_that_have_pods(tmp_path: Path) -> None:
    objects = [node("a", **{POOL_LABEL: "spot"}), node("b", **{POOL_LABEL: "spot"}), *deployment("web", ["a"])]
    after = played(objects, change(tmp_path, CHANGE + "- pool: {name: spot, scaleDownAfter: 0s}\n"))
    assert (after.summary["nodes"], after.disruptions) == (1, {})


def test_amounts_and_durations_may_be_numbers(tmp_path: Path) -> None:
    steps = "- addNodes: {count: 1, cpu: 0.5, memory: 1073741824}\n- pool: {name: p, cpu: 8, max: 3, scaleUpDelay: 60, "
    steps += "resources: {example.com/gpu: 2}}\n- drain: {node: a, timeout: 300}\n"
    found = change(tmp_path, CHANGE + steps)
    assert [step.action.text for step in found.steps] == [
        "add 1 node of 0.5 cpu, 1073741824",
        "node pool p, 0 to 3 nodes of 8 cpu, 16Gi",
        "drain a",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CHANGE + "- drian: a\n", "line 4: unknown step 'drian'"),
        (CHANGE + "- at: soon\n  drain: a\n", "line 4: 'soon' is no duration"),
        (CHANGE + "- drain: a\n  cordon: b\n", "line 4: a step has at: and one of"),
        (CHANGE + "- scale: {name: web}\n", "line 4: scale: Object missing required field `replicas`"),
        (CHANGE + "- upgrade: {selector: x, by: 120%}\n", "'120%' is no percentage"),
        (CHANGE.replace("v1alpha1", "v7"), "line 1: apiVersion"),
        (CHANGE.replace("steps:", "metadata: [x]\nsteps:") + "- drain: a\n", "line 3: metadata of a Change must be"),
        (CHANGE.replace("steps:", "metadata: {name: [x]}\nsteps:") + "- drain: a\n", "line 3: metadata of a Change"),
        (CHANGE + "- set: deployment/x\n", "line 4: set: 'deployment/x' sets nothing"),
        (CHANGE + "- patch: {kind: deployment, name: web, patch: [1]}\n", "line 4: patch: error decoding patch"),
        (CHANGE + "- patch: {kind: deployment, name: web, type: json, patch: {a: 1}}\n", "line 4: patch: "),
        (
            CHANGE + "- kubelet: {configuration: {maxPod: 3}}\n",
            'line 4: kubelet: strict decoding error: unknown field "maxPod"',
        ),
        (CHANGE + "- addNodes: {count: 1, like: a, cpu: 2}\n", "line 4: addNodes: say like: NODE, or cpu and memory"),
        (CHANGE + "- drain: {node: a, timeout: 1y}\n", "line 4: drain: '1y' is no duration"),
        (CHANGE + "- drain: {node: a, timeout: [1]}\n", "line 4: drain: Expected `str`"),
        (CHANGE + "- addNodes: {count: 1, cpu: '-1', memory: 1Gi}\n", "line 4: addNodes: cpu of a node: '-1' is not"),
        ("apiVersion: 5\nkind: Change\nsteps: []\n", "line 1: metadata of Change must be a mapping"),
        ("kind: 7\n", "every document needs a kind"),
        ("a: [\n", "did not find"),
        ("", "changes nothing"),
    ],
)
def test_a_file_that_is_no_change_is_refused_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ChangeError, match=r"change\.yaml") as refused:
        change(tmp_path, text)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (
            "kubelet: {configuration: {maxPods: -3}}",
            "the kubelet of node 'a' would not start: invalid configuration: maxPods (--max-pods) -3 must not be a "
            "negative number",
        ),
        ("drain: z", "there is no node 'z'"),
        ("scale: {name: none, replicas: 1}", "there is no Deployment 'none' in namespace 'default'"),
        ("delete: {kind: gizmo, name: x}", "no kind 'gizmo' is served here"),
        ("set: quota/default/requests.cpu=1", "namespace 'default' has no ResourceQuota"),
        ("set: deployment/default/web/spec.strategyy.x=1", "Deployment 'web' has no 'strategyy'"),
        ("set: deployment/default/web/spec.replicas=[", "'[' is no value: yaml: line 1"),
        ("set: weight/team=6", "there are no weights: nothing divides this cluster"),
        ("set: deployment/default/web/spec.replcas=5", 'unknown field "spec.replcas"'),
        ("patch: {kind: deployment, name: web, patch: {spec: {replcas: 5}}}", 'unknown field "spec.replcas"'),
        ("scale: {kind: node, name: a, replicas: 5}", 'unknown field "spec.replicas"'),
        ("delete: {kind: namespace, name: default}", "Namespace 'default' cannot be deleted: "),
        ("cordon: {selector: pool=none}", "no node has the labels 'pool=none'"),
        ("apply: {apiVersion: v1, kind: Pod, metadata: {name: X}, spec: {containers: []}}", "is refused"),
    ],
)
def test_a_step_that_refers_to_nothing_is_refused_with_its_line(tmp_path: Path, step: str, problem: str) -> None:
    objects = [node("a"), *deployment("web", ["a"])]
    with pytest.raises(ChangeError, match=r"change\.yaml, line 4: ") as refused:
        played(objects, change(tmp_path, CHANGE + f"- {step}\n"))
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "patch", "problem"),
    [
        ("strategic", "{spec: {replicas: many, paused: false}}", "cannot convert string to int32"),
        (
            "strategic",
            "{spec: {template: {spec: {containers: [{image: paused}]}}}}",
            "an element of a list does not contain declared merge key: name",
        ),
        ("strategic", "{spec: {template: {$patch: paused, spec: {}}}}", "unknown patch type: paused"),
        ("merge", "{spec: {replicas: many, paused: false}}", "json: cannot unmarshal string into Go struct field"),
        ("json", "[{op: test, path: /spec/paused, value: 1}]", "testing value /spec/paused failed"),
    ],
)
def test_why_a_patch_is_refused_is_a_sentence_that_does_not_quote_it(
    tmp_path: Path, kind: str, patch: str, problem: str
) -> None:
    objects = [node("a"), *deployment("web", ["a"])]
    step = f"- patch: {{kind: deployment, namespace: default, name: web, type: {kind}, patch: {patch}}}\n"
    with pytest.raises(ChangeError) as refused:
        played(objects, change(tmp_path, CHANGE + step))
    said = str(refused.value)
    assert f"the change of Deployment 'web' in namespace 'default' is refused: {problem}" in said
    assert "map[" not in said
    assert '{"' not in said


def test_however_many_manifests_a_file_has_each_knows_its_line(tmp_path: Path) -> None:
    """3,000 took minutes when the whole file was taken apart for each."""
    manifest = "kind: ConfigMap\nmetadata: {name: c, annotations: [x]}\n"
    read = change(tmp_path, f"---\n{manifest}" * 3000)
    assert [step.origin.line for step in read.steps] == list(range(2, 9002, 3))
