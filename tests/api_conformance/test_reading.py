"""get and list: which state they show, what selectors select, and how a list goes on page by page (X-04, X-07)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.api.builtin import CONFIG_MAPS, DEPLOYMENTS, EVENTS, EVENTS_K8S_IO, NAMESPACES, PODS
from fairlead.api.errors import ApiError, BadRequest, Expired, Invalid, NotFound, ServerTimeout
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, ListQuery
from fairlead.client import http
from fairlead.server.storage import cache, listing
from tests.api_conformance.world import config_map, deployment, names, pod, version_of


async def config_maps(api: Api, namespace: str, *wanted: str) -> None:
    for name in wanted:
        await api.create(CONFIG_MAPS, config_map(name), namespace)


async def test_an_object_is_read_as_its_writer_got_it(api: Api, namespace: str) -> None:
    made = await api.create(CONFIG_MAPS, config_map("c", {"k": 'é\t"\\'}), namespace)
    found = await api.get(CONFIG_MAPS, "c", namespace)
    assert found.obj() == made.obj()
    assert found.obj()["data"] == {"k": 'é\t"\\'}
    assert (found.obj()["kind"], found.obj()["apiVersion"]) == ("ConfigMap", "v1")


async def test_an_object_that_is_not_there_is_not_found(api: Api, namespace: str) -> None:
    for resource, qualified in ((CONFIG_MAPS, "configmaps"), (DEPLOYMENTS, "deployments.apps")):
        with pytest.raises(NotFound) as refused:
            await api.get(resource, "x", namespace)
        assert refused.value.message == f'{qualified} "x" not found'
        assert refused.value.details == {"name": "x", "group": resource.group, "kind": resource.plural, "uid": ""}


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "patch", "delete"])
async def test_a_kind_that_is_not_served_is_not_found(api: Api, verb: str) -> None:
    resource = Resource("nobody.example.com", "v1", "nothings", "Nothing")
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        match verb:
            case "get":
                await api.get(resource, "x", "default")
            case "list":
                await api.list(resource)
            case "watch":
                await anext(aiter(api.watch(resource)))
            case "create":
                await api.create(resource, {"metadata": {"name": "x"}}, "default")
            case "patch":
                await api.patch(resource, "x", "default", {})
            case "delete":
                await api.delete(resource, "x", "default")


async def test_a_list_is_of_a_namespace_or_of_all_in_the_order_of_names(api: Api, namespace: str) -> None:
    further = f"{namespace}-further"
    await api.create(NAMESPACES, {"metadata": {"name": further}})
    await config_maps(api, namespace, "b", "a")
    await config_maps(api, further, "c")
    assert names(await api.list(CONFIG_MAPS, namespace)) == ["a", "b"]
    everywhere = [item.obj()["metadata"] for item in (await api.list(CONFIG_MAPS)).items]
    mine = [(meta["namespace"], meta["name"]) for meta in everywhere if meta["namespace"].startswith(namespace)]
    assert sorted(mine) == [(namespace, "a"), (namespace, "b"), (further, "c")]


async def test_an_item_of_a_list_is_what_a_get_shows(api: Api, namespace: str) -> None:
    await config_maps(api, namespace, "a")
    await api.create(DEPLOYMENTS, deployment("d"), namespace)
    for resource, name in ((CONFIG_MAPS, "a"), (DEPLOYMENTS, "d")):
        [item] = (await api.list(resource, namespace)).items
        assert item.obj() == (await api.get(resource, name, namespace)).obj()
    assert (await api.list(PODS, namespace)).items == []


async def test_each_version_of_a_kind_shows_its_objects_in_its_own_form(api: Api, namespace: str) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
        "message": "m",
        "reportingComponent": "r",
        "reportingInstance": "i",
        "type": "Normal",
        "reason": "R",
    }
    await api.create(EVENTS, event, namespace)
    for resource, message in ((EVENTS, "message"), (EVENTS_K8S_IO, "note")):
        [item] = (await api.list(resource, namespace)).items
        obj = item.obj()
        assert (obj["kind"], obj["apiVersion"], obj[message]) == ("Event", resource.api_version, "m")
        assert obj == (await api.get(resource, "e", namespace)).obj()


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ({}, ["a", "b", "c"]),
        ({"labels": "k=1"}, ["a"]),
        ({"labels": "k in (1,2),!x"}, ["a", "b"]),
        ({"fields": "metadata.name=b"}, ["b"]),
        ({"fields": "metadata.name!=b"}, ["a", "c"]),
        ({"fields": "spec.nodeName=node"}, ["a"]),
        ({"fields": "spec.nodeName="}, ["b", "c"]),
        ({"fields": "metadata.name=b", "labels": "k=1"}, []),
    ],
)
async def test_selectors_select(api: Api, namespace: str, query: dict[str, Any], selected: list[str]) -> None:
    await api.create(PODS, pod("a", node="node", labels={"k": "1"}), namespace)
    await api.create(PODS, pod("b", labels={"k": "2"}), namespace)
    await api.create(PODS, pod("c", annotations={"note": "node"}), namespace)
    assert names(await api.list(PODS, namespace, ListQuery(**query))) == selected


async def test_pages_show_one_state_whatever_is_written_between_them(api: Api, namespace: str) -> None:
    await config_maps(api, namespace, *"abcde")
    page = await api.list(CONFIG_MAPS, namespace, ListQuery(limit=2))
    assert (names(page), page.remaining) == (["a", "b"], 3)
    await api.delete(CONFIG_MAPS, "d", namespace)
    await config_maps(api, namespace, "cc")
    rest = await api.list(CONFIG_MAPS, namespace, ListQuery(limit=2, continue_token=page.continue_token))
    assert (names(rest), rest.remaining, rest.resource_version) == (["c", "d"], 1, page.resource_version)
    last = await api.list(CONFIG_MAPS, namespace, ListQuery(limit=2, continue_token=rest.continue_token))
    assert (names(last), last.remaining, last.continue_token) == (["e"], None, "")


@pytest.mark.parametrize("match", ["", "NotOlderThan", "Exact"])
async def test_a_list_without_a_limit_is_whole_from_whatever_version(
    api: Api, namespace: str, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP it comes in pages all the same."""
    monkeypatch.setattr(http, "PAGE", 2)
    await config_maps(api, namespace, *"abcde")
    version = version_of((await api.get(CONFIG_MAPS, "e", namespace)).obj())
    found = await api.list(CONFIG_MAPS, namespace, ListQuery(resource_version=version, resource_version_match=match))
    assert (names(found), found.continue_token, found.remaining) == (list("abcde"), "", None)


