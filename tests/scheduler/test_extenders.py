"""HTTP extenders, asked over real HTTP: what they refuse, prefer, bind and let be driven away."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fairlead.api import builtin
from fairlead.api.verbs import WatchQuery
from fairlead.client.informer import Informers
from fairlead.runtime.loops import run
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import load
from fairlead.scheduler.loop import Scheduler
from fairlead.server.auth.certificates import Pki, ensure
from tests.registry_api import RegistryApi
from tests.scheduler.scheduler_world import Obj, node_obj, pod_obj

Answer = Callable[[Obj], Any]


class World:
    """A scheduler, and the extender that it asks: a server that answers as the test says, and keeps the questions."""

    def __init__(self, tls: ssl.SSLContext | None = None, /, **verbs: Answer) -> None:
        self._tls = tls
        self.api = RegistryApi()
        self.asked: list[tuple[str, Obj]] = []
        self.heard = asyncio.Event()
        self._verbs = verbs

    async def pod_when(self, name: str, done: Callable[[Obj], bool]) -> Obj:
        async with asyncio.timeout(5):
            async for event in self.api.watch(builtin.PODS, "default", WatchQuery(resource_version="0")):
                found = event.object.obj()
                if found["metadata"]["name"] == name and done(found):
                    return found
        raise AssertionError("the watch ended")

    async def add(self, *nodes: Obj) -> None:
        for node in nodes:
            await self.api.put(builtin.NODES, node)

    async def place(self, name: str, **more: Any) -> str:
        await self.api.put(builtin.PODS, pod_obj(name, **more))
        found: str = (await self.pod_when(name, lambda pod: "nodeName" in pod["spec"]))["spec"]["nodeName"]
        return found

    async def refuse(self, name: str, **more: Any) -> Obj:
        """The PodScheduled condition of a pod that goes nowhere."""
        await self.api.put(builtin.PODS, pod_obj(name, **more))
        pod = await self.pod_when(name, lambda pod: bool(pod.get("status", {}).get("conditions")))
        condition: Obj = pod["status"]["conditions"][0]
        return condition

    async def start(self, stack: AsyncExitStack, config: Obj, *, is_up: bool = True) -> None:
        port = await self._serve(stack) if is_up else 9
        settings = {f"{verb}Verb": verb for verb in self._verbs} | config
        extender = {"urlPrefix": f"http{'s' if self._tls else ''}://127.0.0.1:{port}", "httpTimeout": "2s"} | settings
        await stack.enter_async_context(self.api)
        informers = Informers(self.api)
        scheduler = Scheduler(self.api, ClusterModel(informers, load({"extenders": [extender]})))
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(scheduler.run())]

        async def stop() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        stack.push_async_callback(stop)

    async def _serve(self, stack: AsyncExitStack) -> int:
        async def handle(request: web.Request) -> web.Response:
            verb, body = request.match_info["verb"], await request.json()
            self.asked.append((verb, body))
            self.heard.set()
            return web.json_response(self._verbs[verb](body))

        application = web.Application()
        application.add_routes([web.post("/{verb}", handle)])
        runner = web.AppRunner(application)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        port: int = runner.addresses[0][1]
        return port


def scene(world: World, config: Obj, act: Callable[[World], Awaitable[None]], *, is_up: bool = True) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            await world.start(stack, config, is_up=is_up)
            await act(world)

    run(play())


def only(name: str) -> Answer:
    def answer(body: Obj) -> Obj:
        failed = {node: "too far away" for node in body["NodeNames"] if node != name}
        return {"NodeNames": [node for node in body["NodeNames"] if node == name], "FailedNodes": failed}

    return answer


def test_a_filter_leaves_the_nodes_that_it_likes() -> None:
    async def act(world: World) -> None:
        await world.add(node_obj("n1"), node_obj("n2"), node_obj("n3", cpu=1))
        assert await world.place("w", cpu=2) == "n2"
        verb, body = world.asked[0]
        assert (verb, sorted(body["NodeNames"]), body["Nodes"]) == ("filter", ["n1", "n2"], None)
        assert body["Pod"]["metadata"]["name"] == "w"

    scene(World(filter=only("n2")), {"nodeCacheCapable": True}, act)


def test_what_it_says_of_nodes_is_told_and_whole_nodes_are_sent_to_who_does_not_know_them() -> None:
    def nothing(body: Obj) -> Obj:
        names = [node["metadata"]["name"] for node in body["Nodes"]["items"]]
        return {"Nodes": {"items": []}, "FailedNodes": dict.fromkeys(names, "too far away")}

    async def act(world: World) -> None:
        await world.add(node_obj("n1"), node_obj("n2"))
        condition = await world.refuse("w", cpu=1)
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith("0/2 nodes are available: 2 too far away.")

    scene(World(filter=nothing), {}, act)


def test_its_scores_count_ten_times_their_weight() -> None:
    def prefer(body: Obj) -> list[Obj]:
        return [{"Host": name, "Score": 10 if name == "n1" else 0} for name in body["NodeNames"]]

    async def act(world: World) -> None:
        await world.add(node_obj("n1", cpu=2), node_obj("n2", cpu=64, memory="64Gi"))
        assert await world.place("w", cpu=1) == "n1"

    scene(World(prioritize=prefer), {"nodeCacheCapable": True, "weight": 5}, act)


def test_it_binds_if_it_has_a_verb_for_that() -> None:
    async def act(world: World) -> None:
        await world.add(node_obj("n1"))
        await world.api.put(builtin.PODS, pod_obj("w", cpu=1))
        await asyncio.wait_for(world.heard.wait(), 5)
        verb, body = world.asked[0]
        uid = body.pop("PodUID")
        assert uid and (verb, body) == ("bind", {"PodName": "w", "PodNamespace": "default", "Node": "n1"})

    scene(World(bind=lambda body: {}), {}, act)


@pytest.mark.parametrize("ignorable", [True, False])
def test_what_it_says_when_it_cannot_bind_is_told_as_it_is(ignorable: bool) -> None:
    """One that is ignorable leaves it to the scheduler."""

    async def act(world: World) -> None:
        await world.add(node_obj("n1"))
        if ignorable:
            assert await world.place("w", cpu=1) == "n1"
        else:
            condition = await world.refuse("w", cpu=1)
            assert (condition["reason"], condition["message"]) == ("SchedulerError", "no hands")

    scene(World(bind=lambda body: {"Error": "no hands"}), {"ignorable": ignorable}, act)


def test_it_must_not_name_nodes_that_it_was_not_asked_about() -> None:
    async def act(world: World) -> None:
        await world.add(node_obj("n1"))
        condition = await world.refuse("w", cpu=1)
        message = 'claims a filtered node "n9" which is not found in the input node list'
        assert condition["reason"] == "SchedulerError"
        assert condition["message"].endswith(message)

    scene(World(filter=lambda body: {"NodeNames": ["n9"]}), {"nodeCacheCapable": True}, act)


def test_it_must_leave_somebody_to_drive_away() -> None:
    async def act(world: World) -> None:
        await world.add(node_obj("n1", cpu=1))
        await world.api.put(builtin.PODS, pod_obj("low", cpu=1, nodeName="n1"))
        condition = await world.refuse("w", cpu=1, priority=9)
        assert (condition["reason"], condition["message"]) == (
            "Unschedulable",
            '0/1 nodes are available: 1 Insufficient cpu. preemption: expected at least one victim pod on node "n1"',
        )

    nobody: Obj = {"NodeNameToMetaVictims": {"n1": {"Pods": []}}}
    scene(World(preempt=lambda body: nobody), {"nodeCacheCapable": True}, act)


def test_one_that_is_ignorable_may_be_away() -> None:
    async def act(world: World) -> None:
        await world.add(node_obj("n1"))
        assert await world.place("w", cpu=1) == "n1"

    scene(World(), {"filterVerb": "filter", "ignorable": True}, act, is_up=False)


def test_one_that_is_not_makes_the_attempt_fail() -> None:
    async def act(world: World) -> None:
        await world.add(node_obj("n1"))
        condition = await world.refuse("w", cpu=1)
        assert condition["reason"] == "SchedulerError"
        assert "failed filter with extender at URL http://127.0.0.1:9/filter" in condition["message"]

    scene(World(), {"filterVerb": "filter"}, act, is_up=False)


def test_it_hears_only_of_pods_that_ask_for_what_it_manages() -> None:
    async def act(world: World) -> None:
        await world.add(node_obj("n1"), node_obj("n2"))
        await world.place("a", cpu=1)
        assert not world.asked
        assert await world.place("b", gpu=1) == "n2"

    managed = [{"name": "test.dev/gpu", "ignoredByScheduler": True}]
    scene(World(filter=only("n2")), {"nodeCacheCapable": True, "managedResources": managed}, act)


def test_it_does_not_hear_of_pods_that_are_going_away() -> None:
    async def act(world: World) -> None:
        going = pod_obj("going", cpu=1)
        going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/late"]}
        await world.api.put(builtin.PODS, going)
        await world.add(node_obj("n1"))
        assert await world.place("w", cpu=1) == "n1"
        assert {body["Pod"]["metadata"]["name"] for _, body in world.asked} == {"w"}

    scene(World(filter=only("n1")), {"nodeCacheCapable": True}, act)


def test_it_has_a_say_in_whom_preemption_drives_away() -> None:
    def spare(body: Obj) -> Obj:
        victims = body["NodeNameToMetaVictims"]
        assert set(victims) == {"n1", "n2"}
        return {"NodeNameToMetaVictims": {"n2": victims["n2"]}}

    async def act(world: World) -> None:
        await world.add(node_obj("n1", cpu=1), node_obj("n2", cpu=1))
        for number in (1, 2):
            low = pod_obj(f"low{number}", cpu=1, priority=number, nodeName=f"n{number}")
            await world.api.put(builtin.PODS, low)
        await world.api.put(builtin.PODS, pod_obj("w", cpu=1, priority=100))
        pod = await world.pod_when("w", lambda pod: "nominatedNodeName" in pod.get("status", {}))
        assert pod["status"]["nominatedNodeName"] == "n2"

    scene(World(preempt=spare), {"nodeCacheCapable": True}, act)


async def pki_in(folder: Path) -> Pki:
    return ensure(folder)  # dates its certificates by the loop's clock


def test_over_tls_it_is_trusted_by_its_own_authority(tmp_path: Path) -> None:
    """The authority comes as data; without it the extender is a stranger."""
    pki = run(pki_in(tmp_path))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki.server_certificate, pki.server_key)
    authority = b64encode(pki.ca_certificate.read_bytes()).decode()

    async def placed(world: World) -> None:
        await world.add(node_obj("n1"), node_obj("n2"))
        assert await world.place("w", cpu=1) == "n2"

    async def stranger(world: World) -> None:
        await world.add(node_obj("n1"), node_obj("n2"))
        assert "certificate verify failed" in (await world.refuse("w", cpu=1))["message"]

    trusted = {"nodeCacheCapable": True, "tlsConfig": {"caData": authority}}
    scene(World(context, filter=only("n2")), trusted, placed)
    scene(World(context, filter=only("n2")), {"nodeCacheCapable": True}, stranger)
