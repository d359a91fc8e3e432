"""A settled cluster stays settled: over a day nothing is created, deleted or moved without cause."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.binding import PROVISIONED_BY, PROVISIONERS
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.compose import simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import parse_timestamp
from fairlead.runtime.loops import run_virtual
from fairlead.study.changes import nodes
from fairlead.study.changes.changed_cluster import ChangedCluster
from fairlead.study.dump_behaviour import declared
from tests.examples import each_time
from tests.study.clusters import namespace
from tests.study.left_alone import KINDS, objects_after, settings_of
from tests.study.real_clusters import (
    CLUSTERS,
    TIME,
    autoscaler,
    cron_job,
    deployment,
    finished_job,
    node,
    owned_by,
    running_job,
)

DAY = 86400.0


WORDS = (
    "spec",
    "status",
    "containerStatuses",
    "state",
    "waiting",
    "reason",
    "conditions",
    "type",
    "template",
    "metadata",
    "jobTemplate",
    "metrics",
    "resource",
    "target",
    "selector",
    "scaleTargetRef",
    "ownerReferences",
    "annotations",
)


def shown(obj: Obj) -> Any:
    """What may not change: who it is, what it says, where it is and how it is."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    state = [spec.get("nodeName"), spec.get("replicas"), spec.get("unschedulable"), spec.get("taints")]
    state += [status.get(key) for key in ("phase", "readyReplicas", "numberReady", "currentHealthy", "desiredReplicas")]
    state += [condition["status"] for condition in status.get("conditions") or () if condition["type"] == "Ready"]
    return meta["uid"], "deletionTimestamp" in meta, *state


def by_name(objects: Iterable[Obj]) -> dict[str, Any]:
    return {
        f"{obj['kind']} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}": shown(obj) for obj in objects
    }


@pytest.mark.parametrize("name", each_time(["kubeadm"], CLUSTERS))
def test_nothing_happens_to_a_cluster_that_is_left_alone(name: str) -> None:
    dump = CLUSTERS[name]()
    kinds = {kind.kind for kind in KINDS}
    before = by_name(obj for obj in dump if obj["kind"] in kinds)
    after = by_name(objects_after(dump, DAY, KINDS))
    changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    assert "\n".join(f"{key}: {before.get(key)} became {after.get(key)}" for key in changed) == ""


async def pods_named(api: Api, prefix: str) -> list[Obj]:
    objects = [item.obj() for item in (await api.list(builtin.PODS, "shop")).items]
    return [each for each in objects if each["metadata"]["name"].startswith(prefix)]


def stuck(since: str, *, init: bool = False, reason: str = "ContainerCreating", message: str = "") -> Obj:
    """A pod on a node that does not come to run."""
    spec: Obj = {"containers": [{"name": "app", "image": "i", "envFrom": [{"secretRef": {"name": "keys"}}]}]}
    waiting = {"reason": "PodInitializing" if init else reason, "message": message}
    fine = [{"type": type_, "status": "True"} for type_ in ("PodScheduled", "PodReadyToStartContainers")]
    status: Obj = {"phase": "Pending", "startTime": since, "conditions": fine if init or message else fine[:1]}
    status["containerStatuses"] = [{"name": "app", "ready": False, "state": {"waiting": waiting}}]
    if init:
        spec["initContainers"] = [{"name": "wait-for-db", "image": "i"}]
        running = {"name": "wait-for-db", "ready": False, "started": True, "state": {"running": {"startedAt": since}}}
        status["initContainerStatuses"] = [running]
    for container in [*status["containerStatuses"], *status.get("initContainerStatuses", ())]:
        container |= {"image": "i", "imageID": "", "restartCount": 0}
    metadata = {"name": "stuck", "namespace": "shop", "uid": "stuck", "creationTimestamp": since}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | {"nodeName": "a"}, "status": status}


