"""The Eviction subresource (S3-94 to S3-102)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.errors import ApiError, Conflict, Forbidden, NotFound, TooManyRequests
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import DeleteOptions
from fairlead.server.storage.deletion import check_preconditions
from fairlead.server.subresources.eviction import MAX_DISRUPTED_PODS, evict
from tests.server.admission_world import World, run
from tests.work import calls

BUDGETS = "poddisruptionbudgets.policy"
WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
READY = {"type": "Ready", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False"}


class Cluster(World):
    """A world in which pods can be deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[tuple[str, DeleteOptions]] = []

    async def delete(self, name: str, namespace: str, options: DeleteOptions) -> None:
        check_preconditions(self.get("pods", name, namespace), builtin.PODS, options)
        self.deleted.append((name, options))

    def pod(self, name: str = "p", phase: str = "Running", ready: Obj = READY, **meta: Any) -> Cluster:
        labels = {"app": "a"}
        status = {"phase": phase, "conditions": [ready]}
        self.put("pods", {"metadata": {"name": name, "namespace": "ns", "labels": labels, **meta}, "status": status})
        return self

    def budget(self, name: str = "b", selector: Obj | None = None, spec: Obj | None = None, **status: Any) -> Cluster:
        given = {"selector": {"matchLabels": {"app": "a"}} if selector is None else selector, **(spec or {})}
        observed = {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1}
        meta = {"name": name, "namespace": "ns", "generation": 1}
        self.put(BUDGETS, {"metadata": meta, "spec": given, "status": observed | status})
        return self

    def evict(self, name: str = "p", options: Obj | None = None, *, dry_run: bool = False) -> Obj:
        body = {"metadata": {"name": name}} | ({"deleteOptions": options} if options else {})
        return run(evict(self, self, self.delete, "ns", name, body, dry_run=dry_run))

    def refusal(self, name: str = "p", options: Obj | None = None) -> ApiError:
        with pytest.raises(ApiError) as refused:
            self.evict(name, options)
        assert self.deleted == []
        return refused.value

    def budget_status(self) -> Obj:
        found: Obj = self.get(BUDGETS, "b", "ns")["status"]
        return found


def cause(refusal: ApiError) -> str:
    assert isinstance(refusal, TooManyRequests)
    assert refusal.message == WOULD_VIOLATE
    (only,) = refusal.causes
    assert only.reason == "DisruptionBudget"
    return only.message


def test_a_pod_without_budget_is_marked_and_deleted() -> None:
    """S3-96, S3-99, S3-102."""
    cluster = Cluster().pod()
    assert cluster.evict() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    assert cluster.deleted == [("p", DeleteOptions())]
    condition = cluster.get("pods", "p", "ns")["status"]["conditions"][-1]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


def test_another_name_in_the_body_is_a_bad_request() -> None:
    """S3-101."""
    cluster = Cluster().pod()
    with pytest.raises(ApiError, match="name in URL does not match name in Eviction object") as refused:
        run(evict(cluster, cluster, cluster.delete, "ns", "p", {"metadata": {"name": "q"}}))
    assert refused.value.code == 400


def test_a_missing_pod_is_not_found() -> None:
    assert isinstance(Cluster().refusal(), NotFound)


def test_an_allowed_eviction_is_charged_to_the_budget() -> None:
    """S3-102."""
    cluster = Cluster().pod("p").pod("q").budget()
    cluster.evict("p")
    status = cluster.budget_status()
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    (condition,) = status["conditions"]
    assert condition.pop("lastTransitionTime") == status["disruptedPods"]["p"]
    assert condition == {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": 1,
        "reason": "InsufficientPods",
        "message": "",
    }
    cluster.deleted.clear()
    assert cause(cluster.refusal("q")) == "The disruption budget b does not allow evicting pods currently"


def test_a_budget_with_room_left_keeps_its_conditions() -> None:
    cluster = Cluster().pod().budget(disruptionsAllowed=2, disruptedPods={"q": "2030-01-01T00:00:00Z"})
    cluster.evict()
    status = cluster.budget_status()
    assert status["disruptedPods"].keys() == {"p", "q"}
    assert "conditions" not in status


def test_two_evictions_at_once_cannot_both_take_the_last_allowance() -> None:
    cluster = Cluster().pod("p").pod("q").budget()

    async def both() -> list[Any]:
        tries = (evict(cluster, cluster, cluster.delete, "ns", n, {"metadata": {"name": n}}) for n in "pq")
        return await asyncio.gather(*tries, return_exceptions=True)

    outcomes = run(both())
    assert sum(isinstance(outcome, TooManyRequests) for outcome in outcomes) == 1
    assert len(cluster.deleted) == 1


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"currentHealthy": 1}, "The disruption budget b needs 1 healthy pods and has 1 currently"),
        ({}, "The disruption budget b does not allow evicting pods currently"),
        (
            {"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "R", "message": "M"}]},
            "The disruption budget b does not allow evicting pods currently (R): M",
        ),
        (
            {
                "currentHealthy": 0,
                "conditions": [
                    {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "M"}
                ],
            },
            "The disruption budget b does not allow evicting pods currently because it failed sync: M",
        ),
    ],
)
def test_an_exhausted_budget_says_why(status: Obj, why: str) -> None:
    """S3-97."""
    refusal = Cluster().pod().budget(disruptionsAllowed=0, **status).refusal()
    assert cause(refusal) == why
    assert refusal.retry_after_seconds == 0


