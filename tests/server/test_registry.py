"""The generic registry, in process: what every kind does when it is created, changed and deleted."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.api.builtin import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
)
from fairlead.api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    ServiceUnavailable,
    Unknown,
)
from fairlead.api.objects import Obj
from fairlead.api.verbs import DeleteOptions, ListQuery, PatchType, WriteOptions
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.server.context import INTERNAL
from fairlead.store.base import StoreUnavailable
from fairlead.store.embedded import PendingWrite
from fairlead.store.memory import MemoryStore
from tests.played import played
from tests.server.registry_world import NAMESPACE, POD_SPEC, Watching, World, run, scheduled, world

DRY = WriteOptions(dry_run=True)


# -- creating


@played(run)
async def test_a_new_object_has_what_only_the_server_may_give(world: World) -> None:
    made = await world.config("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", selfLink="/x")
    meta = made["metadata"]
    assert meta["uid"] not in ("", "mine")
    assert meta["creationTimestamp"].startswith("2026-01-01")
    assert meta["namespace"] == NAMESPACE
    assert int(meta["resourceVersion"]) == world.registry.revision
    assert "selfLink" not in meta
    assert await world.get(CONFIG_MAPS, "a") == made


@played(run)
async def test_a_taken_name_is_refused(world: World) -> None:
    await world.config("a")
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await world.config("a")
    with pytest.raises(AlreadyExists):
        await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, options=DRY)


@played(run)
async def test_a_generated_name_avoids_those_that_are_taken(world: World) -> None:
    prefix = {"metadata": {"generateName": "a-"}}
    rng.seed(1)
    first = await world.create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}})
    rng.seed(1)
    second = await world.create(CONFIG_MAPS, prefix)
    names = [obj["metadata"]["name"] for obj in (first, second)]
    assert len({*names}) == 2
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


@played(run)
async def test_what_follows_from_a_generated_name_follows_from_the_one_that_it_gets(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "u"}
    for _ in range(2):
        rng.seed(1)
        spec: Obj = {"template": {"spec": POD_SPEC | {"restartPolicy": "Never"}}}
        job: Obj = {"metadata": {"generateName": "a-", "ownerReferences": [owner, owner]}, "spec": spec}
        made = await world.registry.create(INTERNAL, JOBS, job, NAMESPACE)
        assert len(made.warnings) == 1
    first, second = [item.obj() for item in (await world.api.list(JOBS, NAMESPACE)).items]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    for job in (first, second):
        assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == job["metadata"]["name"]
        assert job["spec"]["selector"]["matchLabels"].popitem()[1] == job["metadata"]["uid"]


@played(run)
async def test_a_long_prefix_is_cut_so_that_the_name_stays_a_label(world: World) -> None:
    made = await world.create(CONFIG_MAPS, {"metadata": {"generateName": "x" * 80}})
    assert len(made["metadata"]["name"]) == 63


@played(run)
async def test_of_many_that_create_one_name_at_once_one_wins(world: World) -> None:
    outcomes = await asyncio.gather(*(world.config("a") for _ in range(10)), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists"] * 9 + ["dict"]


@played(run)
async def test_a_dry_run_leaves_nothing_behind(world: World) -> None:
    before = world.registry.revision
    made = await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, options=DRY)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert await world.get(CONFIG_MAPS, "a") is None
    assert world.registry.revision == before


# -- changing


@played(run)
async def test_an_update_of_an_old_version_is_a_conflict(world: World) -> None:
    """X-05."""
    old = await world.config("a")
    await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, {"data": {"k": "1"}})
    with pytest.raises(Conflict, match="the object has been modified; please apply your changes to the latest"):
        await world.api.update(CONFIG_MAPS, old | {"data": {"k": "2"}})


@played(run)
async def test_patches_at_once_lose_nothing(world: World) -> None:
    await world.config("a")
    wishes = [{"data": {f"k{number}": "v"}} for number in range(20)]
    await asyncio.gather(*(world.api.patch(CONFIG_MAPS, "a", NAMESPACE, patch) for patch in wishes))
    made = await world.get(CONFIG_MAPS, "a")
    assert made is not None
    assert len(made["data"]) == 20


@played(run)
async def test_a_patch_that_names_an_old_version_is_a_conflict(world: World) -> None:
    old = await world.config("a")
    patch = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "1"}}
    await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, patch)
    with pytest.raises(Conflict):
        await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, patch | {"data": {"k": "2"}})


@played(run)
async def test_an_update_that_changes_nothing_keeps_the_version_and_tells_nobody(world: World) -> None:
    made = await world.config("a", labels={"k": "v"})
    watching = Watching(world.api, CONFIG_MAPS, resource_version=made["metadata"]["resourceVersion"])
    same = dict(reversed(made.items()))  # clients are free to order keys as they like
    assert (await world.api.update(CONFIG_MAPS, same)).obj() == made
    assert (await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, {"metadata": {"labels": {"k": "v"}}})).obj() == made
    assert await watching.seen_events() == []


@played(run)
async def test_an_update_without_a_version_overwrites_and_one_with_zero_too(world: World) -> None:
    await world.config("a")
    for version in ({}, {"resourceVersion": "0"}, {"resourceVersion": ""}):
        meta = {"name": "a", "namespace": NAMESPACE} | version
        await world.api.update(CONFIG_MAPS, {"metadata": meta, "data": {"k": str(version)}})


@pytest.mark.parametrize("version", ["abc", "-1", "1_0", "٣", "9" * 5000])
@played(run)
async def test_a_version_that_is_no_number_is_refused(world: World, version: str) -> None:
    await world.config("a")
    meta = {"name": "a", "namespace": NAMESPACE, "resourceVersion": version}
    with pytest.raises(Unknown, match=r"strconv\.ParseUint"):
        await world.api.update(CONFIG_MAPS, {"metadata": meta})
    for query in (ListQuery(resource_version=version), ListQuery(resource_version=version, limit=1)):
        with pytest.raises(BadRequest, match="invalid resource version: resourceVersion: Invalid value"):
            await world.api.list(CONFIG_MAPS, NAMESPACE, query)


@played(run)
async def test_a_dry_run_of_an_update_shows_the_outcome_and_keeps_the_object(world: World) -> None:
    made = await world.config("a")
    shown = (await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, {"data": {"k": "v"}}, options=DRY)).obj()
    assert shown == made | {"data": {"k": "v"}}
    assert await world.get(CONFIG_MAPS, "a") == made


@played(run)
async def test_the_status_is_written_through_its_own_endpoint_alone(world: World) -> None:
    await world.create(PODS, scheduled())
    both = {"metadata": {"labels": {"k": "v"}}, "spec": {"priority": 7}, "status": {"phase": "Running"}}
    await world.api.patch(PODS, "p", NAMESPACE, {"status": {"phase": "Running"}})
    made = await world.get(PODS, "p")
    assert made is not None
    assert made["status"]["phase"] == "Pending"
    await world.api.patch(PODS, "p", NAMESPACE, both, subresource="status")
    made = await world.get(PODS, "p")
    assert made is not None
    assert (made["status"]["phase"], made["spec"]["priority"]) == ("Running", 0)


@played(run)
async def test_generation_counts_changes_of_the_spec_and_nothing_else(world: World) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await world.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})

    async def generation(patch: Obj, subresource: str = "") -> int:
        found = await world.api.patch(DEPLOYMENTS, "d", NAMESPACE, patch, subresource=subresource)
        seen: int = (await world.get(DEPLOYMENTS, "d") or found.obj())["metadata"]["generation"]
        return seen

    assert await generation({"metadata": {"labels": {"x": "y"}}}) == 1
    assert await generation({"status": {"replicas": 1, "observedGeneration": 1}}, "status") == 1
    assert await generation({"spec": {"replicas": 3}}) == 2
    assert await generation({"spec": {"replicas": 4}}, "scale") == 3


@played(run)
async def test_a_scale_shows_and_changes_the_replicas(world: World) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await world.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    scale = await world.get(DEPLOYMENTS, "d", "scale")
    assert scale is not None
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "a=b")
    assert scale["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    scale["spec"]["replicas"] = 5
    assert (await world.api.update(DEPLOYMENTS, scale, subresource="scale")).obj()["spec"] == {"replicas": 5}
    with pytest.raises(Conflict):
        await world.api.update(DEPLOYMENTS, scale, subresource="scale")
    with pytest.raises(Invalid):
        await world.api.patch(DEPLOYMENTS, "d", NAMESPACE, {"spec": {"replicas": -1}}, subresource="scale")


@pytest.mark.parametrize("subresource", ["scale", "nonsense"])
@played(run)
async def test_a_subresource_that_a_kind_does_not_have_is_not_found(world: World, subresource: str) -> None:
    await world.config("a")
    with pytest.raises(NotFound):
        await world.api.get(CONFIG_MAPS, "a", NAMESPACE, subresource)


@played(run)
async def test_a_json_patch_whose_test_fails_changes_nothing(world: World) -> None:
    made = await world.config("a")
    patch = [
        {"op": "add", "path": "/data", "value": {"k": "v"}},
        {"op": "test", "path": "/metadata/name", "value": "b"},
    ]
    with pytest.raises(ApiError):
        await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, patch, PatchType.JSON)
    assert await world.get(CONFIG_MAPS, "a") == made


# -- deleting


@played(run)
async def test_a_finalizer_keeps_an_object_until_it_is_taken_away(world: World) -> None:
    """X-09."""
    made = await world.config("a", finalizers=["example.com/f"])
    watching = Watching(world.api, CONFIG_MAPS, resource_version=made["metadata"]["resourceVersion"])
    answer = (await world.api.delete(CONFIG_MAPS, "a", NAMESPACE)).obj()
    assert (answer["kind"], answer["metadata"]["deletionGracePeriodSeconds"]) == ("ConfigMap", 0)
    with pytest.raises(Invalid, match="no new finalizers"):
        patch = {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}
        await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, patch)
    again = (await world.api.delete(CONFIG_MAPS, "a", NAMESPACE)).obj()
    assert again == answer
    await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, {"metadata": {"finalizers": None}})
    assert await world.get(CONFIG_MAPS, "a") is None
    assert await watching.seen_events() == [("MODIFIED", "a"), ("DELETED", "a")]


@played(run)
async def test_a_pod_on_a_node_waits_for_its_node_and_one_without_goes_at_once(world: World) -> None:
    """S3-103."""
    await world.create(PODS, scheduled())
    await world.create(PODS, {"metadata": {"name": "loose"}, "spec": POD_SPEC})
    for name in ("p", "loose"):
        await world.api.delete(PODS, name, NAMESPACE)
    pod = await world.get(PODS, "p")
    assert pod is not None
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert pod["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert await world.get(PODS, "loose") is None
    await world.api.delete(PODS, "p", NAMESPACE, DeleteOptions(grace_period_seconds=0))
    assert await world.get(PODS, "p") is None


@played(run)
async def test_a_deletion_that_a_crash_cut_in_half_can_be_finished(world: World) -> None:
    """The mark and the removal are two writes; between them the server may die."""
    await world.create(PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})

    def mark(pod: Obj) -> Obj:
        pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
        return pod

    record = (await world.registry.store.head("/pods/n/p")).record
    assert record is not None
    served = world.registry.catalogue.stored("pods")
    assert served is not None
    marked = served.encode(mark((await world.get(PODS, "p")) or {}))
    await world.registry.store.put("/pods/n/p", marked, record.revision)
    await world.api.delete(PODS, "p", NAMESPACE)
    assert await world.get(PODS, "p") is None


@played(run)
async def test_preconditions_protect_the_namesake(world: World) -> None:
    first = await world.config("a")
    await world.api.delete(CONFIG_MAPS, "a", NAMESPACE)
    await world.config("a")
    with pytest.raises(Conflict, match="might have been deleted and then recreated"):
        uid = first["metadata"]["uid"]
        await world.api.delete(CONFIG_MAPS, "a", NAMESPACE, DeleteOptions(precondition_uid=uid))
    with pytest.raises(Conflict, match="StorageError"):
        await world.api.update(CONFIG_MAPS, first | {"metadata": first["metadata"] | {"resourceVersion": ""}})
    assert await world.get(CONFIG_MAPS, "a")


@played(run)
async def test_a_collection_is_deleted_as_far_as_the_selector_goes(world: World) -> None:
    for name in "abcd":
        await world.config(name, labels={"k": "yes" if name in "bc" else "no"})
    gone = await world.api.delete_collection(CONFIG_MAPS, NAMESPACE, ListQuery(labels="k=yes"))
    assert len(gone.items) == 2
    assert await world.names(CONFIG_MAPS, labels="k") == ["a", "d"]
    await world.api.delete_collection(CONFIG_MAPS, NAMESPACE, options=DeleteOptions(dry_run=True))
    assert await world.names(CONFIG_MAPS, labels="k") == ["a", "d"]


@played(run)
async def test_the_answer_to_a_deletion_is_a_status_with_the_uid(world: World) -> None:
    made = await world.config("a")
    answer = (await world.api.delete(CONFIG_MAPS, "a", NAMESPACE)).obj()
    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}


@played(run)
async def test_an_event_goes_at_once_whatever_is_to_become_of_its_dependents(world: World) -> None:
    about = {"kind": "Pod", "namespace": NAMESPACE}
    await world.create(EVENTS, {"metadata": {"name": "e"}, "involvedObject": about})
    answer = await world.api.delete(EVENTS, "e", NAMESPACE, DeleteOptions(propagation_policy="Foreground"))
    assert answer.obj()["kind"] == "Status"
    assert await world.get(EVENTS, "e") is None


@played(run)
async def test_what_is_gone_is_shown_as_of_its_end(world: World) -> None:
    made = await world.create(PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})
    watch = Watching(world.api, PODS)
    await watch.seen_events()
    shown = (await world.api.delete(PODS, "p", NAMESPACE)).obj()
    assert (await watch.seen_events())[-1] == ("DELETED", "p")
    version = shown["metadata"]["resourceVersion"]
    assert version == watch.events[-1][1]["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


@pytest.mark.parametrize(("policy", "finalizers"), [(None, ["orphan"]), ("Background", None)])
@played(run)
async def test_a_job_orphans_its_pods_unless_told_otherwise(
    world: World, policy: str | None, finalizers: list[str] | None
) -> None:
    spec = {"template": {"spec": POD_SPEC | {"restartPolicy": "Never"}}}
    await world.create(JOBS, {"metadata": {"name": "j"}, "spec": spec})
    await world.api.delete(JOBS, "j", NAMESPACE, DeleteOptions(propagation_policy=policy))
    found = await world.get(JOBS, "j")
    assert (found["metadata"]["finalizers"] if found else None) == finalizers


@pytest.mark.parametrize(("policy", "is_warned"), [(None, True), ("Orphan", False), ("Background", False)])
@played(run)
async def test_who_deletes_jobs_hears_that_their_pods_stay(world: World, policy: str | None, is_warned: bool) -> None:
    template = {"spec": POD_SPEC | {"restartPolicy": "Never"}}
    await world.create(JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    options = DeleteOptions(propagation_policy=policy)
    single = await world.registry.delete(INTERNAL, JOBS, "j", NAMESPACE, options)
    collection = await world.registry.delete_collection(INTERNAL, JOBS, NAMESPACE, options=options)
    for result in (single, collection):
        assert any("child pods are preserved by default" in text for text in result.warnings) is is_warned


# -- the store fails


class FailingStore(MemoryStore):
    """A store on a disk that is full as long as a test wants it to be."""

    is_full = False

    async def _commit(self, write: PendingWrite) -> None:
        if self.is_full:
            if write.replaced is None:
                del self._head[write.change.key]
            else:
                self._head[write.change.key] = write.replaced
            raise StoreUnavailable("database or disk is full")
        await super()._commit(write)


def test_a_full_disk_is_a_503_and_changes_nothing() -> None:
    async def main() -> None:
        store = FailingStore()
        async with world(store) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            before = await made.config("a")
            store.is_full = True
            for attempt in (
                made.config("b"),
                made.api.patch(CONFIG_MAPS, "a", NAMESPACE, {"data": {"k": "v"}}),
                made.api.delete(CONFIG_MAPS, "a", NAMESPACE),
            ):
                with pytest.raises(ServiceUnavailable, match="disk is full"):
                    await attempt
            assert await made.names(CONFIG_MAPS) == ["a"]
            assert await made.get(CONFIG_MAPS, "a") == before
            store.is_full = False
            await made.config("b")

    run_virtual(main())
