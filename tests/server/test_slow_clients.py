"""Lists and watches leave at the pace of who reads them: whole if it reads, and cheap for everybody if it does not."""

from __future__ import annotations

import gc
import http.client
import json
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import yaml

from fairlead.api.objects import Obj
from fairlead.runtime.http import pieces
from fairlead.server.http import answers, streams
from fairlead.server.http.transforms import Presenter
from tests.examples import each_time
from tests.server.http_world import CONFIG_MAPS, Complaints, Reply, Server, answer_on, serving_in_a_thread
from tests.server.protobuf_reader import decoded, frames, without_kind

LARGE = "x" * 500_000
COUNT = 40
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        for number in range(COUNT):
            obj = {"metadata": {"name": f"m{number:02}"}, "data": {"x": LARGE}}
            assert server.ask("POST", CONFIG_MAPS, obj).code == 201
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    running.soon(lambda: running.watchers() == 0)
    yield running


def read(reply: Reply) -> Obj:
    """The object in an answer of any form."""
    match reply.headers["content-type"]:
        case "application/yaml":
            found: Obj = yaml.load(reply.body, yaml.CSafeLoader)
            return found
        case "application/vnd.kubernetes.protobuf":
            return decoded(reply.body)
    return reply.obj


def asking(path: str, accept: str = "application/json") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: {accept}\r\n\r\n".encode()


def changed(server: Server, name: str, value: str) -> None:
    assert server.ask("PUT", f"{CONFIG_MAPS}/{name}", {"metadata": {"name": name}, "data": {"x": value}}).code == 200


def created(server: Server, name: str, value: str) -> Obj:
    reply = server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"x": value}})
    assert reply.code == 201
    return reply.obj


@pytest.mark.parametrize(
    "accept",
    ["application/json", TABLE, PARTIAL, "application/yaml", PROTOBUF],
    ids=["list", "table", "metadata", "yaml", "protobuf"],
)
def test_clients_that_do_not_read_a_list_hold_a_few_megabytes(server: Server, accept: str) -> None:
    """20 clients, 20 MB each; what they leave unread is made when they read it."""
    path = CONFIG_MAPS + ("?includeObject=Object" if accept == TABLE else "")
    with ExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        clients = [stack.enter_context(server.raw(asking(path, accept))) for _ in range(20)]
        for client in clients:
            assert client.recv(9, socket.MSG_PEEK) == b"HTTP/1.1 "
        assert server.ask("GET", f"{CONFIG_MAPS}?limit=1").code == 200
        assert tracemalloc.get_traced_memory()[0] < 20 * (4 << 20)
        reply = answer_on(clients[0])
    listing = read(reply)
    assert len(listing["rows"] if accept == TABLE else listing["items"]) == COUNT


@pytest.mark.parametrize("accept", ["application/json", PROTOBUF], ids=["json", "protobuf"])
def test_clients_that_do_not_read_what_a_watch_begins_with_hold_a_few_megabytes(server: Server, accept: str) -> None:
    with ExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        clients = [stack.enter_context(server.raw(asking(f"{CONFIG_MAPS}?watch=1", accept))) for _ in range(20)]
        server.soon(lambda: server.watchers() == 20)
        assert server.ask("GET", f"{CONFIG_MAPS}?limit=1").code == 200
        assert tracemalloc.get_traced_memory()[0] < 20 * (4 << 20)
        for client in clients:
            client.shutdown(socket.SHUT_RDWR)


def test_an_idle_watch_holds_little(server: Server) -> None:
    """Thousands of clients watch what hardly ever changes."""
    asked = asking("/api/v1/namespaces/default/secrets?watch=1&allowWatchBookmarks=true")
    count = 100
    with ExitStack() as stack:
        for client in [stack.enter_context(server.raw(asked)) for _ in range(10)]:
            assert client.recv(9) == b"HTTP/1.1 "
        server.soon(lambda: server.watchers("secrets") == 10)
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        clients = [stack.enter_context(server.raw(asked)) for _ in range(count)]
        for client in clients:
            assert client.recv(9) == b"HTTP/1.1 "
        server.soon(lambda: server.watchers("secrets") == count + 10)
        assert server.ask("GET", f"{CONFIG_MAPS}?limit=1").code == 200
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < count * (15 << 10)
    server.soon(lambda: server.watchers("secrets") == 0)


def test_a_watch_with_a_body_is_released_when_its_client_goes(server: Server) -> None:
    """Nobody reads the body, and it does not keep the end of the connection from being seen."""
    path = "/api/v1/namespaces/default/secrets?watch=1"
    head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n"
    with server.raw(head.encode() + b"x" * 500_000):
        server.soon(lambda: server.watchers("secrets") == 1)
    server.soon(lambda: server.watchers("secrets") == 0)


def lines_of(client: socket.socket) -> Iterator[Obj]:
    """The events of a watch, as the client comes to read them."""
    with client.makefile("rb") as file:
        while file.readline().strip():
            pass
        rest = b""
        while size := int(file.readline(), 16):
            *lines, rest = (rest + file.read(size)).split(b"\n")
            file.readline()
            yield from map(json.loads, lines)


def objects_of(client: socket.socket, count: int, accept: str) -> list[Obj]:
    """So many events of a watch: what they are about."""
    response = http.client.HTTPResponse(client)
    response.begin()
    stream, found = b"", list[Obj]()
    while len(found) < count:
        part = response.read1(1 << 20)
        assert part, "the watch has ended"
        stream += part
        if accept == PROTOBUF:
            while len(stream) >= 4 and len(stream) >= (end := 4 + int.from_bytes(stream[:4], "big")):
                found += (obj for _, obj in frames(stream[:end]))
                stream = stream[end:]
        else:
            *lines, stream = stream.split(b"\n")
            found += (json.loads(line)["object"] for line in lines)
    return found


