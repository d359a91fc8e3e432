"""The APIServices of what the server serves itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.api.builtin import API_SERVICES, CUSTOM_RESOURCE_DEFINITIONS
from fairlead.api.objects import Obj
from fairlead.runtime.loops import run_virtual
from fairlead.server.aggregation.registration import MANAGED
from fairlead.server.assembly import Server
from fairlead.store.base import Store
from fairlead.store.memory import MemoryStore
from tests.server import crd_samples as samples


def within(*lives: Callable[[Server], Awaitable[None]]) -> None:
    """Run each in a life of its own of the same cluster."""

    async def live(store: Store, steps: Callable[[Server], Awaitable[None]]) -> None:
        server = Server(store)
        await server.open(["ServiceAccount"])
        running = asyncio.create_task(server.run())
        await steps(server)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def main() -> None:
        store = MemoryStore()
        for steps in lives:
            await live(store, steps)

    run_virtual(main())


def services(server: Server) -> dict[str, Obj]:
    return {entry.name: entry.obj() for entry in server.registry.each(API_SERVICES.qualified)}


async def soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.1)


async def _begin(server: Server) -> None:
    found = services(server)
    assert {"v1.", "v1.apps", "v2.autoscaling"} < found.keys()
    assert not any(name.endswith(".apiregistration.k8s.io") for name in found)
    core = found["v1."]
    assert core["metadata"]["labels"] == {MANAGED: "onstart"}
    assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    assert core["status"]["conditions"][0]["reason"] == "Local"
    assert found["v1.apps"]["spec"]["groupPriorityMinimum"] == 17800


async def _change(server: Server) -> None:
    def kept(obj: Obj) -> Obj:
        obj["metadata"].pop("labels")
        obj["spec"]["versionPriority"] = 16
        return obj

    def changed(obj: Obj) -> Obj:
        obj["spec"]["versionPriority"] = 16
        return obj

    change = server.registry.guaranteed_update
    await change(API_SERVICES.qualified, "v1.batch", "", kept)
    await change(API_SERVICES.qualified, "v1.apps", "", changed)
    await server.api.delete(API_SERVICES, "v1.policy")
    spec = {"group": "gone.k8s.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    meta = {"name": "v1.gone.k8s.io", "labels": {MANAGED: "onstart"}}
    await server.api.create(API_SERVICES, {"metadata": meta, "spec": spec})


async def _begin_again(server: Server) -> None:
    found = services(server)
    assert found["v1.batch"]["spec"]["versionPriority"] == 16
    assert found["v1.apps"]["spec"]["versionPriority"] == 15
    assert "v1.policy" in found
    assert "v1.gone.k8s.io" not in found


def test_they_are_as_they_should_be_after_every_start_but_for_those_that_somebody_keeps() -> None:
    within(_begin, _change, _begin_again)


async def _follow_a_custom_kind(server: Server) -> None:
    versions = samples.version(), samples.version("v2", storage=False)
    await server.api.create(CUSTOM_RESOURCE_DEFINITIONS, samples.crd(*versions))
    await soon(lambda: {"v1.example.com", "v2.example.com"} <= services(server).keys())
    service = services(server)["v2.example.com"]
    assert service["metadata"]["labels"] == {MANAGED: "true"}
    assert service["spec"] == {
        "group": "example.com",
        "version": "v2",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    await server.api.delete(CUSTOM_RESOURCE_DEFINITIONS, "widgets.example.com")
    await soon(lambda: not any(name.endswith(".example.com") for name in services(server)))


def test_custom_kinds_have_theirs_as_long_as_they_are_served() -> None:
    within(_follow_a_custom_kind)
