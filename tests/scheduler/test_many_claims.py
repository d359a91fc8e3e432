"""A pod with thousands of volumes costs no more than that many times one, and holds nobody up."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.runtime import loops, turns
from fairlead.scheduler.facts.volumes import ClaimPlan, Volumes
from fairlead.scheduler.framework import Handle
from fairlead.scheduler.plugins.node.volume_binder import VolumeBinder
from fairlead.scheduler.status_writer import StatusWriter
from fairlead.scheduler.writes import Writers
from tests.scheduler.scheduler_world import Cluster, node
from tests.turns import counting_turns

SELECTED = "volume.kubernetes.io/selected-node"
COUNT = 50


class Patches:
    """An API that notes the patches, and answers with the object as it is then; each takes so many turns."""

    def __init__(self, took_turns: int = 0) -> None:
        self.took_turns = took_turns
        self.seen: list[Obj] = []

    async def patch(
        self, resource: Resource, name: str, namespace: str, patch: Obj, *_: PatchType, **__: Any
    ) -> Encoded:
        for _turn in range(self.took_turns):
            await asyncio.sleep(0)
        self.seen.append(patch)
        meta = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "2"}
        return encoded({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta})


def waiting() -> Pod:
    meta = {"name": "w", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return encoded({"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": []}}).view(Pod)


def claim(number: int, *, version: int = 1, is_bound: bool = False) -> PersistentVolumeClaim:
    meta = {"name": f"c{number}", "namespace": "default", "uid": f"u{number}", "resourceVersion": str(version)}
    annotations = {SELECTED: "n1"} if version > 1 else {}
    if is_bound:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    spec = {"storageClassName": "made"} | ({"volumeName": f"v{number}"} if is_bound else {})
    return encoded({"metadata": meta | {"annotations": annotations}, "spec": spec}).view(PersistentVolumeClaim)


def volume(number: int, claimant: int | None = None) -> PersistentVolume:
    spec: Obj = {"storageClassName": "made", "capacity": {"storage": "1Gi"}}
    if claimant is not None:
        spec["claimRef"] = {"namespace": "default", "name": f"c{claimant}", "uid": f"u{claimant}"}
    return encoded({"metadata": {"name": f"v{number}"}, "spec": spec}).view(PersistentVolume)


class CountedClaims(dict[str, PersistentVolumeClaim]):
    """Claims, and how often somebody looked one up."""

    looks = 0

    def get(self, *args: Any) -> Any:
        self.looks += 1
        return super().get(*args)


def test_claims_are_told_their_node_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers at once; each of its answers is work."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)

    async def story() -> int:
        api, cluster, pod = Patches(), Cluster(node("n1")), waiting()
        volumes = cluster.snapshot.volumes
        plan = ClaimPlan("n1", [], [claim(number) for number in range(COUNT)])
        for number in range(COUNT):
            volumes.set_claim(None, claim(number, version=2, is_bound=True))
            volumes.set_volume(None, volume(number, claimant=number))
        binder = VolumeBinder(Handle(cast(Api, api), cluster.snapshot, lambda _: pod))
        _, count = await counting_turns(binder.bind(pod, plan, 10))
        assert len(api.seen) == COUNT
        return count

    assert loops.run(story()) >= COUNT


def test_claims_that_get_their_volumes_one_by_one_are_looked_at_a_few_times_each() -> None:
    async def story() -> int:
        api, cluster, pod = Patches(), Cluster(node("n1")), waiting()
        volumes = cluster.snapshot.volumes
        volumes.claims = counted = CountedClaims()
        plan = ClaimPlan("n1", [], [claim(number, version=2) for number in range(COUNT)])
        volumes.assume(pod.metadata.uid, plan)
        for number in range(COUNT):
            volumes.set_claim(None, claim(number, version=2))
        handle = Handle(cast(Api, api), cluster.snapshot, lambda _: pod)
        binding = asyncio.create_task(VolumeBinder(handle).bind(pod, plan, 10))
        for number in range(COUNT):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not binding.done()
            volumes.set_volume(None, volume(number, claimant=number))
            volumes.set_claim(claim(number, version=2), claim(number, version=3, is_bound=True))
        await binding
        return counted.looks

    assert loops.run(story()) <= 5 * COUNT


def test_volumes_of_other_claims_are_no_candidates() -> None:
    volumes = Volumes()
    for number in range(COUNT):
        volumes.set_volume(None, volume(number, claimant=number))
    volumes.set_volume(None, volume(COUNT))
    assert [found.metadata.name for found in volumes.candidates(claim(3))] == ["v3", f"v{COUNT}"]
    volumes.set_volume(volume(3, claimant=3), volume(3, claimant=4))
    assert [found.metadata.name for found in volumes.candidates(claim(3))] == [f"v{COUNT}"]
    assert [found.metadata.name for found in volumes.candidates(claim(4))] == ["v4", "v3", f"v{COUNT}"]


def test_a_decision_looks_at_each_claim_a_few_times_until_one_changes() -> None:
    cluster = Cluster(node("n1"))
    volumes = cluster.snapshot.volumes
    made = {"metadata": {"name": "made"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
    volumes.set_class(None, encoded(made).view(StorageClass))
    for number in range(COUNT - 1):
        volumes.set_claim(None, claim(number))
    volumes.claims = counted = CountedClaims(volumes.claims)
    spec_volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}} for number in range(COUNT)
    ]
    meta = {"name": "w", "namespace": "default", "uid": "u"}
    raw = encoded({"metadata": meta, "spec": {"containers": [], "volumes": spec_volumes}})
    request = cluster.request(raw.view(Pod))
    missing = f'persistentvolumeclaim "c{COUNT - 1}" not found'
    assert missing in str(cluster.decider.diagnose(request))
    assert counted.looks <= 6 * COUNT
    volumes.set_claim(None, claim(COUNT - 1))
    assert missing not in str(cluster.decider.diagnose(cluster.request(raw.view(Pod))))


def test_what_is_said_of_a_pod_while_something_is_being_written_is_written_once_and_last() -> None:
    async def story() -> list[str]:
        api = Patches(took_turns=5)
        writer = StatusWriter(cast(Api, api), None)
        async with asyncio.TaskGroup() as group:
            writer.writers = Writers(group)
            for number in range(4):
                writer.failed(waiting(), "Unschedulable", f"reason {number}")
                await asyncio.sleep(0)
        return [patch["status"]["conditions"][0]["message"] for patch in api.seen]

    assert loops.run(story()) == ["reason 0", "reason 3"]
