"""No device has two claims at any moment: whatever is written, refused, lost on the way or learned late."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext, suppress
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.errors import Conflict, NotFound, ServiceUnavailable
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.scheduling import GROUP_LABEL
from fairlead.api.users import MASTERS, User
from fairlead.api.verbs import WATCH, DeleteOptions, PatchType, WatchEvent, WatchQuery
from fairlead.client.informer import Informers
from fairlead.runtime import loops, rng
from fairlead.runtime.turns import Turn
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import load
from fairlead.scheduler.gangs import POD_GROUPS
from fairlead.scheduler.loop import Scheduler
from fairlead.server.context import RequestContext
from fairlead.server.registry.registry import UserApi
from tests.registry_api import RegistryApi
from tests.scheduler.devices_world import asked, claim_obj, class_obj, named_claims, slice_obj
from tests.scheduler.scheduler_world import node_obj, pod_obj
from tests.scheduler.test_gangs import GANGS

CLAIMS, PODS = builtin.RESOURCE_CLAIMS, builtin.PODS
FATES = ("done", "done", "refused", "overtaken", "lost", "lost and unknown", "late")


class Weather(UserApi):
    """What becomes of the writes of claims, one after the other; who watches them learns of them late."""

    def __init__(self, api: RegistryApi, fates: Iterator[str], delay: float) -> None:
        super().__init__(api.registry, RequestContext(User("scheduler", (MASTERS,)), tracks_fields=False))
        self._fates, self._delay = fates, delay

    async def patch(self, resource: Resource, name: str, namespace: str, *args: Any, **more: Any) -> Encoded:
        fate = next(self._fates, "done") if resource == CLAIMS else "done"
        if fate == "refused":
            raise ServiceUnavailable("try later")
        if fate == "overtaken":
            raise Conflict.of(CLAIMS.plural, name, "somebody was faster")
        if fate == "late":
            await asyncio.sleep(3)
        done = await super().patch(resource, name, namespace, *args, **more)
        if fate.startswith("lost"):
            raise ConnectionResetError("the answer was lost")
        return done

    async def watch(
        self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH
    ) -> AsyncIterator[WatchEvent]:
        async for event in super().watch(resource, namespace, query):
            if resource == CLAIMS:
                await asyncio.sleep(self._delay)
            yield event


class Running:
    """A scheduler, which can be stopped at any moment; the next knows what the server does."""

    def __init__(self, api: Weather, configuration: Obj = GANGS) -> None:
        self._api, self._configuration = api, configuration
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        informers = Informers(self._api)
        scheduler = Scheduler(self._api, ClusterModel(informers, load(self._configuration)))
        self._tasks = [asyncio.create_task(part) for part in (informers.run(), scheduler.run())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def holders(api: RegistryApi) -> Counter[tuple[str, str]]:
    """By pool and device, how many claims have it."""
    claims = [item.obj() for item in (await api.list(CLAIMS)).items]
    allocations = [claim.get("status", {}).get("allocation", {}) for claim in claims]
    return Counter(
        (result["pool"], result["device"])
        for allocation in allocations
        for result in allocation.get("devices", {}).get("results", ())
    )


async def end(api: RegistryApi, name: str) -> None:
    """A pod goes, and what it had is given back, as by the controllers."""
    await api.delete(PODS, name, "default", DeleteOptions(grace_period_seconds=0))
    for item in (await api.list(CLAIMS)).items:
        claim = item.obj()
        consumers = claim.get("status", {}).get("reservedFor", [])
        left = [consumer for consumer in consumers if consumer["name"] != name]
        if len(left) == len(consumers) and left:
            continue
        version = {"resourceVersion": claim["metadata"]["resourceVersion"]}
        status = {"reservedFor": left} | ({} if left else {"allocation": None})
        where = claim["metadata"]["name"], "default"
        await api.patch(CLAIMS, *where, {"metadata": version, "status": status}, PatchType.MERGE, subresource="status")


def with_claims(name: str, *claims: str, **more: Any) -> Obj:
    return pod_obj(name, resourceClaims=named_claims(*claims), **more)


def short_turns(turn: Turn, seconds: float | None = None) -> None:
    """In virtual time, too, others have a turn wherever they may."""
    turn._end = 0.0 if seconds is None else math.inf


STEP = st.one_of(
    st.tuples(st.just("pod"), st.lists(st.integers(0, 5), min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("gang"), st.tuples(st.integers(2, 3), st.integers(0, 5), st.booleans())),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("anew"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 1, 15])),
)


@settings(deadline=None)
@given(
    steps=st.lists(STEP, min_size=5, max_size=20),
    fates=st.lists(st.sampled_from(FATES), max_size=40),
    delay=st.sampled_from([0.0, 0.5, 2.0]),
    in_turns=st.booleans(),
)
def test_no_device_has_two_claims(steps: list[tuple[str, Any]], fates: list[str], delay: float, in_turns: bool) -> None:
    async def story(api: RegistryApi, scheduler: Running) -> None:
        for number in range(2):
            await api.put(builtin.NODES, node_obj(f"n{number}", cpu=3))
            await api.create(builtin.RESOURCE_SLICES, slice_obj(f"n{number}", "a", "b", node=f"n{number}"))
        await api.create(builtin.RESOURCE_SLICES, slice_obj("net", "a", allNodes=True))
        await api.create(builtin.DEVICE_CLASSES, class_obj())
        for number in range(6):
            await make(api, number)
        names: list[str] = []
        for kind, what in steps:
            if kind == "pod":
                names.append(f"p{len(names)}")
                await api.put(PODS, with_claims(names[-1], *(f"c{number}" for number in what)))
            elif kind == "gang":
                names += await gang(api, len(names), *what)
            elif kind == "end" and what < len(names):
                with suppress(NotFound, Conflict):
                    await end(api, names[what])
            elif kind == "anew":
                await api.patch(CLAIMS, f"c{what}", "default", {"metadata": {"finalizers": None}}, PatchType.MERGE)
                await api.delete(CLAIMS, f"c{what}", "default")
                await make(api, what)
            elif kind == "restart":
                await scheduler.stop()
                scheduler.start()
            await asyncio.sleep(what if kind == "wait" else 0)
            assert set((await holders(api)).values()) <= {1}
        for _ in range(30):
            await asyncio.sleep(10)
            assert set((await holders(api)).values()) <= {1}

    async def make(api: RegistryApi, number: int) -> None:
        claim = claim_obj(f"c{number}", asked(count=1 + number % 2))
        del claim["metadata"]["uid"]
        await api.create(CLAIMS, claim, "default")

    async def gang(api: RegistryApi, begun: int, size: int, shared: int, has_own: bool) -> list[str]:
        """So many pods that share a claim and start together, each with another claim beside, perhaps."""
        group = {"metadata": {"name": f"g{begun}", "namespace": "default"}, "spec": {"minMember": size}}
        await api.create(POD_GROUPS, group, "default")
        names = [f"p{begun + number}" for number in range(size)]
        for number, name in enumerate(names):
            claims = dict.fromkeys((f"c{shared}", f"c{(shared + 1 + number) % 6}") if has_own else (f"c{shared}",))
            await api.put(PODS, with_claims(name, *claims, cpu=1, labels={GROUP_LABEL: f"g{begun}"}))
        return names

    async def play() -> None:
        rng.seed(1)
        async with RegistryApi() as api:
            await api.define(POD_GROUPS)
            scheduler = Running(Weather(api, iter(fates), delay))
            scheduler.start()
            try:
                await story(api, scheduler)
            finally:
                await scheduler.stop()

    with patch.object(Turn, "__init__", short_turns) if in_turns else nullcontext():
        loops.run_virtual(play())


# --- two schedulers beside each other ---------------------------------------------------------------------------------


async def bound_devices(api: RegistryApi) -> Counter[tuple[str, str]]:
    """By pool and device, how many claims have it of which a pod has a node."""
    nodes = {item.obj()["metadata"]["uid"]: item.obj()["spec"].get("nodeName") for item in (await api.list(PODS)).items}
    claims = [item.obj() for item in (await api.list(CLAIMS)).items]
    used = [
        claim["status"]["allocation"]
        for claim in claims
        if any(nodes.get(consumer["uid"]) for consumer in claim.get("status", {}).get("reservedFor", ()))
    ]
    return Counter((result["pool"], result["device"]) for found in used for result in found["devices"]["results"])


@settings(deadline=None)
@given(
    pods=st.lists(st.tuples(st.booleans(), st.sampled_from([0, 0, 0.1, 1])), min_size=2, max_size=8),
    fates=st.lists(st.sampled_from(FATES), max_size=20),
    delays=st.tuples(st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([0.0, 0.5, 2.0])),
)
def test_two_schedulers_do_not_give_a_device_to_pods_of_both(
    pods: list[tuple[bool, float]], fates: list[str], delays: tuple[float, float]
) -> None:
    """Each decides by what it has been told so far; who wrote later gives way before the pod is bound."""

    async def story(api: RegistryApi) -> None:
        await api.put(builtin.NODES, node_obj("n1"))
        await api.create(builtin.RESOURCE_SLICES, slice_obj("net", "a", "b", "c", allNodes=True))
        await api.create(builtin.DEVICE_CLASSES, class_obj())
        for number, (is_other, pause) in enumerate(pods):
            claim = claim_obj(f"c{number}")
            del claim["metadata"]["uid"]
            await api.create(CLAIMS, claim, "default")
            scheduler = "other" if is_other else "default-scheduler"
            await api.put(PODS, with_claims(f"p{number}", f"c{number}", schedulerName=scheduler))
            await asyncio.sleep(pause)
        for _ in range(300):
            await asyncio.sleep(0.5)
            assert set((await bound_devices(api)).values()) <= {1}
        if not fates:  # else claims may keep devices that no controller gives back here
            assert (await bound_devices(api)).total() == min(len(pods), 3)
            assert (await holders(api)) == await bound_devices(api)

    async def play() -> None:
        rng.seed(1)
        async with RegistryApi() as api:
            profiles: tuple[Obj, Obj] = {}, {"profiles": [{"schedulerName": "other"}]}
            running = [
                Running(Weather(api, iter(fates[number::2]), delay), profile)
                for number, (delay, profile) in enumerate(zip(delays, profiles, strict=True))
            ]
            for scheduler in running:
                scheduler.start()
            try:
                await story(api)
            finally:
                for scheduler in running:
                    await scheduler.stop()

    loops.run_virtual(play())
