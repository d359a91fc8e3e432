"""Lists and watches, in process: which state they show, in which pages, and from when on."""

from __future__ import annotations

import asyncio
import base64

import pytest

from fairlead.api.builtin import (
    CONFIG_MAPS,
    EVENTS,
    EVENTS_K8S_IO,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
)
from fairlead.api.errors import (
    BadRequest,
    Expired,
    ServerTimeout,
)
from fairlead.api.resources import Resource
from fairlead.api.verbs import ListQuery, WatchQuery
from fairlead.runtime.clock import monotonic
from fairlead.server.storage import cache as caches
from fairlead.server.storage.listing import wait_for
from tests.played import played
from tests.server.registry_world import NAMESPACE, POD_SPEC, Watching, World, run, scheduled
from tests.turns import counting_turns

# -- lists


@played(run)
async def test_pages_show_one_state_whatever_is_written_between_them(world: World) -> None:
    """X-04."""
    names = [f"c{number:02}" for number in range(10)]
    for name in names:
        await world.config(name)
    first = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=4))
    assert first.remaining == 6
    await world.api.delete(CONFIG_MAPS, "c05", NAMESPACE)
    await world.config("c065")
    await world.api.patch(CONFIG_MAPS, "c07", NAMESPACE, {"data": {"new": "yes"}})
    seen = [item.obj() for item in first.items]
    token, revision = first.continue_token, first.resource_version
    while token:
        page = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=4, continue_token=token))
        assert page.resource_version == revision
        seen += [item.obj() for item in page.items]
        token = page.continue_token
    assert [item["metadata"]["name"] for item in seen] == names
    assert not any("data" in item for item in seen)


@played(run)
async def test_a_list_that_takes_longer_than_five_minutes_goes_on_at_the_newest_state(world: World) -> None:
    """As if its version were compacted away, though nothing of this kind may have changed."""
    for name in "abcd":
        await world.config(name)
    first = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1))
    await asyncio.sleep(200)
    second = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, continue_token=first.continue_token))
    assert second.resource_version == first.resource_version
    await world.config("e")
    await asyncio.sleep(110)
    for page in (first, second):
        with pytest.raises(Expired) as refused:
            await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, continue_token=page.continue_token))
    token = refused.value.continue_token
    rest = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, continue_token=token))
    assert [item.obj()["metadata"]["name"] for item in rest.items] == ["c"]
    assert int(rest.resource_version) > int(first.resource_version)
    last = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(continue_token=rest.continue_token))
    assert last.resource_version == rest.resource_version
    assert [item.obj()["metadata"]["name"] for item in last.items] == ["d", "e"]


@played(run)
async def test_others_have_a_turn_while_a_list_looks_for_what_matches(world: World) -> None:
    for number in range(16):
        await world.config(f"c{number:02}", labels={"l": str(number % 2)}, annotations={"a": "x" * 250_000})
    found, turns = await counting_turns(world.names(CONFIG_MAPS, labels="l=1"))
    assert found == [f"c{number:02}" for number in range(1, 16, 2)]
    assert turns > 0


@played(run)
async def test_pages_of_all_namespaces_are_complete_and_in_the_order_of_their_keys(world: World) -> None:
    """As in etcd, where a namespace's keys end with a slash: `m-1/a` comes before `m/a`."""
    for space in ("m", "m-1"):
        await world.create(NAMESPACES, {"metadata": {"name": space}})
    for space in ("m-1", "n", "m"):
        for name in ("b", "a"):
            await world.api.create(CONFIG_MAPS, {"metadata": {"name": name}}, space)
    seen, token = [], ""
    while True:
        page = await world.api.list(CONFIG_MAPS, "", ListQuery(limit=1, continue_token=token))
        seen += [(meta["namespace"], meta["name"]) for meta in (item.obj()["metadata"] for item in page.items)]
        if not (token := page.continue_token):
            break
    assert seen == [("m-1", "a"), ("m-1", "b"), ("m", "a"), ("m", "b"), ("n", "a"), ("n", "b")]


