"""No answer rests on what was never committed: every one is explained by a committed state of its own time.

Clients write the same few objects at once over a store whose commits are slow and fail at random. What was committed is
known from the outside, by a watch; each answer must be true of one state between its request and itself.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.builtin import CONFIG_MAPS, NAMESPACES, PODS, RESOURCE_QUOTAS, SERVICES
from fairlead.api.encoded import Encoded
from fairlead.api.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, ServiceUnavailable
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import DeleteOptions, WriteOptions
from fairlead.server.registry.registry import Registry
from fairlead.store.base import Record
from fairlead.store.embedded import EmbeddedStore
from tests.examples import each_time, examples
from tests.server.registry_world import NAMESPACE, World, scheduled, world
from tests.store.unreliable import UnreliableMemory, UnreliableSQLite, Weather

STORES: dict[str, Callable[[Path, Weather], EmbeddedStore]] = {
    "memory": lambda folder, weather: UnreliableMemory(weather),
    "sqlite": lambda folder, weather: UnreliableSQLite(folder / "store.db", weather),
}
Call = Callable[["Client", str, str], Awaitable[Encoded | Obj | None]]
State = dict[str, Obj]


class Answer(NamedTuple):
    """What a client was told, and between which committed revisions."""

    operation: str
    name: str
    known: Obj | None  # the object as the client knew it
    since: int
    until: int
    result: Obj | ApiError | None


class Client:
    """Makes one request after the other, and notes the answers."""

    def __init__(self, made: World, answers: list[Answer]) -> None:
        self.api, self.registry, self._answers = made.api, made.registry, answers
        self.known: Obj | None = None

    async def ask(self, operation: str, name: str, text: str) -> None:
        found = self.registry.find("configmaps", name, NAMESPACE)
        self.known = found.obj() if found else None
        since = self.registry.revision
        result: Obj | ApiError | None
        try:
            answer = await OPERATIONS[operation](self, name, text)
            result = answer.obj() if isinstance(answer, Encoded) else answer
        except ApiError as error:
            result = error
        self._answers.append(Answer(operation, name, self.known, since, self.registry.revision, result))

    def wanted(self, name: str, text: str, version: str = "") -> Obj:
        meta = {"name": name, "namespace": NAMESPACE} | ({"resourceVersion": version} if version else {})
        return {"metadata": meta, "data": {"text": text}}

    @property
    def version(self) -> str:
        return str(metadata(self.known)["resourceVersion"]) if self.known else "1"


def _touched(text: str) -> Callable[[Obj], Obj | None]:
    return lambda found: None if found["data"]["text"] == text else found | {"data": {"text": text}}


DRY = WriteOptions(dry_run=True)
OPERATIONS: dict[str, Call] = {
    "create": lambda c, name, text: c.api.create(CONFIG_MAPS, c.wanted(name, text), NAMESPACE),
    "try to create": lambda c, name, text: c.api.create(CONFIG_MAPS, c.wanted(name, text), NAMESPACE, options=DRY),
    "update": lambda c, name, text: c.api.update(CONFIG_MAPS, c.wanted(name, text)),
    "update a version": lambda c, name, text: c.api.update(CONFIG_MAPS, c.wanted(name, text, c.version)),
    "patch": lambda c, name, text: c.api.patch(CONFIG_MAPS, name, NAMESPACE, {"data": {"text": text}}),
    "try to patch": lambda c, name, text: c.api.patch(
        CONFIG_MAPS, name, NAMESPACE, {"data": {"text": text}}, options=DRY
    ),
    "touch": lambda c, name, text: c.registry.guaranteed_update("configmaps", name, NAMESPACE, _touched(text)),
    "delete": lambda c, name, text: c.api.delete(CONFIG_MAPS, name, NAMESPACE),
    "delete a version": lambda c, name, text: c.api.delete(
        CONFIG_MAPS, name, NAMESPACE, DeleteOptions(precondition_resource_version=c.version)
    ),
}


class History:
    """Every committed state of the config maps, by revision."""

    def __init__(self, registry: Registry) -> None:
        self._states: list[tuple[int, State]] = [(registry.revision, {})]
        self.deleted: dict[str, int] = {}  # uid -> revision
        registry.observers["configmaps"] = self._observe
        self._registry = registry

    def _observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        state = dict(self._states[-1][1])
        if raw is None:
            self.deleted[metadata(state.pop(name))["uid"]] = self._registry.revision
        else:
            state[name] = Encoded(raw).obj()
        assert self._registry.revision >= self._states[-1][0]
        self._states.append((self._registry.revision, state))

    def between(self, since: int, until: int) -> list[State]:
        """All states that were the newest at some moment of that time."""
        begins = max(index for index, (revision, _) in enumerate(self._states) if revision <= since)
        return [state for revision, state in self._states[begins:] if revision <= until]


def is_explained(answer: Answer, history: History) -> bool:
    """Whether the answer was true at some moment between its request and itself."""
    result, name = answer.result, answer.name
    found = [state.get(name) for state in history.between(answer.since, answer.until)]
    known_version = metadata(answer.known)["resourceVersion"] if answer.known else "1"
    if isinstance(result, ServiceUnavailable):
        return True
    if isinstance(result, AlreadyExists):
        return any(found)
    if isinstance(result, NotFound) or result is None:
        return None in found
    if isinstance(result, Conflict):
        return any(state and metadata(state)["resourceVersion"] != known_version for state in found)
    if isinstance(result, ApiError):
        return False
    if answer.operation == "try to create":
        return None in found
    if answer.operation == "try to patch":
        return any(
            state and metadata(state)["resourceVersion"] == metadata(result)["resourceVersion"] for state in found
        )
    if answer.operation.startswith("delete"):
        return answer.since < history.deleted[result["details"]["uid"]] <= answer.until
    return result in found  # as written, or as it was already


async def played(store: EmbeddedStore, weather: Weather, scripts: list[list[tuple[str, str, str]]]) -> None:
    weather.calm = True
    async with world(store) as made:
        await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        history, answers = History(made.registry), list[Answer]()
        weather.calm = False

        async def play(script: list[tuple[str, str, str]]) -> None:
            client = Client(made, answers)
            for step in script:
                await client.ask(*step)

        await asyncio.gather(*map(play, scripts))
        assert [answer for answer in answers if not is_explained(answer, history)] == []
        await everything_is_as_told(made, history, answers)
    await store.close()


async def everything_is_as_told(made: World, history: History, answers: list[Answer]) -> None:
    last = history.between(made.registry.revision, made.registry.revision)[-1]
    assert {
        obj["metadata"]["name"]: obj for obj in map(Encoded.obj, made.registry.each("configmaps", NAMESPACE))
    } == last
    by_version: dict[str, Any] = {}
    for answer in answers:
        if isinstance(answer.result, dict) and not answer.operation.startswith(("try", "delete")):
            version = metadata(answer.result)["resourceVersion"]
            assert by_version.setdefault(version, answer.result) == answer.result  # one number, one state


STEPS = st.tuples(st.sampled_from(sorted(OPERATIONS)), st.sampled_from("ab"), st.sampled_from("xy"))


@pytest.mark.parametrize("driver", each_time(["sqlite"], STORES))
@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**16), st.lists(st.lists(STEPS, min_size=1, max_size=8), min_size=2, max_size=5))
def test_every_answer_was_true_of_a_committed_state(
    driver: str, seed: int, scripts: list[list[tuple[str, str, str]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        weather = Weather(seed)
        asyncio.run(played(STORES[driver](Path(folder), weather), weather, scripts))


@pytest.mark.parametrize("seed", range(10))
def test_a_pod_that_its_node_removes_first_is_deleted_all_the_same(seed: int) -> None:
    """The mark shows the node that the pod goes at once: whoever asked for that is not told that there was none.

    Nor is a namesake that follows at once taken for the pod.
    """

    async def main() -> None:
        at_once = DeleteOptions(grace_period_seconds=0)
        async with world(UnreliableMemory(Weather(seed, calm=True))) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            pod = await made.create(PODS, scheduled())

            async def node() -> Obj:
                async for event in made.api.watch(PODS, NAMESPACE):
                    if "deletionTimestamp" in metadata(event.object.obj()):
                        with suppress(NotFound):
                            await made.api.delete(PODS, "p", NAMESPACE, at_once)
                        break
                return await made.create(PODS, scheduled())

            replacing = asyncio.create_task(node())
            answer = (await made.api.delete(PODS, "p", NAMESPACE, at_once)).obj()
            assert metadata(answer)["uid"] == metadata(pod)["uid"]
            assert "deletionTimestamp" in metadata(answer)
            assert await replacing == await made.get(PODS, "p")

    asyncio.run(main())


class Impatient(UnreliableMemory):
    """Whoever writes a Service is cancelled before it is committed, as at a timeout while the disk stands still."""

    async def put(self, key: str, value: bytes, expected: int) -> Record:
        if f"/{NAMESPACE}/s" in key:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
        return await super().put(key, value, expected)


def service(name: str, address: str) -> Obj:
    return {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}


async def committed(made: World) -> list[Obj]:
    """The services, once everything is committed that was begun."""
    await made.create(CONFIG_MAPS, {"metadata": {"name": "last", "namespace": NAMESPACE}})
    return [one.obj() for one in (await made.api.list(SERVICES, NAMESPACE)).items]


@pytest.mark.parametrize("seed", range(3))
def test_an_address_is_not_given_twice_though_the_first_request_ended_before_its_commit(seed: int) -> None:
    async def main() -> None:
        async with world(Impatient(Weather(seed, calm=True))) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            for name in ("s1", "s2"):
                asked = asyncio.create_task(made.api.create(SERVICES, service(name, "10.0.0.77"), NAMESPACE))
                (refusal,) = await asyncio.gather(asked, return_exceptions=True)
            assert isinstance(refusal, Invalid) and "provided IP is already allocated" in refusal.message
            assert [metadata(one)["name"] for one in await committed(made)] == ["s1"]

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_is_charged_though_its_request_ended_before_its_commit(seed: int) -> None:
    async def main() -> None:
        async with world(Impatient(Weather(seed, calm=True))) as made:
            await made.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            hard, used = {"hard": {"services": "9"}}, {"used": {"services": "0"}}
            await made.create(RESOURCE_QUOTAS, {"metadata": {"name": "q", "namespace": NAMESPACE}, "spec": hard})
            await made.api.patch(RESOURCE_QUOTAS, "q", NAMESPACE, {"status": hard | used}, subresource="status")
            asked = asyncio.create_task(made.api.create(SERVICES, service("s1", "10.0.0.77"), NAMESPACE))
            await asyncio.gather(asked, return_exceptions=True)
            assert asked.cancelled()
            assert len(await committed(made)) == 1
            quota = (await made.api.get(RESOURCE_QUOTAS, "q", NAMESPACE)).obj()
            assert quota["status"]["used"] == {"services": "1"}

    asyncio.run(main())