def test_a_budget_that_was_not_observed_yet_asks_to_come_back() -> None:
    """S3-97."""
    refusal = Cluster().pod().budget(observedGeneration=0).refusal()
    assert cause(refusal) == "The disruption budget b is still being processed by the server."
    assert refusal.retry_after_seconds == 10


def test_two_budgets_are_one_too_many() -> None:
    """S3-98."""
    refusal = Cluster().pod().budget("b").budget("c").refusal()
    assert refusal.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        "code": 500,
    }


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"disruptionsAllowed": -1}, "pdb disruptions allowed is negative"),
        (
            {"disruptedPods": dict.fromkeys(map(str, range(MAX_DISRUPTED_PODS + 1)), "2030-01-01T00:00:00Z")},
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    ],
)
def test_a_broken_budget_forbids(status: Obj, why: str) -> None:
    refusal = Cluster().pod().budget(**status).refusal()
    assert isinstance(refusal, Forbidden)
    assert refusal.message == f'poddisruptionbudget.policy "b" is forbidden: {why}'


@pytest.mark.parametrize(("selector", "is_guarded"), [({}, True), ({"matchLabels": {"app": "other"}}, False)])
def test_an_empty_selector_guards_every_pod(selector: Obj, is_guarded: bool) -> None:
    """S3-106."""
    cluster = Cluster().pod().budget(selector=selector, disruptionsAllowed=0)
    if is_guarded:
        cluster.refusal()
    else:
        cluster.evict()


def test_a_budget_without_selector_guards_nothing() -> None:
    cluster = Cluster().pod().budget(disruptionsAllowed=0)
    cluster.put(BUDGETS, {**cluster.get(BUDGETS, "b", "ns"), "spec": {}})
    cluster.evict()


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_that_do_no_work_go_without_asking(phase: str) -> None:
    """S3-100."""
    cluster = Cluster().pod(phase=phase).budget(disruptionsAllowed=0)
    cluster.evict()
    assert [name for name, _ in cluster.deleted] == ["p"]


def test_a_pod_that_is_going_already_may_go_faster() -> None:
    cluster = Cluster().pod(deletionTimestamp="2030-01-01T00:00:00Z").budget(disruptionsAllowed=0)
    cluster.evict(options={"gracePeriodSeconds": 0})
    assert cluster.deleted == [("p", DeleteOptions(grace_period_seconds=0))]


@pytest.mark.parametrize(
    ("status", "spec", "may_go"),
    [
        ({"currentHealthy": 1, "desiredHealthy": 1}, {}, True),
        ({"currentHealthy": 1, "desiredHealthy": 2}, {}, False),
        ({"currentHealthy": 0, "desiredHealthy": 0}, {}, False),
        ({"currentHealthy": 1, "desiredHealthy": 2}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, True),
    ],
)
def test_an_unready_pod_goes_for_free_where_the_budget_can_do_without_it(status: Obj, spec: Obj, may_go: bool) -> None:
    """S3-100."""
    cluster = Cluster().pod(ready=NOT_READY).budget(disruptionsAllowed=0, spec=spec, **status)
    if may_go:
        cluster.evict()
        assert cluster.budget_status()["disruptionsAllowed"] == 0
        assert "disruptedPods" not in cluster.budget_status()
    else:
        cluster.refusal()


def test_an_unready_pod_that_changes_meanwhile_must_be_asked_for_again() -> None:
    class Changing(Cluster):
        async def delete(self, name: str, namespace: str, options: DeleteOptions) -> None:
            raise Conflict.of("Pod", name, "changed")

    refusal = Changing().pod(ready=NOT_READY).budget(disruptionsAllowed=0).refusal()
    assert cause(refusal) == "The disruption budget b is still being processed by the server."


def test_a_dry_run_checks_and_changes_nothing() -> None:
    """S3-101."""
    cluster = Cluster().pod().budget()
    before = cluster.budget_status()
    cluster.evict(dry_run=True)
    cluster.evict(options={"dryRun": ["All"]})
    assert cluster.budget_status() == before
    assert cluster.get("pods", "p", "ns")["status"]["conditions"] == [READY]
    assert all(options.dry_run for _, options in cluster.deleted)
    refused = Cluster().pod().budget(disruptionsAllowed=0)
    with pytest.raises(TooManyRequests):
        refused.evict(dry_run=True)


def test_preconditions_are_kept() -> None:
    cluster = Cluster().pod(uid="u")
    refusal = cluster.refusal(options={"preconditions": {"uid": "other"}})
    assert refusal.message == (
        'Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does not match the UID in '
        "record (u). The object might have been deleted and then recreated"
    )
    version = metadata(cluster.get("pods", "p", "ns"))["resourceVersion"]
    cluster.evict(options={"preconditions": {"uid": "u", "resourceVersion": version}, "gracePeriodSeconds": 7})
    ((_, options),) = cluster.deleted
    assert options.grace_period_seconds == 7
    assert options.precondition_resource_version == metadata(cluster.get("pods", "p", "ns"))["resourceVersion"]


def test_a_drain_reads_budgets_of_others_once() -> None:
    """A drain asks again and again for each pod; a namespace may have a budget for each of a thousand workloads."""
    cluster = Cluster().pod().budget(disruptionsAllowed=0)
    for number in range(1000):
        cluster.budget(f"other-{number}", {"matchLabels": {"app": f"other-{number}"}})
    first, again = calls(cluster.refusal), calls(cluster.refusal)
    assert again < first / 2