@pytest.mark.parametrize(
    ("pod", "phase"),
    [
        (stuck("2026-03-01T11:00:00Z"), "Pending"),
        (stuck("2026-03-01T11:59:00Z"), "Running"),
        (stuck("2026-03-01T11:00:00Z", init=True), "Pending"),
        (stuck("2026-03-01T11:59:00Z", init=True), "Running"),
        (stuck(TIME, reason="CreateContainerConfigError", message='secret "keys" not found'), "Pending"),
        (stuck(TIME, reason="CreateContainerConfigError", message='secret "others" not found'), "Running"),
    ],
)
def test_a_pod_that_has_not_come_to_run_for_long_or_for_lack_of_a_secret_does_not(pod: Obj, phase: str) -> None:
    """One that only begins does."""
    (after,) = objects_after([namespace("shop"), node("a"), pod], DAY, [builtin.PODS])
    assert after["status"]["phase"] == phase


def test_a_secret_that_a_mount_misses_is_missing_until_it_comes() -> None:
    """Of volumes the events of the dump tell alone."""
    pod = stuck(TIME)
    pod["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "certificate"}}]
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop", "uid": "e"}}
    event |= {"reason": "FailedMount", "type": "Warning", "lastTimestamp": TIME}
    event |= {"message": 'MountVolume.SetUp failed for volume "v" : secret "certificate" not found'}
    event["involvedObject"] = {"kind": "Pod", "name": "stuck", "namespace": "shop", "uid": "stuck"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certificate", "namespace": "shop"}}

    async def main() -> list[str]:
        async with simulation(settings_of([namespace("shop"), node("a"), pod, event])) as (api, _):
            await asyncio.sleep(DAY)
            phases = [(await api.get(builtin.PODS, "stuck", "shop")).obj()["status"]["phase"]]
            await api.create(builtin.SECRETS, secret, "shop")
            await asyncio.sleep(60)
            return [*phases, (await api.get(builtin.PODS, "stuck", "shop")).obj()["status"]["phase"]]

    assert run_virtual(main(), parse_timestamp(TIME)) == ["Pending", "Running"]


def test_jobs_that_come_by_schedule_take_as_long_as_those_before() -> None:
    """Two have taken 40 and 50 minutes; the next one comes at 3 o'clock."""
    cron = cron_job("nightly", "shop", "0 3 * * *")
    done = []
    for number, end in enumerate(("2026-02-27T03:40:00Z", "2026-02-28T03:50:00Z")):
        job, pod = finished_job(f"nightly-{number}", "shop", "kind-control-plane")
        job["metadata"]["ownerReferences"] = owned_by(cron)
        job["status"] |= {"startTime": f"{end[:10]}T03:00:00Z", "completionTime": end}
        done += [job, pod]

    async def main() -> list[Obj]:
        async with simulation(settings_of([*CLUSTERS["kind"](), cron, *done])) as (api, _):
            await asyncio.sleep(15 * 3600 + 30 * 60)
            during = await pods_named(api, "nightly-2")
            await asyncio.sleep(20 * 60)
            return [*during, *await pods_named(api, "nightly-2")]

    with rng.seeded(1):
        during, after = run_virtual(main(), parse_timestamp(TIME))
    assert (during["status"]["phase"], after["status"]["phase"]) == ("Running", "Succeeded")


def test_what_replaces_a_pod_of_a_job_that_runs_goes_on_as_it_did() -> None:
    """It had been over after a second, so that whoever lost the place of a job seemed to wait for no one."""
    workers = [namespace("shop"), node("w1"), node("w2")]

    async def main() -> list[Obj]:
        async with simulation(settings_of([*workers, *running_job("load", "shop", "w1")])) as (
            api,
            informers,
        ):
            await asyncio.sleep(60)
            await nodes.drain("w1", ChangedCluster(api, informers))
            await asyncio.sleep(DAY)
            return await pods_named(api, "load")

    with rng.seeded(1):
        pods = run_virtual(main(), parse_timestamp(TIME))
    assert [pod["status"]["phase"] for pod in pods if pod["spec"]["nodeName"] != "w1"] == ["Running"]


@pytest.mark.parametrize(
    ("volumes", "claims", "is_made"),
    [(0, 0, True), (1, 0, True), (1, 1, True), (0, 1, False)],
)
def test_whose_provisioner_is_not_known_to_be_idle_makes_volumes_as_in_the_dump(
    volumes: int, claims: int, is_made: bool
) -> None:
    """Claims that came after the dump had waited for it, whatever the dump showed: what was scaled up never ran."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    dump = [namespace("shop"), node("w1", {"zone": "za"}), storage_class]
    dump += [_volume(f"old-{number}") for number in range(volumes)]
    dump += [_claim(f"waits-{number}", **{PROVISIONERS[-1]: "ebs.csi.aws.com"}) for number in range(claims)]

    async def main() -> list[Obj]:
        async with simulation(settings_of(dump)) as (api, _):
            await api.create(builtin.PERSISTENT_VOLUME_CLAIMS, _claim("new"), "shop")
            source = {"name": "data", "persistentVolumeClaim": {"claimName": "new"}}
            spec = {"volumes": [source], "containers": [{"name": "c", "image": "i"}]}
            await api.create(builtin.PODS, {"metadata": {"name": "db"}, "spec": spec}, "shop")
            await asyncio.sleep(60)
            found = [item.obj() for item in (await api.list(builtin.PERSISTENT_VOLUMES, "")).items]
            return [each for each in found if (each["spec"].get("claimRef") or {}).get("name") == "new"]

    with rng.seeded(1):
        made = run_virtual(main(), parse_timestamp(TIME))
    assert len(made) == is_made
    for volume in made:
        assert volume["spec"]["csi"]["driver"] == "ebs.csi.aws.com", "nodes take so many of a driver"
        zones = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["za"]}]}]
        assert volume["spec"].get("nodeAffinity") == ({"required": {"nodeSelectorTerms": zones}} if volumes else None)


def _claim(name: str, **annotations: str) -> Obj:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "gp3"}
    meta = {"name": name, "namespace": "shop", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def _volume(name: str) -> Obj:
    """Of that class, in a zone, and released."""
    zones = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["zb"]}]}]
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": zones}},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "gp3",
    }
    meta = {"name": name, "annotations": {PROVISIONED_BY: "ebs.csi.aws.com"}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def test_a_node_that_was_silent_comes_back_when_somebody_switches_it_on() -> None:
    async def main() -> tuple[Obj, list[Obj]]:
        async with simulation(settings_of(CLUSTERS["gke"]())) as (api, informers):
            cluster = ChangedCluster(api, informers)
            await asyncio.sleep(600)
            await nodes.fail("gke-prod-default-pool-gone", cluster, recovers=True)
            await asyncio.sleep(600)
            node = (await api.get(builtin.NODES, "gke-prod-default-pool-gone")).obj()
            return node, [item.obj() for item in (await api.list(builtin.PODS, "gmp-system")).items]

    with rng.seeded(1):
        node, pods = run_virtual(main(), parse_timestamp(TIME))
    assert not node["spec"].get("taints")
    assert "gke-prod-default-pool-gone" in [pod["spec"]["nodeName"] for pod in pods]


@pytest.mark.parametrize(
    ("metric", "current", "usage"),
    [
        ({"target": {"type": "Utilization", "averageUtilization": 80}}, None, {"cpu": "80%"}),
        ({"target": {"type": "Utilization", "averageUtilization": 80}}, {"averageUtilization": 31}, {"cpu": "31%"}),
        ({"target": {"type": "AverageValue", "averageValue": "500m"}}, {"averageValue": "300m"}, {"cpu": "300m"}),
        ({"target": {"type": "AverageValue", "averageValue": "much"}}, None, None),
    ],
)
def test_pods_of_an_autoscaler_use_what_it_saw_or_aims_at(metric: Obj, current: Obj | None, usage: Obj | None) -> None:
    found = autoscaler("web", "shop", 2)
    found["spec"]["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", **metric}}]
    if current is not None:
        found["status"]["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    profiles = declared([*deployment("web", ["a", "b"]), found])
    assert [profile["spec"]["usage"] for profile in profiles] == ([usage] if usage else [])


@given(
    dump=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
        max_leaves=20,
    )
)
def test_a_dump_that_is_malformed_is_left_to_those_who_check_it(dump: Any) -> None:
    for kind in ("Pod", "Node", "Job", "CronJob", "HorizontalPodAutoscaler", "Deployment"):
        body = deepcopy(dump) if isinstance(dump, dict) else {}
        declared([{"metadata": {"name": "x"}, **body, "kind": kind}])