async def test_a_page_of_a_selection_does_not_say_what_remains(api: Api, namespace: str) -> None:
    await config_maps(api, namespace, *"abc")
    page = await api.list(CONFIG_MAPS, namespace, ListQuery(limit=1, fields="metadata.namespace=" + namespace))
    assert (names(page), bool(page.continue_token), page.remaining) == (["a"], True, None)


async def test_an_exact_version_shows_that_very_state(api: Api, namespace: str) -> None:
    first = (await api.create(CONFIG_MAPS, config_map("a"), namespace)).obj()
    await config_maps(api, namespace, "b")
    query = ListQuery(resource_version=version_of(first))
    exact = await api.list(CONFIG_MAPS, namespace, replace(query, resource_version_match="Exact"))
    assert (names(exact), exact.resource_version) == (["a"], version_of(first))
    for newer in (query, replace(query, resource_version_match="NotOlderThan"), ListQuery(resource_version="0")):
        assert names(await api.list(CONFIG_MAPS, namespace, newer)) == ["a", "b"]


async def test_pages_of_forgotten_history_are_expired_with_a_way_to_go_on(
    api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "HISTORY_EVENTS", 2)
    await config_maps(api, namespace, *"abc")
    first = await api.list(CONFIG_MAPS, namespace, ListQuery(limit=1))
    for number in range(5):
        await api.patch(CONFIG_MAPS, "a", namespace, {"data": {"k": str(number)}})
    with pytest.raises(Expired, match="The provided continue parameter is too old") as refused:
        await api.list(CONFIG_MAPS, namespace, ListQuery(limit=1, continue_token=first.continue_token))
    token = refused.value.continue_token
    assert refused.value.status()["metadata"] == {"continue": token}
    rest = await api.list(CONFIG_MAPS, namespace, ListQuery(limit=2, continue_token=token))
    assert names(rest) == ["b", "c"]
    with pytest.raises(Expired, match="The resourceVersion for the provided list is too old"):
        query = ListQuery(resource_version=first.resource_version, resource_version_match="Exact")
        await api.list(CONFIG_MAPS, namespace, query)


async def test_a_version_that_never_comes_is_refused(api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "FUTURE_VERSION_SECONDS", 0.1)
    with pytest.raises(ServerTimeout, match="Too large resource version: 99999, current: ") as refused:
        await api.list(CONFIG_MAPS, namespace, ListQuery(resource_version="99999"))
    [cause] = refused.value.causes
    assert (cause.reason, refused.value.retry_after_seconds) == ("ResourceVersionTooLarge", 1)


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"labels": "a b"}, BadRequest, "unable to parse requirement: found 'b', expected: "),
        ({"fields": "spec.x=1"}, BadRequest, '"spec.x" is not a known field selector: only "metadata.name"'),
        ({"resource_version": "x"}, BadRequest, "invalid resource version: resourceVersion: Invalid value: "),
        ({"continue_token": "x"}, BadRequest, "invalid continue token: continue key is not valid: "),
        ({"resource_version_match": "Exact"}, Invalid, "resourceVersionMatch is forbidden unless resourceVersion"),
        ({"resource_version": "1", "resource_version_match": "x"}, Invalid, 'Unsupported value: "x"'),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(
    api: Api, namespace: str, query: dict[str, Any], error: type[ApiError], message: str
) -> None:
    with pytest.raises(error) as refused:
        await api.list(CONFIG_MAPS, namespace, ListQuery(**query))
    assert message in refused.value.message
