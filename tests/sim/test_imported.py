"""A settled cluster that is imported stays as it is, even if the dump lacks what nobody thinks of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api import builtin
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.cli.inputs import node_objects
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape

SINCE = "2025-12-31T00:00:00Z"
CONDITIONS = [{"type": type_, "status": "True", "lastTransitionTime": SINCE} for type_ in ("Ready", "PodScheduled")]


def run(dump: list[Obj], check: Callable[[Api], Awaitable[None]]) -> None:
    async def main() -> None:
        settings = Settings(nodes=tuple(node_objects(None, dump, 1, NodeShape())), imported=tuple(dump))
        async with simulation(settings) as (api, _):
            await asyncio.sleep(600)
            await check(api)

    run_virtual(main())


def owner(kind: str, name: str, **status: Any) -> Obj:
    template: Obj = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"u-{name}", "generation": 3},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
        "status": {"observedGeneration": 3} | status,
    }


def pod(of: Obj, name: str, node: str, **labels: str) -> Obj:
    controller = {"apiVersion": "apps/v1", "kind": of["kind"], "controller": True}
    controller |= {key: of["metadata"][key] for key in ("name", "uid")}
    meta = {"name": name, "namespace": "default", "uid": f"u-{name}", "creationTimestamp": SINCE}
    state = {"name": "c", "ready": True, "image": "i", "imageID": "", "restartCount": 0}
    running = {"started": True, "state": {"running": {"startedAt": SINCE}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | {"labels": {"app": of["metadata"]["name"]} | labels, "ownerReferences": [controller]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "serviceAccountName": "builder"},
        "status": {"phase": "Running", "conditions": CONDITIONS, "containerStatuses": [state | running]},
    }


async def uids(api: Api) -> dict[str, str]:
    listing = await api.list(builtin.PODS, "default")
    return {item.view(Object).metadata.name: item.view(Object).metadata.uid for item in listing.items}


def test_pods_of_stateful_and_daemon_sets_stay_without_the_revisions_of_their_sets() -> None:
    web = owner("StatefulSet", "web", updateRevision="web-5c9d", currentRevision="web-5c9d", replicas=2)
    web["spec"] |= {"replicas": 2, "serviceName": "web"}
    agent = owner("DaemonSet", "agent", updatedNumberScheduled=1, currentNumberScheduled=1)
    revision = {"controller-revision-hash": "web-5c9d"}
    dump = [web, agent, pod(agent, "agent-1", "node-1", **{"controller-revision-hash": "7f8b"})]
    dump += [
        pod(web, f"web-{number}", "node-1", **revision, **{"statefulset.kubernetes.io/pod-name": f"web-{number}"})
        for number in range(2)
    ]
    before = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in dump if obj["kind"] == "Pod"}

    async def check(api: Api) -> None:
        assert await uids(api) == before
        revisions = (await api.list(builtin.CONTROLLER_REVISIONS, "default")).items
        assert sorted(revision.view(Object).metadata.name for revision in revisions) == ["agent-7f8b", "web-5c9d"]
        label = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}
        await api.patch(builtin.STATEFUL_SETS, "web", "default", label)
        await asyncio.sleep(600)
        after = await uids(api)  # and what changes later is rolled out
        assert {name for name, uid in after.items() if uid != before[name]} == {"web-0", "web-1"}

    run(dump, check)


def test_pods_are_replaced_whose_service_account_is_not_in_the_dump() -> None:
    web = owner("ReplicaSet", "web", replicas=1)
    web["spec"]["template"]["spec"]["serviceAccountName"] = "builder"

    async def check(api: Api) -> None:
        await api.delete(builtin.PODS, "web-1", "default")
        await asyncio.sleep(60)
        [(name, uid)] = (await uids(api)).items()
        assert uid != "u-web-1"
        replacement = (await api.get(builtin.PODS, name, "default")).obj()
        assert replacement["status"]["phase"] == "Running"

    run([web, pod(web, "web-1", "node-1")], check)
