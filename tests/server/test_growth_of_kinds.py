"""Whatever a kind has many of, twice as many are twice the work, taken or refused.

It walks the definitions of all kinds that are served: a new one is looked at without being named here.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import pytest

from fairlead.api import builtin
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, PatchType, WriteOptions
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.server.codec.schemas import Schema, schema_of
from fairlead.store.memory import MemoryStore

#: What is linear grows by 2, what is quadratic by 4; a part of both is seen.
LINEAR: Final = 2.2
SIZE: Final = 16
DEEPEST: Final = 14
DRY_RUN: Final = WriteOptions(dry_run=True)
APPLIED: Final = WriteOptions(dry_run=True, field_manager="m", force=True)
#: By which entries are told apart; they are given where they are optional, too.
KEYS: Final = frozenset({"name", "key", "type", "image", "ip", "host", "port", "path", "uid"}) | {
    "containerPort",
    "mountPath",
    "devicePath",
    "topologyKey",
}
SHAPED: Final = {"byte": "eA==", "date-time": "2026-01-01T00:00:00Z"}
NAMESPACE: Final = "n"


class Place(NamedTuple):
    """A list or a map somewhere in a kind, and how an object looks that has so many entries there."""

    resource: Resource
    path: str
    made: Callable[[int], Obj]


def example(schema: Schema, number: int, field: str = "", depth: int = 0) -> object:
    """A value of that schema, with what is required; values of different numbers differ."""
    if schema.type == "array":
        items = schema.items()
        return [] if items is None else [example(items, number, field, depth + 1)]
    if schema.type in ("integer", "number"):
        return number + 1
    if schema.type == "boolean":
        return True
    if schema.type == "string" or not schema.body.get("properties"):
        return {} if schema.type == "object" else text(schema, number, field)
    names = set(schema.body.get("required", ())) | (KEYS & schema.body["properties"].keys())
    found: dict[str, object] = {}
    for name in sorted(names) if depth < DEEPEST else ():
        below = schema.field(name)
        if below is not None and (name in schema.body.get("required", ()) or below.type in ("string", "integer")):
            found[name] = example(below, number, name, depth + 1)
    return found


def text(schema: Schema, number: int, field: str) -> str:
    if schema.node.get("$ref", "").endswith(".Quantity"):
        return str(number + 1)
    if (shape := schema.body.get("format")) in SHAPED:
        return SHAPED[shape]
    return f"/x{number}" if field.lower().endswith("path") else f"x{number}"


def places(resource: Resource, seen: set[int]) -> Iterator[Place]:
    """All lists and maps of a kind; what many kinds have in common in the first of them alone."""

    def walk(schema: Schema, path: str, put: Callable[[object], Obj], depth: int) -> Iterator[Place]:
        if schema.type == "array":
            if (items := schema.items()) is not None:
                yield Place(resource, path, lambda size: put([example(items, number) for number in range(size)]))
                yield from walk(items, f"{path}[]", lambda value: put([value]), depth + 1)
        elif schema.is_map:
            value = schema.field("x")
            assert value is not None
            yield Place(resource, path, lambda size: put({f"k{n}": example(value, n) for n in range(size)}))
            yield from walk(value, f"{path}{{}}", lambda value: put({"k": value}), depth + 1)
        elif id(schema.body) not in seen and depth < DEEPEST:
            seen.add(id(schema.body))
            base = example(schema, 0)
            for name in sorted(schema.body.get("properties", ())):
                if (below := schema.field(name)) is not None and name != "status":
                    yield from walk(below, f"{path}.{name}", _putting(put, base, name), depth + 1)

    def rooted(value: object) -> Obj:
        assert isinstance(value, dict)
        meta = {"name": "x-1"} | (value.get("metadata") or {})
        if resource.namespaced:
            meta["namespace"] = NAMESPACE
        return {**value, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}

    yield from walk(schema_of(resource.definition), "", rooted, 0)


def _putting(put: Callable[[object], Obj], base: object, name: str) -> Callable[[object], Obj]:
    assert isinstance(base, dict)
    return lambda value: put({**base, name: value})


async def work(action: Callable[[], Awaitable[object]]) -> int:
    """How many functions the action calls, whether it is refused or not."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(profile)
    try:
        await action()
    except ApiError:
        pass
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


async def growth(action: Callable[[int], Callable[[], Awaitable[object]]], size: int) -> float:
    """How many times as much work the second doubling brings as the first: what does not depend on the size is out."""
    sizes = (size, 2 * size, 4 * size)
    for each in sizes:  # fills the caches of the process
        await work(action(each))
    some, twice, four_times = [await work(action(each)) for each in sizes]
    return (four_times - twice) / max(twice - some, size)


async def grows(action: Callable[[int], Callable[[], Awaitable[object]]]) -> bool:
    """Faster than its size; of many more as well, for of some size bodies are taken in another way."""
    return await growth(action, SIZE) > LINEAR and await growth(action, 5 * SIZE) > LINEAR


def writes(api: Api, place: Place) -> Iterator[tuple[str, Callable[[int], Callable[[], Awaitable[object]]]]]:
    resource = place.resource
    namespace = NAMESPACE if resource.namespaced else ""

    def create(size: int) -> Callable[[], Awaitable[object]]:
        obj = place.made(size)
        return lambda: api.create(resource, obj, namespace, options=DRY_RUN)

    def patch(size: int) -> Callable[[], Awaitable[object]]:
        obj = place.made(size)
        return lambda: api.patch(resource, "x-1", namespace, obj, PatchType.MERGE, options=DRY_RUN)

    def apply(size: int) -> Callable[[], Awaitable[object]]:
        obj = place.made(size)
        return lambda: api.patch(resource, "x-1", namespace, obj, PatchType.APPLY, options=APPLIED)

    yield "create", create
    yield "patch", patch
    yield "apply", apply


def test_four_times_as_much_is_noticed() -> None:
    def compare(size: int) -> Callable[[], Awaitable[object]]:
        async def each_with_each() -> None:
            for number in range(size):
                for _ in range(number):
                    number.bit_length()

        return each_with_each

    assert run_virtual(grows(compare))


@pytest.mark.slow
def test_twice_as_many_entries_anywhere_in_a_kind_are_twice_the_work() -> None:
    async def story() -> list[str]:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        await server.api.create(builtin.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        found, seen = list[str](), set[int]()
        for resource in server.registry.catalogue.rows():
            if not resource.definition or "create" not in resource.verbs:
                continue
            for place in places(resource, seen):
                with suppress(ApiError):  # what is taken is there to be patched
                    await server.api.create(resource, place.made(1), NAMESPACE if resource.namespaced else "")
                for verb, action in writes(server.api, place):
                    if await grows(action):
                        found.append(f"{verb} {resource.kind}{place.path}")
        return found

    assert run_virtual(story()) == []