@played(run)
async def test_a_page_of_a_selection_does_not_count_what_remains(world: World) -> None:
    for name in "abc":
        await world.config(name, labels={"k": "v"})
    page = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, labels="k=v"))
    assert page.continue_token
    assert page.remaining is None


@pytest.mark.parametrize(
    ("query", "goes_on"),
    [
        ({"labels": "k=v"}, True),  # nobody has looked whether what is left matches
        ({"fields": "metadata.name=a"}, False),
        ({"fields": "metadata.name=c"}, False),
        ({"labels": "k=v", "fields": "metadata.namespace=n"}, True),
    ],
)
@played(run)
async def test_a_full_page_of_a_selection_goes_on_while_there_is_anything_left(
    world: World, query: dict[str, str], goes_on: bool
) -> None:
    await world.config("a", labels={"k": "v"})
    await world.config("c")
    page = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, **query))
    assert len(page.items) == 1
    assert bool(page.continue_token) is goes_on
    if goes_on:
        rest = await world.api.list(
            CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, continue_token=page.continue_token, **query)
        )
        assert (rest.items, rest.continue_token) == ([], "")


@pytest.mark.parametrize(("version", "pages"), [("0", False), ("", True)])
@played(run)
async def test_who_takes_any_state_gets_it_in_one_page(world: World, version: str, pages: bool) -> None:
    for name in "ab":
        await world.config(name)
    page = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, resource_version=version))
    assert bool(page.continue_token) is pages
    assert len(page.items) == 2 - pages


@played(run)
async def test_the_last_page_that_is_exactly_full_does_not_go_on(world: World) -> None:
    for name in "ab":
        await world.config(name)
    page = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=2))
    assert (len(page.items), page.continue_token, page.remaining) == (2, "", None)


@pytest.mark.parametrize("limit", [-1, -(2**63), 0, 2**63 - 1])
@played(run)
async def test_a_limit_that_limits_nothing_gives_everything(world: World, limit: int) -> None:
    await world.config("a")
    assert await world.names(CONFIG_MAPS, limit=limit) == ["a"]


@played(run)
async def test_a_page_of_forgotten_history_is_expired(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "HISTORY_EVENTS", 5)
    for name in "abc":
        await world.config(name)
    first = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1))
    for number in range(10):
        await world.api.patch(CONFIG_MAPS, "a", NAMESPACE, {"data": {"k": str(number)}})
    with pytest.raises(Expired, match="The provided continue parameter is too old") as refused:
        await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, continue_token=first.continue_token))
    token = refused.value.status()["metadata"]["continue"]
    rest = await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, continue_token=token))
    assert [item.obj()["metadata"]["name"] for item in rest.items] == ["b"]
    assert (rest.resource_version, rest.remaining) == (str(world.registry.revision), 1)
    assert await world.names(CONFIG_MAPS, continue_token=rest.continue_token) == ["c"]
    with pytest.raises(Expired, match="resourceVersion for the provided list is too old"):
        query = ListQuery(resource_version=first.resource_version, resource_version_match="Exact")
        await world.api.list(CONFIG_MAPS, NAMESPACE, query)
    watch = world.api.watch(CONFIG_MAPS, NAMESPACE, WatchQuery(resource_version=first.resource_version))
    with pytest.raises(Expired, match="too old resource version"):
        await anext(aiter(watch))


@pytest.mark.parametrize(
    "token", ["x", "!!!", "e30", "bm90IGpzb24", "é", "A" * 5000, "eyJ2IjoieCIsInJ2IjoxLCJzdGFydCI6IiJ9"]
)
@played(run)
async def test_a_made_up_continue_token_is_a_bad_request(world: World, token: str) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await world.api.list(CONFIG_MAPS, NAMESPACE, ListQuery(limit=1, continue_token=token))


def token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


