"""Numbers written as text: no number of digits stops a controller, and what does not fit is read as Go reads it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.errors import BadRequest, Invalid
from fairlead.api.objects import Obj
from fairlead.controllers.deployment import Deployments
from fairlead.controllers.job import Jobs
from fairlead.controllers.replication import ReplicaSets
from fairlead.golang.numbers import clamped_int, known_int
from tests.controllers.cluster import Cluster, run
from tests.played import played

DIGITS = "9" * 5000
SELECTOR = {"matchLabels": {"app": "a"}}
TEMPLATE: Obj = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@given(st.integers())
def test_a_number_is_read_if_it_fits_and_clamped_where_go_clamps_it(number: int) -> None:
    fits = -(2**63) <= number < 2**63
    assert known_int(str(number)) == (number if fits else None)
    assert clamped_int(str(number)) == min(max(number, -(2**63)), 2**63 - 1)


@pytest.mark.parametrize("text", ["", "x", "1_0", " 1", "1.0", "٣", "+"])
def test_what_python_takes_for_a_number_may_be_none(text: str) -> None:
    assert (known_int(text), clamped_int(text)) == (None, 0)


def deployment(**changes: Any) -> Obj:
    return {"metadata": {"name": "d"}, "spec": {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE} | changes}


@played(run, Deployments, ReplicaSets)
async def test_a_deployment_rolls_out_whatever_its_surge_and_the_annotations_of_its_sets_say(cluster: Cluster) -> None:
    rolling = {"rollingUpdate": {"maxSurge": f"{DIGITS}%"}}
    await cluster.create(builtin.DEPLOYMENTS, deployment(strategy=rolling))
    await asyncio.sleep(1)
    [old] = await cluster.all(builtin.REPLICA_SETS)
    kinds = ("revision", "desired-replicas", "max-replicas")
    said = {f"deployment.kubernetes.io/{one}": DIGITS for one in kinds}
    await cluster.patch(builtin.REPLICA_SETS, old["metadata"]["name"], {"metadata": {"annotations": said}})
    image = {"containers": [{"name": "c", "image": "j"}]}
    await cluster.patch(builtin.DEPLOYMENTS, "d", {"spec": {"template": {"spec": image}}})
    await asyncio.sleep(1)
    assert sorted(one["spec"]["replicas"] for one in await cluster.all(builtin.REPLICA_SETS)) == [2, 2]


@played(run, Jobs)
async def test_a_job_counts_on_whatever_the_annotations_of_its_pods_say(cluster: Cluster) -> None:
    template = {"spec": TEMPLATE["spec"] | {"restartPolicy": "Never"}}
    spec = {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "template": template}
    await cluster.create(builtin.JOBS, {"metadata": {"name": "j"}, "spec": spec})
    await asyncio.sleep(1)
    [pod] = await cluster.all(builtin.PODS)
    said = {"batch.kubernetes.io/job-index-failure-count": DIGITS}
    said["batch.kubernetes.io/job-completion-index"] = DIGITS
    await cluster.patch(builtin.PODS, pod["metadata"]["name"], {"metadata": {"annotations": said}})
    await asyncio.sleep(1)
    [replaced] = await cluster.all(builtin.PODS)  # a pod of no index is nobody's
    assert replaced["metadata"]["uid"] != pod["metadata"]["uid"]


@played(run)
async def test_the_server_refuses_such_numbers_in_words(cluster: Cluster) -> None:
    rolling = {"rollingUpdate": {"maxUnavailable": f"{DIGITS}%"}}
    with pytest.raises(Invalid, match="must not be greater than 100%"):
        await cluster.create(builtin.DEPLOYMENTS, deployment(strategy=rolling))
    meta = {"name": "ds", "annotations": {"deprecated.daemonset.template.generation": "first"}}
    with pytest.raises(BadRequest, match='parsing "first": invalid syntax'):
        await cluster.create(
            builtin.DAEMON_SETS, {"metadata": meta, "spec": {"selector": SELECTOR, "template": TEMPLATE}}
        )


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize("said", ["7", None])
@played(run)
async def test_the_generation_of_a_daemon_sets_template_is_the_servers_to_count(
    cluster: Cluster, subresource: str, said: str | None
) -> None:
    key = "deprecated.daemonset.template.generation"
    spec = {"selector": SELECTOR, "template": TEMPLATE}
    await cluster.create(builtin.DAEMON_SETS, {"metadata": {"name": "ds"}, "spec": spec})
    patch = {"metadata": {"annotations": {key: said}}}
    changed = await cluster.patch(builtin.DAEMON_SETS, "ds", patch, subresource)
    assert changed["metadata"]["annotations"] == {key: "1"}