@pytest.mark.parametrize("accept", [PROTOBUF, TABLE, "application/json"], ids=["protobuf", "table", "json"])
def test_large_and_small_events_come_in_order(server: Server, accept: str) -> None:
    """Large ones are put into their form apart from the loop, small ones on it."""
    now = server.ask("GET", f"{CONFIG_MAPS}?limit=1").obj["metadata"]["resourceVersion"]
    values = ["1", LARGE + "2", "3", LARGE + "4", LARGE + "5", "6", "7"]
    with server.raw(asking(f"{CONFIG_MAPS}?watch=1&resourceVersion={now}&includeObject=Object", accept)) as client:
        server.soon(lambda: server.watchers() == 1)
        for value in values:
            changed(server, "m02", value)
        events = objects_of(client, len(values), accept)
    objects = [event["rows"][0]["object"] if accept == TABLE else event for event in events]
    assert [obj["data"]["x"] for obj in objects] == values
    if accept == TABLE:
        assert [bool(event["columnDefinitions"]) for event in events] == [True] + [False] * (len(values) - 1)
    changed(server, "m02", LARGE)


def test_who_reads_late_is_told_everything_in_order(server: Server) -> None:
    """What happens while the beginning is being read comes after it."""
    with server.raw(asking(f"{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                           "&allowWatchBookmarks=true")) as client:  # fmt: skip
        server.soon(lambda: server.watchers() == 1)
        for value in ("1", "2"):
            changed(server, "m00", value)
        created(server, "late", "1")
        events = lines_of(client)
        first = [next(events) for _ in range(COUNT + 1)]
        assert [event["type"] for event in first] == ["ADDED"] * COUNT + ["BOOKMARK"]
        assert first[0]["object"]["data"]["x"] == LARGE
        then = [next(events) for _ in range(3)]
        assert [
            (event["type"], event["object"]["metadata"]["name"], event["object"]["data"]["x"]) for event in then
        ] == [
            ("MODIFIED", "m00", "1"),
            ("MODIFIED", "m00", "2"),
            ("ADDED", "late", "1"),
        ]
        server.ask("DELETE", f"{CONFIG_MAPS}/late")
        assert next(events)["type"] == "DELETED"
    changed(server, "m00", LARGE)


@pytest.mark.parametrize("query", ["watch=1", "watch=1&resourceVersion={now}"], ids=["in its beginning", "later"])
def test_who_does_not_read_its_events_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    monkeypatch.setattr(streams, "MAX_BACKLOG_BYTES", 2 << 20)
    now = server.ask("GET", f"{CONFIG_MAPS}?limit=1").obj["metadata"]["resourceVersion"]
    with server.raw(asking(f"{CONFIG_MAPS}?{query.format(now=now)}")):
        server.soon(lambda: server.watchers() == 1)
        for number in range(60):
            changed(server, "m01", f"{number}{LARGE}")
            if not server.watchers():
                break
        server.soon(lambda: server.watchers() == 0)
    changed(server, "m01", LARGE)


def test_a_connection_that_takes_nothing_for_long_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "STALL_SECONDS", 0.05)
    with server.raw(asking(f"{CONFIG_MAPS}?watch=1")) as client:
        server.soon(lambda: server.watchers() == 1)
        server.soon(lambda: server.watchers() == 0)
        with client.makefile("rb") as file:
            assert 0 < len(file.read()) < COUNT * len(LARGE)


def test_an_object_that_cannot_be_shown_breaks_an_answer_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{CONFIG_MAPS}?includeObject=Object"
    monkeypatch.setattr(Presenter, "_beside_cells", lambda self, obj: {} if obj["metadata"]["name"] < "m20" else 1 // 0)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1)
    with Complaints() as complaints, server.raw(asking(path, TABLE)) as client, client.makefile("rb") as file:
        received = file.read()
        assert received.startswith(b"HTTP/1.1 200") and not received.endswith(b"0\r\n\r\n")
    assert "ZeroDivisionError" in complaints.texts[0]


FORMS = ["application/json", TABLE, PARTIAL, "application/yaml", PROTOBUF, f"{TABLE},application/yaml"]
PATHS = [
    CONFIG_MAPS,
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/secrets",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/discovery.k8s.io/v1/endpointslices",
]


@pytest.mark.parametrize(
    ("accept", "pretty"),
    [(form, pretty) for form in FORMS for pretty in ("", "?pretty=true") if not pretty or form != "application/yaml"],
)
@pytest.mark.parametrize("path", each_time([CONFIG_MAPS, "/api/v1/namespaces"], PATHS))
def test_an_answer_in_pieces_says_the_same(
    server: Server, monkeypatch: pytest.MonkeyPatch, path: str, accept: str, pretty: str
) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}
    server.ask("POST", "/api/v1/namespaces/default/events", event)

    def body_in_pieces(piece_bytes: int) -> tuple[int, bytes]:
        monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
        monkeypatch.setattr(answers, "PIECE_BYTES", piece_bytes)
        reply = server.ask("GET", path + pretty, headers={"accept": accept})
        return reply.code, reply.body

    server.soon(
        lambda: body_in_pieces(50) == body_in_pieces(1 << 30)
    )  # a second may begin between the two, and tables tell ages
    whole = body_in_pieces(50)
    if accept in ("application/yaml", PROTOBUF):
        shown = read(server.ask("GET", path, headers={"accept": accept}))["items"] or []
        assert without_kind(shown) == without_kind(server.ask("GET", path).obj["items"])
    elif pretty:
        assert whole[1] == json.dumps(json.loads(whole[1]), indent=2).encode()