_ENDING = "(version meta.k8s.io/v1)"


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ("bad!", "illegal base64 data at input byte 3"),
        ("abcde", "illegal base64 data at input byte 4"),
        ("YQ==", "illegal base64 data at input byte 2"),
        (token("not json"), "invalid character 'o' in literal null (expecting 'u')"),
        (token("[]"), "json: cannot unmarshal array into Go value of type storage.continueToken"),
        (
            token('{"v":"meta.k8s.io/v1","rv":"1","start":"a"}'),
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
        ),
        (token('{"v":"x","rv":1,"start":"a"}'), "server does not recognize this encoded version x"),
        (token("null"), "server does not recognize this encoded version "),
        (token('{"v":"meta.k8s.io/v1","start":"a"}'), f"incorrect encoded start resourceVersion {_ENDING}"),
        (token('{"v":"meta.k8s.io/v1","rv":1,"start":""}'), f"encoded start key empty {_ENDING}"),
        (token('{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}'), "../a"),
        (token('{"v":"meta.k8s.io/v1","rv":1,"start":"a/"}'), "a/"),
    ],
)
@played(run)
async def test_a_token_that_is_none_is_told_why(world: World, sent: str, problem: str) -> None:
    with pytest.raises(BadRequest) as refused:
        query = ListQuery(continue_token=sent, resource_version="5")  # the token is judged first
        await world.api.list(CONFIG_MAPS, NAMESPACE, query)
    assert refused.value.message == f"invalid continue token: continue key is not valid: {problem}"


@played(run)
async def test_a_token_of_kubernetes_goes_on_where_it_says(world: World) -> None:
    for name in "abc":
        await world.config(name)
    newest = token('{"v":"meta.k8s.io/v1","rv":-1,"start":"a\\u0000"}')
    assert await world.names(CONFIG_MAPS, continue_token=newest) == ["b", "c"]
    everywhere = token(f'{{"v":"meta.k8s.io/v1","rv":-1,"start":"/{NAMESPACE}/b"}}')
    page = await world.api.list(CONFIG_MAPS, "", ListQuery(continue_token=everywhere))
    assert [item.obj()["metadata"]["name"] for item in page.items] == ["b", "c"]
    page = await world.api.list(
        NAMESPACES, "", ListQuery(continue_token=token(f'{{"v":"meta.k8s.io/v1","rv":-1,"start":"{NAMESPACE}"}}'))
    )
    assert page.items[0].obj()["metadata"]["name"] == NAMESPACE


@played(run)
async def test_an_exact_version_shows_that_very_state(world: World) -> None:
    first = await world.config("a")
    await world.config("b")
    version = first["metadata"]["resourceVersion"]
    assert await world.names(CONFIG_MAPS, resource_version=version, resource_version_match="Exact") == ["a"]
    for query in ({}, {"resource_version": version}, {"resource_version": "0"}):
        assert await world.names(CONFIG_MAPS, **query) == ["a", "b"]


@played(run)
async def test_a_version_from_the_future_is_waited_for_and_then_refused(world: World) -> None:
    began = monotonic()
    with pytest.raises(ServerTimeout, match="Too large resource version: 999"):
        await wait_for(world.registry.store, 999)
    assert 3 <= monotonic() - began < 3.2
    waiting = asyncio.create_task(wait_for(world.registry.store, world.registry.revision + 1))
    await asyncio.sleep(1)
    assert not waiting.done()
    await world.config("a")
    await asyncio.wait_for(waiting, 1)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"labels": "k=1"}, ["a"]),
        ({"labels": "k in (1, 2),!x"}, ["a", "b"]),
        ({"fields": "metadata.name=b"}, ["b"]),
        ({"fields": "metadata.name!=b,metadata.namespace=n"}, ["a", "c"]),
        ({"fields": "metadata.name=b", "labels": "k=1"}, []),
        ({"fields": "spec.nodeName=node"}, ["a"]),
        ({"fields": "spec.nodeName="}, ["b", "c"]),
        ({"fields": "spec.nodeName!=node"}, ["b", "c"]),
        ({"labels": "", "fields": ""}, ["a", "b", "c"]),
    ],
)
@played(run)
async def test_selectors(world: World, query: dict[str, str], names: list[str]) -> None:
    """X-07."""
    await world.create(PODS, scheduled(name="a", labels={"k": "1"}))
    await world.create(PODS, {"metadata": {"name": "b", "labels": {"k": "2"}}, "spec": POD_SPEC})
    annotated = {"name": "c", "annotations": {"note": "node"}}  # the value is in it, but not where it is asked for
    await world.create(PODS, {"metadata": annotated, "spec": POD_SPEC})
    assert await world.names(PODS, **query) == names


