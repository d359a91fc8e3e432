"""watch: from what is there or from a version on, every change once and in order (X-03)."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.builtin import CONFIG_MAPS, NAMESPACES, PODS
from fairlead.api.errors import ApiError, BadRequest, Expired, Invalid
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.server.storage import cache
from tests.api_conformance.world import Watching, config_map, pod, version_of


async def version(api: Api, namespace: str) -> str:
    return (await api.list(CONFIG_MAPS, namespace)).resource_version


async def test_every_change_since_a_version_is_told_in_order(api: Api, namespace: str) -> None:
    since = await version(api, namespace)
    made = (await api.create(CONFIG_MAPS, config_map("a"), namespace)).obj()
    watching = Watching(api, CONFIG_MAPS, namespace, resource_version=since)
    await watching.told(1)
    patched = (await api.patch(CONFIG_MAPS, "a", namespace, {"data": {"k": 'é\t"'}})).obj()
    await api.delete(CONFIG_MAPS, "a", namespace)
    again = (await api.create(CONFIG_MAPS, config_map("a"), namespace)).obj()
    await watching.told(4)
    types, objects = zip(*watching.events, strict=True)
    assert types == (EventType.ADDED, EventType.MODIFIED, EventType.DELETED, EventType.ADDED)
    assert (objects[0], objects[1], objects[3]) == (made, patched, again)
    await watching.stop()


async def test_a_deleted_object_is_told_as_it_was_under_the_version_of_its_deletion(api: Api, namespace: str) -> None:
    made = (await api.create(CONFIG_MAPS, config_map("a", {"k": '"resourceVersion":"1"'}), namespace)).obj()
    watching = Watching(api, CONFIG_MAPS, namespace, resource_version=version_of(made))
    await api.delete(CONFIG_MAPS, "a", namespace)
    await watching.told(1)
    [(type_, gone)] = watching.events
    assert type_ is EventType.DELETED
    assert int(version_of(gone)) > int(version_of(made))
    made["metadata"]["resourceVersion"] = version_of(gone)
    assert gone == made
    await watching.stop()


@pytest.mark.parametrize(("since", "bookmarks"), [("", False), ("0", False), ("", True)])
async def test_without_a_version_a_watch_begins_with_what_is_there(
    api: Api, namespace: str, since: str, bookmarks: bool
) -> None:
    made = [(await api.create(CONFIG_MAPS, config_map(name), namespace)).obj() for name in "ba"]
    watching = Watching(api, CONFIG_MAPS, namespace, resource_version=since, bookmarks=bookmarks)
    end = [("BOOKMARK", "")] if bookmarks else []
    assert await watching.told(2 + bookmarks) == [("ADDED", "a"), ("ADDED", "b"), *end]
    assert [obj for _, obj in watching.events[:2]] == [made[1], made[0]]
    await api.create(CONFIG_MAPS, config_map("c"), namespace)
    assert (await watching.told(3 + bookmarks))[2 + bookmarks :] == [("ADDED", "c")]
    await watching.stop()


async def test_a_bookmark_tells_where_the_initial_events_end(api: Api, namespace: str) -> None:
    """KEP-3157."""
    await api.create(CONFIG_MAPS, config_map("a"), namespace)
    since = await version(api, namespace)
    watching = Watching(
        api, CONFIG_MAPS, namespace, send_initial_events=True, resource_version_match="NotOlderThan", bookmarks=True
    )
    assert await watching.told(2) == [("ADDED", "a"), ("BOOKMARK", "")]
    bookmark = watching.events[1][1]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(version_of(bookmark)) >= int(since)
    await api.create(CONFIG_MAPS, config_map("b"), namespace)
    assert (await watching.told(3))[2:] == [("ADDED", "b")]
    await watching.stop()


async def test_who_wants_no_initial_events_gets_none_and_who_wants_no_bookmarks_neither(
    api: Api, namespace: str
) -> None:
    await api.create(CONFIG_MAPS, config_map("a"), namespace)
    query = {"resource_version": await version(api, namespace), "resource_version_match": "NotOlderThan"}
    with_them = Watching(api, CONFIG_MAPS, namespace, send_initial_events=True, **query)
    without = Watching(api, CONFIG_MAPS, namespace, send_initial_events=False, bookmarks=True, **query)
    await with_them.told(1)
    await api.create(CONFIG_MAPS, config_map("b"), namespace)
    assert await with_them.told(2) == [("ADDED", "a"), ("ADDED", "b")]
    assert await without.told(1) == [("ADDED", "b")]
    await with_them.stop()
    await without.stop()


async def test_objects_enter_and_leave_a_selection(api: Api, namespace: str) -> None:
    since = await version(api, namespace)
    labelled = Watching(api, PODS, namespace, resource_version=since, labels="k=1")
    placed = Watching(api, PODS, namespace, resource_version=since, fields="spec.nodeName=n")
    made = (await api.create(PODS, pod("p", node="n", labels={"k": "1"}), namespace)).obj()
    changed = (await api.patch(PODS, "p", namespace, {"metadata": {"labels": {"k": "2"}}})).obj()
    await api.patch(PODS, "p", namespace, {"metadata": {"labels": {"k": "1"}}})
    assert await labelled.told(3) == [("ADDED", "p"), ("DELETED", "p"), ("ADDED", "p")]
    left = labelled.events[1][1]
    assert (left["metadata"]["labels"], version_of(left)) == (made["metadata"]["labels"], version_of(changed))
    assert await placed.told(3) == [("ADDED", "p"), ("MODIFIED", "p"), ("MODIFIED", "p")]
    await labelled.stop()
    await placed.stop()


async def test_a_watch_of_all_namespaces_tells_of_each(api: Api, namespace: str) -> None:
    further = f"{namespace}-further"
    await api.create(NAMESPACES, {"metadata": {"name": further}})
    watching = Watching(api, CONFIG_MAPS, resource_version=await version(api, namespace))
    for space in (namespace, further):
        await api.create(CONFIG_MAPS, config_map("a"), space)
    await watching.told(2)
    assert [obj["metadata"]["namespace"] for _, obj in watching.events] == [namespace, further]
    await watching.stop()


async def test_a_version_that_is_forgotten_is_expired(
    api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "HISTORY_EVENTS", 2)
    since = await version(api, namespace)
    for name in "abcd":
        await api.create(CONFIG_MAPS, config_map(name), namespace)
    with pytest.raises(Expired, match=f"too old resource version: {since} ") as refused:
        await Watching(api, CONFIG_MAPS, namespace, resource_version=since).ended()
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


async def test_a_watch_ends_when_its_time_is_over(api: Api, namespace: str) -> None:
    watching = Watching(api, CONFIG_MAPS, namespace, timeout_seconds=1)
    await watching.ended()
    assert watching.events == []


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"labels": "a b"}, BadRequest, "unable to parse requirement"),
        ({"fields": "spec.x=1"}, BadRequest, '"spec.x" is not a known field selector'),
        ({"resource_version": "x"}, ApiError, 'resourceVersion: Invalid value: "x"'),
        ({"send_initial_events": True}, Invalid, "sendInitialEvents requires setting resourceVersionMatch to"),
        ({"resource_version_match": "Exact", "resource_version": "1"}, Invalid, "resourceVersionMatch is forbidden"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(
    api: Api, namespace: str, query: dict[str, Any], error: type[ApiError], message: str
) -> None:
    with pytest.raises(error) as refused:
        await anext(aiter(api.watch(CONFIG_MAPS, namespace, WatchQuery(**query))))
    assert message in refused.value.message
