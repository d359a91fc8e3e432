"""Rules of custom resources in CEL (`x-kubernetes-validations`), as kube-apiserver asks them (issue 16)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api.errors import Invalid
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore

GROUP = "example.com"


def crd(spec: Obj, **root: Any) -> Obj:
    schema = {"type": "object", "properties": {"spec": spec}, **root}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version | {"subresources": {"status": {}}}],
        },
    }


def widget(spec: Any, name: str = "w") -> Obj:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def rules(*found: Obj | str) -> list[Obj]:
    return [{"rule": rule} if isinstance(rule, str) else rule for rule in found]


def obj(properties: Obj, *found: Obj | str) -> Obj:
    schema: Obj = {"type": "object", "properties": properties}
    return schema | ({"x-kubernetes-validations": rules(*found)} if found else {})


INT, TEXT = {"type": "integer"}, {"type": "string"}


class World:
    """A server with the kind `Widget`."""

    def __init__(self, server: Server) -> None:
        self.server, self.api = server, server.api

    def row(self, kind: str) -> Resource:
        return next(row for row in self.server.registry.catalogue.rows() if row.kind == kind)

    async def define(self, spec: Obj, **root: Any) -> None:
        await self.api.create(self.row("CustomResourceDefinition"), crd(spec, **root))
        async for _ in self.api.watch(self.row("CustomResourceDefinition")):
            if any(row.kind == "Widget" for row in self.server.registry.catalogue.rows()):
                return

    async def create(self, spec: Any, name: str = "w") -> Obj:
        return (await self.api.create(self.row("Widget"), widget(spec, name), "default")).obj()

    async def change(self, patch: Obj) -> Obj:
        return (await self.api.patch(self.row("Widget"), "w", "default", patch)).obj()

    async def refused(self, made: Awaitable[Any]) -> list[tuple[str, str, str]]:
        with pytest.raises(Invalid) as caught:
            await made
        return [(cause.reason, cause.field, cause.message) for cause in caught.value.causes]


def within(steps: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
        following = asyncio.create_task(server.run())
        try:
            await steps(World(server))
        finally:
            following.cancel()

    asyncio.run(run())


def test_a_rule_says_what_is_wrong_in_its_words() -> None:
    async def steps(world: World) -> None:
        await world.define(
            obj(
                {"min": INT, "max": INT, "name": TEXT},
                {"rule": "self.min <= self.max", "message": "min must not exceed max"},
                {
                    "rule": "self.max < 100",
                    "messageExpression": "'at most 99, not ' + (self.max == 200 ? '200' : 'that')",
                },
                {"rule": "!has(self.name) || self.name != 'x'", "reason": "FieldValueForbidden", "fieldPath": ".name"},
            )
        )
        await world.create({"min": 1, "max": 2})
        assert await world.refused(world.create({"min": 500, "max": 200, "name": "x"}, "bad")) == [
            ("FieldValueInvalid", "spec", "Invalid value: min must not exceed max"),
            ("FieldValueInvalid", "spec", "Invalid value: at most 99, not 200"),
            ("FieldValueForbidden", "spec.name", "Forbidden: failed rule: !has(self.name) || self.name != 'x'"),
        ]

    within(steps)


def test_rules_stand_in_lists_and_maps_and_at_the_root() -> None:
    async def steps(world: World) -> None:
        item = obj({"size": INT}, "self.size > 0")
        spec = obj(
            {
                "items": {"type": "array", "items": item},
                "named": {
                    "type": "object",
                    "additionalProperties": INT | {"x-kubernetes-validations": rules("self > 0")},
                },
                "when": {"type": "string", "format": "date-time"},
                "any": {"x-kubernetes-int-or-string": True},
            },
            "!has(self.when) || self.when > timestamp('2026-01-01T00:00:00Z')",
            "!has(self.any) || type(self.any) == string || self.any > 0",
        )
        await world.define(spec, **{"x-kubernetes-validations": rules("self.metadata.name.startsWith('w')")})
        sound = {"items": [{"size": 1}], "named": {"a": 1}, "when": "2026-05-01T00:00:00Z", "any": "50%"}
        await world.create(sound)
        wrong = {"items": [{"size": 1}, {"size": 0}], "named": {"a": 0}, "when": "2025-05-01T00:00:00Z", "any": 0}
        found = await world.refused(world.create(wrong, "x"))
        assert [field for _, field, _ in found] == ["<nil>", "spec", "spec", "spec.items[1]", "spec.named[a]"]

    within(steps)


def test_a_transition_rule_is_asked_of_changes_alone() -> None:
    async def steps(world: World) -> None:
        count = INT | {"x-kubernetes-validations": rules({"rule": "self >= oldSelf", "message": "never less"})}
        kept = TEXT | {
            "x-kubernetes-validations": [
                {"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": True, "message": "fixed"}
            ]
        }
        await world.define(obj({"count": count, "kept": kept}))
        await world.create({"count": 5, "kept": "a"})
        await world.change({"spec": {"count": 6}})
        found = await world.refused(world.change({"spec": {"count": 5, "kept": "b"}}))
        assert found == [
            ("FieldValueInvalid", "spec.count", "Invalid value: 5: never less"),
            ("FieldValueInvalid", "spec.kept", 'Invalid value: "b": fixed'),
        ]

    within(steps)


def test_items_of_a_list_map_are_compared_with_their_namesakes() -> None:
    async def steps(world: World) -> None:
        item = obj({"name": TEXT, "port": INT}, {"rule": "self.port == oldSelf.port", "message": "fixed port"})
        ports = {
            "type": "array",
            "items": item | {"required": ["name"]},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        }
        await world.define(obj({"ports": ports}))
        await world.create({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]})
        await world.change({"spec": {"ports": [{"name": "b", "port": 2}, {"name": "c", "port": 3}]}})
        found = await world.refused(
            world.change({"spec": {"ports": [{"name": "c", "port": 3}, {"name": "b", "port": 9}]}})
        )
        assert [field for _, field, _ in found] == ["spec.ports[1]"]

    within(steps)


def test_what_was_wrong_before_may_stay_as_it_is() -> None:
    """KEP-4008."""

    async def steps(world: World) -> None:
        await world.define(obj({"a": obj({"n": INT}), "b": INT}))
        await world.create({"a": {"n": -1}, "b": 1})
        definition = await world.api.get(world.row("CustomResourceDefinition"), f"widgets.{GROUP}")
        stored = definition.obj()
        schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["a"] = obj({"n": INT}, "self.n > 0")
        await world.api.update(world.row("CustomResourceDefinition"), stored)
        await asyncio.sleep(0.1)
        await world.change({"spec": {"b": 2}})
        assert [field for _, field, _ in await world.refused(world.change({"spec": {"a": {"n": -2}}}))] == ["spec.a"]

    within(steps)


@pytest.mark.parametrize(
    ("rule", "field", "text"),
    [
        ({"rule": "self.nope > 1"}, "rule", "compilation failed: ERROR: <input>:1:5: undefined field 'nope'"),
        ({"rule": "self.n"}, "rule", "cel expression must evaluate to a bool"),
        (
            {"rule": "true", "messageExpression": "1"},
            "messageExpression",
            "messageExpression must evaluate to a string",
        ),
        ({"rule": "self.n >"}, "rule", "compilation failed: ERROR: <input>:1:9: Syntax error"),
        ({"rule": "self.s.matches('[')"}, "rule", "compilation failed: ERROR: <input>:1:16: invalid matches argument"),
        ({"rule": "self.n > int('x')"}, "rule", "program instantiation failed: strconv.ParseInt"),
        (
            {"rule": "true", "messageExpression": "string(int('x'))"},
            "messageExpression",
            "messageExpression instantiation failed: strconv.ParseInt",
        ),
        ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf", "may not be set if oldSelf is not used in rule"),
    ],
)
def test_a_rule_that_does_not_compile_is_refused(rule: Obj, field: str, text: str) -> None:
    async def steps(world: World) -> None:
        (cause,) = await world.refused(world.define(obj({"n": INT, "s": TEXT}, rule)))
        where = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]"
        assert cause[1] == f"{where}.{field}"
        assert text in cause[2]

    within(steps)


def test_what_cannot_be_compared_with_what_it_was_cannot_ask_about_it() -> None:
    async def steps(world: World) -> None:
        items = {"type": "array", "items": INT | {"x-kubernetes-validations": rules("self >= oldSelf")}}
        (cause,) = await world.refused(world.define(obj({"items": items})))
        assert "oldSelf cannot be used on the uncorrelatable portion of the schema within" in cause[2]

    within(steps)


def test_a_rule_that_cannot_be_asked_says_why() -> None:
    async def steps(world: World) -> None:
        await world.define(
            obj({"n": INT, "m": {"type": "object", "additionalProperties": INT}}, "self.m.key > 10 / self.n")
        )
        (cause,) = await world.refused(world.create({"n": 0, "m": {"key": 1}}))
        assert cause[2] == 'Invalid value: "object": division by zero evaluating rule: self.m.key > 10 / self.n'
        (cause,) = await world.refused(world.create({"n": 1, "m": {}}))
        assert cause[2] == 'Invalid value: "object": no such key: key evaluating rule: self.m.key > 10 / self.n'

    within(steps)


NUMBERS = {"type": "array", "items": INT, "maxItems": 100}
CUBIC = "self.items.all(a, self.items.all(b, self.items.all(c, a + b + c >= 0)))"
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def test_a_rule_may_cost_only_so_much_for_an_object() -> None:
    async def steps(world: World) -> None:
        await world.define(obj({"items": NUMBERS}, CUBIC, "self.items.size() > 0"))
        await world.create({"items": list(range(10))})
        found = await world.refused(world.create({"items": list(range(100))}, "w2"))
        assert [text for _, _, text in found] == [
            "Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules "
            f"will be run due to call cost exceeds limit for rule: {CUBIC}"
        ]

    within(steps)


def test_all_rules_of_an_object_may_cost_only_so_much_together() -> None:
    async def steps(world: World) -> None:
        square = "self.items.all(a, self.items.all(b, a + b >= 0))"
        await world.define(obj({"items": NUMBERS | {"maxItems": 350}}, *[square] * 12, "self.items.size() > 400"))
        found = await world.refused(world.create({"items": list(range(350))}))
        assert [text for _, _, text in found] == [
            'Invalid value: "object": validation failed due to running out of cost budget, no further validation rules '
            "will be run"
        ]

    within(steps)


def test_rules_that_may_take_long_are_asked_beside_the_event_loop() -> None:
    async def steps(world: World) -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.001)
                turns += 1

        await world.define(obj({"items": NUMBERS}, CUBIC))
        counting = asyncio.create_task(count())
        await world.refused(world.create({"items": [1] * 100}))
        counting.cancel()
        assert turns > 3

    within(steps)


def test_a_rule_that_could_cost_too_much_is_refused_when_it_is_written() -> None:
    async def steps(world: World) -> None:
        unbounded = {"type": "array", "items": INT}
        spec = obj({"items": unbounded}, "self.items.all(a, self.items.all(b, a + b >= 0))")
        path = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
        assert await world.refused(world.define(spec)) == [
            (
                "FieldValueForbidden",
                path,
                f"Forbidden: estimated rule cost exceeds budget by factor of more than 100x {ADVICE}",
            ),
            (
                "FieldValueForbidden",
                path,
                "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            ),
            (
                "FieldValueForbidden",
                "spec.validation.openAPIV3Schema",
                "Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds "
                f"budget by factor of more than 100x {ADVICE}",
            ),
        ]
        # the same within as many maps as fit into a request
        spec = {"type": "object", "additionalProperties": obj({"items": NUMBERS}, "self.items.all(a, a > 0)")}
        cause, *_ = await world.refused(world.define(spec))
        assert cause[2] == f"Forbidden: estimated rule cost exceeds budget by factor of 52.7x {ADVICE}"
        # and what a number could be as a text has no bound
        message = {"rule": "self.n > 0", "messageExpression": "'not ' + string(self.n)"}
        found = await world.refused(world.define(obj({"n": INT}, message)))
        assert found[0][1].endswith("x-kubernetes-validations[0].messageExpression")
        assert found[0][2].startswith("Forbidden: estimated messageExpression cost exceeds budget")

    within(steps)


def test_lists_of_sets_and_maps_have_no_order() -> None:
    async def steps(world: World) -> None:
        named = obj({"name": TEXT, "port": INT}) | {"required": ["name"]}
        ports = {
            "type": "array",
            "items": named,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        }
        names = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
        await world.define(
            obj(
                {"ports": ports, "more": ports, "names": names, "others": names},
                "self.names == oldSelf.names",
                "self.ports == oldSelf.ports",
                "self.names + self.others == ['z', 'y', 'x'] && (self.names + self.others).size() == 3",
                {"rule": "(oldSelf.more + self.more).map(p, p.port)[1] <= 3", "message": "merged"},
            )
        )
        first, second = {"name": "a", "port": 1}, {"name": "b", "port": 2}
        await world.create(
            {"ports": [first, second], "more": [first, second], "names": ["x", "y"], "others": ["z", "y"]}
        )
        await world.change({"spec": {"ports": [second, first], "names": ["y", "x"], "others": ["z", "x"]}})
        cause, _ = await world.refused(world.change({"spec": {"names": ["x", "w"]}}))
        assert cause[2] == "Invalid value: failed rule: self.names == oldSelf.names"
        (cause,) = await world.refused(world.change({"spec": {"ports": [second, first | {"port": 9}]}}))
        assert cause[2] == "Invalid value: failed rule: self.ports == oldSelf.ports"
        await world.change({"spec": {"more": [second | {"port": 3}, {"name": "c", "port": 9}]}})
        (cause,) = await world.refused(world.change({"spec": {"more": [{"name": "c", "port": 9}, first]}}))
        assert cause[2] == "Invalid value: merged"

    within(steps)


def test_a_definition_with_too_much_to_compile_is_refused() -> None:
    async def steps(world: World) -> None:
        long = "self.n > 0" + " || self.n > 0" * 1000
        (cause,) = await world.refused(world.define(obj({"n": INT}, *[long] * 16)))
        assert "expressions of rules have more than 200000 characters together" in cause[2]

    within(steps)


def test_a_field_whose_name_is_a_keyword_may_be_escaped_and_need_not() -> None:
    spec = obj({"namespace": TEXT, "loop": TEXT}, "self.namespace == self.__loop__", "has(self.loop)")

    async def steps(world: World) -> None:
        await world.define(spec)
        await world.create({"namespace": "a", "loop": "a"})
        refused = await world.refused(world.create({"namespace": "a", "loop": "b"}, "x"))
        assert [message for _, _, message in refused] == ["Invalid value: failed rule: self.namespace == self.__loop__"]

    within(steps)
