"""What an administrator may ask of the running process (issue 16)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.http_world import CONFIG_MAPS, Server, check_status, serving_in_a_thread


@pytest.fixture
def server() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        yield server


def watched_since(server: Server, version: str) -> list[dict[str, Any]]:
    """What a watch from there tells until its time is over."""
    reply = server.ask("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    return [json.loads(line) for line in reply.body.splitlines()]


def test_an_administrator_compacts_the_history_of_a_running_server(server: Server) -> None:
    before = server.ask("GET", CONFIG_MAPS).obj["metadata"]["resourceVersion"]
    for name in "abc":
        server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    assert [event["type"] for event in watched_since(server, before)] == ["ADDED"] * 3
    page = server.ask("GET", f"{CONFIG_MAPS}?limit=1").obj["metadata"]
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "d"}})

    compacted = server.ask("POST", "/debug/compact")
    now = server.ask("GET", CONFIG_MAPS).obj
    assert (compacted.code, compacted.obj) == (200, {"compacted": now["metadata"]["resourceVersion"]})
    [event] = watched_since(server, before)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    continued = server.ask("GET", f"{CONFIG_MAPS}?limit=1&continue={page['continue']}")
    assert (continued.code, continued.obj["reason"]) == (410, "Expired")
    assert continued.obj["metadata"]["continue"]  # it says how to go on
    assert {"a", "b", "c", "d"} <= {item["metadata"]["name"] for item in now["items"]}  # what there is stays
    assert watched_since(server, compacted.obj["compacted"]) == []


def test_only_a_post_compacts(server: Server) -> None:
    check_status(server.ask("GET", "/debug/compact"), 405, "MethodNotAllowed")
    assert server.ask("POST", "/debug/compacted").code == 404
    assert server.ask("POST", "/debug/compact", port=server.guarded_port).code == 401