@pytest.mark.parametrize(
    ("resource", "field", "message"),
    [
        (PODS, "spec.containers", "field label not supported: spec.containers"),
        (NODES, "metadata.namespace", "field label not supported: metadata.namespace"),
        (
            PRIORITY_CLASSES,
            "value",
            '"value" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (EVENTS, "regarding.kind", "field label not supported: regarding.kind"),
        (EVENTS, "reportingController", "field label not supported: reportingController"),
        (EVENTS_K8S_IO, "involvedObject.kind", "field label not supported: involvedObject.kind"),
        (EVENTS_K8S_IO, "reportingComponent", "field label not supported: reportingComponent"),
    ],
)
@played(run)
async def test_a_field_that_nobody_can_be_selected_by_is_refused(
    world: World, resource: Resource, field: str, message: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        await world.names(resource, fields=f"{field}=x")
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("query", "names"), [("metadata.namespace=x", []), ("metadata.namespace=", ["a"]), ("metadata.namespace!=x", ["a"])]
)
@played(run)
async def test_what_is_in_no_namespace_can_be_asked_for_one(world: World, query: str, names: list[str]) -> None:
    await world.create(PRIORITY_CLASSES, {"metadata": {"name": "a"}, "value": 1})
    assert await world.names(PRIORITY_CLASSES, fields=f"{query},metadata.name=a") == names


@pytest.mark.parametrize(
    ("resource", "query"),
    [
        (EVENTS, "involvedObject.kind=Pod,reportingComponent=kubelet"),
        (EVENTS_K8S_IO, "regarding.kind=Pod,reportingController=kubelet"),
        (EVENTS_K8S_IO, "source=kubelet,reason=Started,type=Normal"),
    ],
)
@played(run)
async def test_each_group_selects_events_by_its_own_names_of_fields(
    world: World, resource: Resource, query: str
) -> None:
    event = {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": NAMESPACE},
        "reason": "Started",
        "type": "Normal",
        "reportingComponent": "kubelet",
    }
    await world.create(EVENTS, {"metadata": {"name": "a"}} | event)
    await world.create(EVENTS, {"metadata": {"name": "b"}} | event | {"reportingComponent": "other"})
    assert await world.names(resource, fields=query) == ["a"]
    watching = Watching(world.api, resource, fields=query)
    assert await watching.seen_events() == [("ADDED", "a")]


# -- watches


@played(run)
async def test_a_watch_begins_with_what_there_is_or_from_a_version(world: World) -> None:
    first = await world.config("a")
    await world.config("b")
    everything = Watching(world.api, CONFIG_MAPS)
    since = Watching(world.api, CONFIG_MAPS, resource_version=first["metadata"]["resourceVersion"])
    assert await everything.seen_events() == [("ADDED", "a"), ("ADDED", "b")]
    assert await since.seen_events() == [("ADDED", "b")]
    await world.api.delete(CONFIG_MAPS, "b", NAMESPACE)
    assert (await everything.seen_events())[2:] == (await since.seen_events())[1:] == [("DELETED", "b")]


@played(run)
async def test_a_watch_that_is_left_is_released(world: World) -> None:
    served = world.registry.catalogue.stored("configmaps")
    assert served is not None
    before = served.cache.watchers
    watching = Watching(world.api, CONFIG_MAPS)
    await watching.seen_events()
    assert served.cache.watchers == before + 1
    watching.task.cancel()
    await asyncio.gather(watching.task, return_exceptions=True)
    assert served.cache.watchers == before
