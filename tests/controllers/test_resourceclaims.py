"""Claims on devices come with their pods, are kept while pods use them, and are given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api.builtin import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from fairlead.api.objects import Obj
from fairlead.api.users import controller_user
from fairlead.client.informer import Informers
from fairlead.controllers.garbage import GarbageCollector
from fairlead.controllers.resourceclaims import PodResourceClaims, ResourceClaims
from fairlead.controllers.table import ControllerManager
from tests.controllers.cluster import Cluster, run
from tests.work import growth

FINALIZER = "resource.kubernetes.io/delete-protection"
RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}


def one_device() -> Obj:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def template(name: str = "t", **metadata: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": one_device()}}


def pod(name: str = "p", *templates: str, claims: tuple[str, ...] = (), node: str = "") -> Obj:
    asked: list[Obj] = [
        {"name": f"c{number}", "resourceClaimTemplateName": name} for number, name in enumerate(templates)
    ]
    asked += [{"name": f"n-{claim}", "resourceClaimName": claim} for claim in claims]
    spec: Obj = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": asked}
    return {"metadata": {"name": name}, "spec": spec | ({"nodeName": node} if node else {})}


async def allocate(cluster: Cluster, claim: str, *pods: Obj) -> None:
    """What the scheduler does."""
    await cluster.patch(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": [FINALIZER]}})
    users = [{"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]} for user in pods]
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": users}
    await cluster.patch(RESOURCE_CLAIMS, claim, {"status": status}, "status")


async def claim_of(cluster: Cluster, name: str = "p", of: str = "c0") -> str:
    found = await cluster.get(PODS, name)
    assert found is not None
    made = {one["name"]: one["resourceClaimName"] for one in found["status"].get("resourceClaimStatuses", ())}
    return str(made[of])


async def users(cluster: Cluster, name: str) -> list[str] | None:
    """Whom the claim is reserved for; None if it is not allocated."""
    claim = await cluster.get(RESOURCE_CLAIMS, name)
    assert claim is not None
    status = claim.get("status", {})
    return [user["name"] for user in status.get("reservedFor", ())] if "allocation" in status else None


def live(check: Any) -> None:
    run(check, PodResourceClaims, ResourceClaims, GarbageCollector)


def test_a_pod_gets_a_claim_of_each_of_its_templates() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template(labels={"l": "1"}, annotations={"a": "2"}))
        made = await cluster.create(PODS, pod("p", "t", "t"))
        await asyncio.sleep(1)
        claims = await cluster.all(RESOURCE_CLAIMS)
        assert len(claims) == 2
        name = await claim_of(cluster)
        claim = next(claim for claim in claims if claim["metadata"]["name"] == name)
        meta = claim["metadata"]
        assert meta["generateName"] == "p-c0-" and name.startswith("p-c0-")
        assert meta["labels"] == {"l": "1"}
        assert meta["annotations"] == {"a": "2", "resource.kubernetes.io/pod-claim-name": "c0"}
        assert meta["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "uid": made["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"
        assert await claim_of(cluster, of="c1") != name

    live(check)


def test_of_long_names_something_is_left_in_that_of_the_claim() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        await cluster.create(PODS, pod("p" * 60, "t"))
        await asyncio.sleep(1)
        (claim,) = await cluster.all(RESOURCE_CLAIMS)
        assert claim["metadata"]["generateName"] == f"{'p' * 53}-c"

    live(check)


def test_a_template_that_is_missing_is_told_and_waited_for() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(PODS, pod("p", "t"))
        await asyncio.sleep(1)
        missing = 'resourceclaimtemplate.resource.k8s.io "t" not found'
        text = f'PodResourceClaim c0: resource claim template "t": {missing}'
        assert await cluster.events() == [("Warning", "FailedResourceClaimCreation", text)]
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        await asyncio.sleep(1)
        assert (await claim_of(cluster)).startswith("p-c0-")

    live(check)


def test_a_claim_that_cannot_be_made_is_told_and_tried_again() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "0"}}}
        await cluster.create(RESOURCE_QUOTAS, quota)
        status = {
            "hard": {"count/resourceclaims.resource.k8s.io": "0"},
            "used": {"count/resourceclaims.resource.k8s.io": "0"},
        }
        await cluster.patch(RESOURCE_QUOTAS, "q", {"status": status}, "status")
        await cluster.create(PODS, pod("p", "t"))
        await asyncio.sleep(1)
        kind, reason, text = (await cluster.events())[0]
        assert (kind, reason) == ("Warning", "FailedResourceClaimCreation")
        assert text.startswith("PodResourceClaim c0: create ResourceClaim : ") and "exceeded quota: q" in text
        await cluster.delete(RESOURCE_QUOTAS, "q")
        await asyncio.sleep(60)
        assert (await claim_of(cluster)).startswith("p-c0-")

    live(check)


def test_a_claim_whose_name_did_not_get_into_the_status_is_not_made_again() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        await cluster.create(PODS, pod("p", "t"))
        await asyncio.sleep(1)
        name = await claim_of(cluster)
        await cluster.patch(PODS, "p", {"status": {"resourceClaimStatuses": None}}, "status")
        await asyncio.sleep(1)
        assert await claim_of(cluster) == name
        assert len(await cluster.all(RESOURCE_CLAIMS)) == 1

    live(check)


def test_a_claim_that_somebody_deletes_is_made_again_and_the_others_stay() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        await cluster.create(PODS, pod("p", "t", "t"))
        await asyncio.sleep(1)
        before = [await claim_of(cluster, of=of) for of in ("c0", "c1")]
        await cluster.delete(RESOURCE_CLAIMS, before[0])
        await asyncio.sleep(1)
        after = [await claim_of(cluster, of=of) for of in ("c0", "c1")]
        assert after[0] != before[0] and after[1] == before[1]
        assert {claim["metadata"]["name"] for claim in await cluster.all(RESOURCE_CLAIMS)} == set(after)

    live(check)


def test_a_pod_that_has_ended_frees_its_claim_and_the_claim_goes() -> None:
    """It does so once: no new one is made for a pod that is over."""

    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        made = await cluster.create(PODS, pod("p", "t"))
        await asyncio.sleep(1)
        await allocate(cluster, await claim_of(cluster), made)
        await asyncio.sleep(1)
        assert await users(cluster, await claim_of(cluster)) == ["p"]
        await cluster.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, "status")
        await asyncio.sleep(60)
        assert await cluster.all(RESOURCE_CLAIMS) == []
        assert await cluster.get(PODS, "p") is not None

    live(check)


def test_a_claim_of_its_own_is_given_back_when_the_last_of_its_pods_has_gone() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": one_device()})
        pods = [await cluster.create(PODS, pod(name, claims=("shared",))) for name in ("p1", "p2")]
        await allocate(cluster, "shared", *pods)
        await cluster.delete(PODS, "p1", grace_period_seconds=0)
        await asyncio.sleep(1)
        assert await users(cluster, "shared") == ["p2"]
        await cluster.patch(PODS, "p2", {"status": {"phase": "Failed"}}, "status")
        await asyncio.sleep(1)
        assert await users(cluster, "shared") is None
        claim = await cluster.get(RESOURCE_CLAIMS, "shared")
        assert claim is not None and "finalizers" not in claim["metadata"]

    live(check)


def test_a_pod_of_the_same_name_is_another() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": one_device()})
        first = await cluster.create(PODS, pod("p", claims=("shared",)))
        await cluster.delete(PODS, "p", grace_period_seconds=0)
        await cluster.create(PODS, pod("p", claims=("shared",)))
        await allocate(cluster, "shared", first)
        await asyncio.sleep(1)
        assert await users(cluster, "shared") is None

    live(check)


def test_an_allocation_that_nobody_has_used_yet_stays() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "early"}, "spec": one_device()})
        await allocate(cluster, "early")
        await asyncio.sleep(60)
        assert await users(cluster, "early") == []
        await cluster.delete(RESOURCE_CLAIMS, "early")
        await asyncio.sleep(1)
        assert await cluster.get(RESOURCE_CLAIMS, "early") is None

    live(check)


def test_a_deleted_claim_stays_for_the_pods_that_have_it() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": one_device()})
        made = await cluster.create(PODS, pod("p", claims=("shared",)))
        await allocate(cluster, "shared", made)
        await cluster.delete(RESOURCE_CLAIMS, "shared")
        await asyncio.sleep(60)
        assert await users(cluster, "shared") == ["p"]
        await cluster.delete(PODS, "p", grace_period_seconds=0)
        await asyncio.sleep(1)
        assert await cluster.get(RESOURCE_CLAIMS, "shared") is None

    live(check)


def test_who_else_a_claim_is_reserved_for_stays() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": one_device()})
        await allocate(cluster, "shared")
        stranger = {"apiGroup": "example.com", "resource": "things", "name": "t", "uid": "u1"}
        gone = {"resource": "pods", "name": "gone", "uid": "u2"}
        await cluster.patch(RESOURCE_CLAIMS, "shared", {"status": {"reservedFor": [stranger, gone]}}, "status")
        await asyncio.sleep(1)
        assert await users(cluster, "shared") == ["t"]

    live(check)


def test_a_pod_bound_without_the_scheduler_reserves_what_is_allocated() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": one_device()})
        first = await cluster.create(PODS, pod("p1", claims=("shared",)))
        await cluster.create(PODS, pod("p2", claims=("shared",), node="somewhere"))
        await asyncio.sleep(1)
        await allocate(cluster, "shared", first)
        await cluster.create(PODS, pod("p3", claims=("shared",), node="somewhere"))
        await cluster.create(PODS, pod("waits", claims=("shared",)))
        await asyncio.sleep(1)
        assert sorted(await users(cluster, "shared") or ()) == ["p1", "p2", "p3"]

    live(check)


def test_the_claim_of_extended_resources_is_freed_with_its_pod() -> None:
    """The scheduler makes it, and tells its name in the status of the pod only."""

    async def check(cluster: Cluster) -> None:
        container = {"name": "c", "image": "i", "resources": {"limits": {"example.com/gpu": "1"}}}
        made = await cluster.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
        meta = {
            "name": "extended",
            "ownerReferences": [owner],
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        }
        await cluster.create(RESOURCE_CLAIMS, {"metadata": meta, "spec": one_device()})
        mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
        status = {"resourceClaimName": "extended", "requestMappings": [mapping]}
        await cluster.patch(PODS, "p", {"status": {"extendedResourceClaimStatus": status}}, "status")
        await allocate(cluster, "extended", made)
        await asyncio.sleep(1)
        assert await users(cluster, "extended") == ["p"]
        await cluster.patch(PODS, "p", {"status": {"phase": "Succeeded"}}, "status")
        await asyncio.sleep(1)
        assert await cluster.get(RESOURCE_CLAIMS, "extended") is None

    live(check)


def test_what_happened_while_no_controller_ran_is_made_up_for() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": one_device()})
        pods = [await cluster.create(PODS, pod(name, claims=("shared",))) for name in ("ended", "gone", "there")]
        await cluster.create(PODS, pod("new", "t"))
        await allocate(cluster, "shared", *pods)
        await cluster.patch(PODS, "ended", {"status": {"phase": "Succeeded"}}, "status")
        await cluster.delete(PODS, "gone", grace_period_seconds=0)
        informers = Informers(cluster.api)
        manager = ControllerManager(
            lambda account: cluster.registry.as_user(controller_user(account)),
            informers,
            [PodResourceClaims, ResourceClaims],
        )
        late = [asyncio.create_task(each.run()) for each in (informers, manager)]
        await asyncio.sleep(1)
        assert await users(cluster, "shared") == ["there"]
        assert (await claim_of(cluster, "new")).startswith("new-c0-")
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    run(check)


def test_what_is_counted() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
        await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "own"}, "spec": one_device()})
        await cluster.create(PODS, pod("p", "t"))
        await allocate(cluster, "own")
        await asyncio.sleep(1)

    pods, claims = PodResourceClaims(), ResourceClaims()
    run(check, lambda: pods, lambda: claims)
    (made,), (known,) = pods.families, claims.families
    assert dict(made.read()) == {("success", "false"): 1}
    counts = {labels: count for labels, count in known.read() if count}
    assert counts == {("true", "false", ""): 1, ("false", "false", "resource_claim_template"): 1}


@pytest.mark.parametrize("is_shared", [False, True])
def test_many_claims_of_one_pod_and_many_pods_of_one_claim_are_linear(is_shared: bool) -> None:
    def lived(size: int) -> None:
        async def many_claims(cluster: Cluster) -> None:
            await cluster.create(RESOURCE_CLAIM_TEMPLATES, template())
            await cluster.create(PODS, pod("p", *["t"] * size))
            await asyncio.sleep(10)
            assert len(await cluster.all(RESOURCE_CLAIMS)) == size
            await cluster.delete(PODS, "p", grace_period_seconds=0)
            await asyncio.sleep(60)

        async def many_pods(cluster: Cluster) -> None:
            await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": one_device()})
            pods = [await cluster.create(PODS, pod(f"p{number}", claims=("shared",))) for number in range(size)]
            await allocate(cluster, "shared", *pods)
            await asyncio.sleep(1)
            for number in range(size):
                await cluster.patch(PODS, f"p{number}", {"status": {"phase": "Succeeded"}}, "status")
            await asyncio.sleep(60)
            assert await users(cluster, "shared") == (None if size else [])

        live(many_pods if is_shared else many_claims)

    assert growth(lived, 30) < 2.3
