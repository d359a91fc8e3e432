"""The listener as a citizen of HTTP: connections, watches, limits, methods, credentials."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
from collections.abc import Iterator
from itertools import count
from typing import Any, BinaryIO

import pytest
import yaml

from fairlead.runtime.http.listener import Limits
from fairlead.runtime.http.protocol import Patience
from fairlead.server.http.negotiate import MAX_CLAUSES
from tests.server.http_world import (
    CONFIG_MAPS,
    JSON,
    TOKEN,
    Reply,
    Server,
    answer_on,
    check_status,
    serving_in_a_thread,
    uncomplaining,
)

_NUMBERS = count()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    with uncomplaining():
        yield running


def fresh() -> str:
    return f"c{next(_NUMBERS)}"


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of a request, with a body of the right length."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def config(name: str) -> bytes:
    return json.dumps({"metadata": {"name": name}}).encode()


def test_a_deletion_with_dependents_that_is_not_complete_is_accepted(server: Server) -> None:
    name, merge = fresh(), {"content-type": "application/merge-patch+json"}
    path = f"{CONFIG_MAPS}/{name}"
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name, "finalizers": ["example.com/wait"]}})
    assert server.ask("DELETE", path).code == 200
    for _ in range(2):  # marked, and marked already
        reply = server.ask("DELETE", path, {"orphanDependents": False})
        assert (reply.code, reply.obj["metadata"]["name"]) == (202, name)
    assert server.ask("DELETE", f"{path}?orphanDependents=false").code == 202
    assert server.ask("PATCH", path, {"metadata": {"finalizers": None}}, merge).code == 200
    assert server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}}).code == 201
    assert server.ask("DELETE", path, {"orphanDependents": False}).code == 200


# -- forms

METADATA = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
METADATA_LIST = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
TABLE = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


def test_a_list_is_no_object_and_an_object_no_list(server: Server) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    for path, kind in ((CONFIG_MAPS, "core.ConfigMap"), (roles, "rbac.Role")):
        server.ask("POST", path, {"metadata": {"name": "m"}})
        message = check_status(server.ask("GET", path, headers=METADATA), 406, "NotAcceptable")
        assert message == f"you requested PartialObjectMetadata, but the requested object is a list (*{kind}List)"
        message = check_status(server.ask("GET", f"{path}/m", headers=METADATA_LIST), 406, "NotAcceptable")
        assert message == f"you requested PartialObjectMetadataList, but the requested object is not a list (*{kind})"
        assert server.ask("GET", f"{path}/m", headers=METADATA).obj["metadata"]["name"] == "m"
        assert server.ask("DELETE", f"{path}/m", headers=METADATA_LIST).code == 200  # a Status stays what it is


def test_a_list_of_nothing_is_null_where_go_has_made_no_list(server: Server) -> None:
    none = "?labelSelector=none%3Dx"
    assert server.ask("GET", f"{CONFIG_MAPS}{none}", headers=METADATA_LIST).obj["items"] is None
    assert server.ask("GET", f"{CONFIG_MAPS}{none}", headers=TABLE).obj["rows"] == []
    limits = "/api/v1/namespaces/default/limitranges"
    assert server.ask("GET", f"{limits}{none}", headers=TABLE).obj["rows"] is None
    assert server.ask("GET", f"{limits}{none}").obj["items"] == []


def test_a_row_without_its_object_says_so(server: Server) -> None:
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": fresh()}})
    rows = server.ask("GET", f"{CONFIG_MAPS}?includeObject=None", headers=TABLE).obj["rows"]
    assert rows
    assert all(row["object"] is None for row in rows)


# -- connections


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    names = [fresh() for _ in range(5)]
    sent = b"".join(request("POST", CONFIG_MAPS, body=config(name)) for name in names)
    sent += b"".join(request("GET", f"{CONFIG_MAPS}/{name}") for name in reversed(names))
    with server.raw(sent) as sock:
        file = sock.makefile("rb")
        seen = [_next_answer(file) for _ in range(10)]
    assert [reply.code for reply in seen] == [201] * 5 + [200] * 5
    assert [reply.obj["metadata"]["name"] for reply in seen] == names + names[::-1]


def _next_answer(file: BinaryIO) -> Reply:
    """An answer with a length, from a stream that holds more behind it."""
    code, headers = int(file.readline().split()[1]), {}
    while line := file.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return Reply(code, headers, file.read(int(headers["content-length"])))


def test_a_request_in_small_pieces_is_one_request(server: Server) -> None:
    name = fresh()
    sent = request("POST", CONFIG_MAPS, body=config(name))
    with server.raw(b"") as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), 7):
            sock.sendall(sent[start : start + 7])
        assert answer_on(sock).obj["metadata"]["name"] == name


def test_a_chunked_body_is_one_body(server: Server) -> None:
    name = fresh()
    body = config(name)
    head = request("POST", CONFIG_MAPS, "Content-Type: application/json", "Transfer-Encoding: chunked")
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, body[at : at + 1]) for at in range(len(body))) + b"0\r\n\r\n"
    with server.raw(head + chunks) as sock:
        assert answer_on(sock).code == 201


def test_a_client_that_waits_for_100_continue_gets_it(server: Server) -> None:
    body = config(fresh())
    head = request("POST", CONFIG_MAPS, "Expect: 100-continue", body=body).removesuffix(body)
    with server.raw(head) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 100 Continue")
        sock.sendall(body)
        assert answer_on(sock).code == 201


def test_an_unknown_caller_is_not_asked_for_the_body(server: Server) -> None:
    head = request("POST", CONFIG_MAPS, "Expect: 100-continue", "Content-Length: 99")
    with server.raw(head, server.guarded_port) as sock:
        check_status(answer_on(sock), 401, "Unauthorized")


def test_a_body_that_is_cut_off_leaves_no_object_behind(server: Server) -> None:
    name = fresh()
    sent = request("POST", CONFIG_MAPS, body=config(name))
    with server.raw(sent[:-5]):
        pass
    assert server.ask("GET", f"{CONFIG_MAPS}/{name}").code == 404


def test_a_client_that_says_it_is_done_harms_nobody(server: Server) -> None:
    for sent in (request("GET", CONFIG_MAPS), request("GET", CONFIG_MAPS)[:20], b""):
        with server.raw(sent) as sock:
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
    assert server.ask("GET", CONFIG_MAPS).code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"BREW /api/v1/pods HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/v1/pods HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n",
        b"POST /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_http_is_a_400_or_the_end(server: Server, sent: bytes) -> None:
    with server.raw(sent) as sock:
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while data := sock.recv(65536):
            answer += data
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 405", b"HTTP/1.1 404"))
    assert server.ask("GET", "/livez").code == 200


# -- methods


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("HEAD", CONFIG_MAPS),
        ("HEAD", f"{CONFIG_MAPS}?watch=1"),
        ("OPTIONS", CONFIG_MAPS),
        ("TRACE", CONFIG_MAPS),
        ("PUT", CONFIG_MAPS),
        ("PATCH", CONFIG_MAPS),
        ("POST", f"{CONFIG_MAPS}/x"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/configmaps"),
        ("POST", "/api/v1"),
        ("DELETE", "/apis/apps/v1"),
        ("GET", "/api/v1/namespaces/default/bindings"),
        ("DELETE", "/api/v1/namespaces/default/pods/x/status"),
    ],
)
def test_a_method_that_an_endpoint_does_not_know_is_a_405(server: Server, method: str, path: str) -> None:
    reply = server.ask(method, path)
    if method == "HEAD":
        assert (reply.code, reply.body) == (405, b"")
    else:
        check_status(reply, 405, "MethodNotAllowed")


def test_head_of_a_document_is_its_headers(server: Server) -> None:
    got, asked = server.ask("GET", "/healthz"), server.ask("HEAD", "/healthz")
    assert (asked.code, asked.body) == (200, b"")
    assert asked.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nonsense",
        "/api/v1/namespaces/default/nonsense",
        "/api/v1/namespaces/default/pods/x/nonsense",
        "/api/v1/namespaces/default/pods/x/status/more",
        "/api/v1/configmaps/x",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/nodes/x",
        "/apis/apps/v1/pods",
    ],
)
def test_a_path_that_a_builtin_group_does_not_have_is_a_status(server: Server, path: str) -> None:
    message = check_status(server.ask("GET", path), 404, "NotFound")
    assert message == "the server could not find the requested resource"


@pytest.mark.parametrize(
    "path",
    ["/nonsense", "/apis/example.com/v1/things", "/apis/example.com", "/api/v2", "/api/v2/pods", "/apis/a/b/c/d"],
)
def test_a_path_of_nobody_is_a_404_in_plain_text(server: Server, path: str) -> None:
    reply = server.ask("GET", path)
    assert (reply.code, reply.body) == (404, b"404 page not found\n")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert server.ask(method, path, headers={}).code == 404


# -- JSON as Go writes it


PRETTY = b'{\n  "kind": "ConfigMapList",\n  "apiVersion": "v1",\n  "metadata": {\n'


@pytest.mark.parametrize(
    ("query", "agent", "is_pretty"),
    [
        ("", "kubectl/v1.36.0", False),
        ("", "curl/8.5.0", True),
        ("", "Wget/1.21", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("?pretty=true", "kubectl/v1.36.0", True),
        ("?pretty=1", "", True),
        ("?pretty=false", "curl/8.5.0", False),
        ("?pretty=nonsense", "curl/8.5.0", False),
        ("?pretty=", "curl/8.5.0", True),
    ],
)
def test_people_get_their_json_indented(server: Server, query: str, agent: str, is_pretty: bool) -> None:
    name = fresh()
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/{name}", f"{CONFIG_MAPS}/nothing", "/api", "/apis/apps/v1"):
        body = server.ask("GET", path + query, headers={"user-agent": agent}).body
        as_go = json.dumps(
            json.loads(body), indent=2 if is_pretty else None, separators=(",", ": " if is_pretty else ":")
        )
        assert body.decode() == (as_go if is_pretty else as_go + "\n")
    assert server.ask("GET", CONFIG_MAPS + query, headers={"user-agent": agent}).body.startswith(PRETTY) == is_pretty


def test_a_media_type_can_ask_for_indented_json(server: Server) -> None:
    assert server.ask("GET", CONFIG_MAPS, headers={"accept": "application/json;pretty=1"}).body.startswith(PRETTY)


@pytest.mark.parametrize("form", [{}, METADATA_LIST, TABLE])
def test_an_answer_in_json_is_a_line(server: Server, form: dict[str, str]) -> None:
    reply = server.ask("GET", CONFIG_MAPS, headers=form)
    assert reply.body.count(b"\n") == 1
    assert reply.body.endswith(b"}\n")
    assert int(reply.headers["content-length"]) == len(reply.body)


def test_the_version_is_always_written_for_people(server: Server) -> None:
    for path in ("/version", "/"):
        body = server.ask("GET", path).body.decode()
        assert body == json.dumps(json.loads(body), indent=2)


def test_a_curl_without_credentials_can_read_why(server: Server) -> None:
    reply = server.ask("GET", "/api", headers={"user-agent": "curl/8.5.0"}, port=server.guarded_port)
    assert reply.body.startswith(b'{\n  "kind": "Status",\n')


# -- health


_ALWAYS = "[+]ping ok\n[+]log ok\n[+]etcd ok\n"
_BEGUN = "".join(
    f"[+]{name} ok\n"
    for name in (
        "poststarthook/start-apiserver-admission-initializer",
        "poststarthook/generic-apiserver-start-informers",
        "poststarthook/priority-and-fairness-config-consumer",
        "poststarthook/priority-and-fairness-filter",
        "poststarthook/start-apiextensions-informers",
        "poststarthook/start-apiextensions-controllers",
        "poststarthook/crd-informer-synced",
        "poststarthook/start-system-namespaces-controller",
        "poststarthook/start-cluster-authentication-info-controller",
        "poststarthook/start-kube-apiserver-identity-lease-controller",
        "poststarthook/start-service-ip-repair-controllers",
        "poststarthook/rbac/bootstrap-roles",
        "poststarthook/scheduling/bootstrap-system-priority-classes",
        "poststarthook/priority-and-fairness-config-producer",
        "poststarthook/bootstrap-controller",
        "poststarthook/start-kubernetes-service-cidr-controller",
        "poststarthook/start-kube-aggregator-informers",
        "poststarthook/apiservice-status-local-available-controller",
        "poststarthook/apiservice-status-remote-available-controller",
        "poststarthook/apiservice-registration-controller",
        "poststarthook/apiservice-discovery-controller",
        "poststarthook/kube-apiserver-autoregistration",
        "autoregister-completion",
        "poststarthook/apiservice-openapi-controller",
        "poststarthook/apiservice-openapiv3-controller",
    )
)


def test_health_lists_its_checks(server: Server) -> None:
    assert server.ask("GET", "/livez?verbose").body.decode() == f"{_ALWAYS}{_BEGUN}livez check passed\n"
    assert server.ask("GET", "/healthz?verbose=1").body.decode() == f"{_ALWAYS}{_BEGUN}healthz check passed\n"
    assert server.ask("GET", "/readyz?verbose").body.decode() == (
        f"{_ALWAYS}[+]etcd-readiness ok\n[+]informer-sync ok\n{_BEGUN}[+]shutdown ok\nreadyz check passed\n"
    )
    checks = ("/readyz/ping", "/livez/etcd", "/healthz/log", "/readyz/shutdown")
    for path in ("/livez", "/readyz/", *checks, "/readyz/etcd-readiness", "/livez/poststarthook/rbac/bootstrap-roles"):
        reply = server.ask("GET", path)
        assert (reply.code, reply.body) == (200, b"ok")
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert server.ask("GET", "/livez/shutdown").code == 404
    assert server.ask("GET", "/readyz/nonsense").body == b"404 page not found\n"


def test_checks_can_be_left_out(server: Server) -> None:
    assert server.ask("GET", "/livez?verbose&exclude=etcd&exclude=a&exclude=b").body.decode() == (
        f"[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n{_BEGUN}"
        'warn: some health checks cannot be excluded: no matches for "a","b"\nlivez check passed\n'
    )


def test_who_is_not_ready_says_what_is_missing(server: Server) -> None:
    server.progress.is_ready = False
    try:
        reply = server.ask("GET", "/readyz")
        assert (reply.code, reply.body.decode()) == (
            500,
            f"{_ALWAYS}[+]etcd-readiness ok\n[-]informer-sync failed: reason withheld\n{_BEGUN}[+]shutdown ok\n"
            "readyz check failed\n",
        )
        assert server.ask("GET", "/readyz?exclude=informer-sync").body == b"ok"
        assert server.ask("GET", "/livez").body == b"ok"
        reply = server.ask("GET", "/readyz/informer-sync")
        assert (reply.code, reply.body[:23]) == (500, b"internal server error: ")
    finally:
        server.progress.is_ready = True


# -- watches


def test_a_watch_is_released_when_its_client_goes_away(server: Server) -> None:
    server.soon(lambda: server.watchers() == 0)
    with server.raw(request("GET", f"{CONFIG_MAPS}?watch=1")):
        server.soon(lambda: server.watchers() == 1)
    server.soon(lambda: server.watchers() == 0)


def test_a_client_that_goes_away_while_events_come_harms_nobody(server: Server) -> None:
    server.soon(lambda: server.watchers() == 0)
    socks = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for sock in socks:
        sock.sendall(request("GET", f"{CONFIG_MAPS}?watch=1"))
    server.soon(lambda: server.watchers() == 20)
    for number, sock in enumerate(socks):
        if number % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # an abrupt reset
        sock.close()
        assert server.ask("POST", CONFIG_MAPS, {"metadata": {"name": fresh()}}).code == 201
    server.soon(lambda: server.watchers() == 0)


def test_a_connection_can_be_used_again_after_its_watch_is_over(server: Server) -> None:
    connection = server.connection()
    reply = server.ask("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1", on=connection)
    assert reply.code == 200
    assert all(json.loads(line)["type"] == "ADDED" for line in reply.body.splitlines())
    assert server.ask("GET", "/livez", on=connection).code == 200
    connection.close()


def test_events_arrive_as_they_happen_one_a_line(server: Server) -> None:
    name = fresh()
    selector = f"fieldSelector=metadata.name%3D{name}"
    connection = server.connection()
    connection.request("GET", f"{CONFIG_MAPS}?watch=1&{selector}")
    stream = connection.getresponse()
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    first = json.loads(stream.readline())
    server.ask("PATCH", f"{CONFIG_MAPS}/{name}", {"data": {"k": "v"}}, {"content-type": "application/merge-patch+json"})
    second = json.loads(stream.readline())
    server.ask("DELETE", f"{CONFIG_MAPS}/{name}")
    third = json.loads(stream.readline())
    connection.close()
    assert [event["type"] for event in (first, second, third)] == ["ADDED", "MODIFIED", "DELETED"]
    assert second["object"] == third["object"] | {"metadata": second["object"]["metadata"]}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (first, second, third)]
    assert versions == sorted(set(versions))


def events(reply: Reply) -> list[dict[str, Any]]:
    assert reply.code == 200, reply.body
    return [json.loads(line) for line in reply.body.splitlines()]


@pytest.mark.parametrize("query", ["", "&resourceVersion=0", "&sendInitialEvents=1&resourceVersionMatch=NotOlderThan"])
def test_a_bookmark_ends_what_a_watch_begins_with(server: Server, query: str) -> None:
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": fresh()}})
    watch = f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=1{query}"
    *before, last = events(server.ask("GET", watch))
    assert {event["type"] for event in before} == {"ADDED"}
    assert last == {
        "type": "BOOKMARK",
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {
                "resourceVersion": str(server.registry.revision),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        },
    }


@pytest.mark.parametrize(
    ("plural", "empty"),
    [
        ("pods", {"spec": {"containers": None}, "status": {}}),
        ("services", {"spec": {}, "status": {"loadBalancer": {}}}),
        ("apps/v1/deployments", None),
    ],
)
@pytest.mark.parametrize("form", [{}, METADATA, TABLE])
def test_a_bookmark_of_any_kind_can_be_shown_in_any_form(
    server: Server, plural: str, empty: dict[str, Any] | None, form: dict[str, str]
) -> None:
    group, _, name = plural.rpartition("/")
    path = f"/apis/{group}/namespaces/default/{name}" if group else f"/api/v1/namespaces/default/{name}"
    watch = f"{path}?watch=1&allowWatchBookmarks=1&timeoutSeconds=1&labelSelector=none%3Dx"
    (event,) = events(server.ask("GET", watch, headers=form))
    assert event["type"] == "BOOKMARK"
    if not form and empty is not None:
        shown = event["object"]
        assert {key: value for key, value in shown.items() if key not in ("kind", "apiVersion", "metadata")} == empty


def test_a_watch_from_a_version_begins_with_nothing_so_no_bookmark_ends_it(server: Server) -> None:
    now = server.registry.revision
    watch = f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=1&resourceVersion={now}"
    assert events(server.ask("GET", watch)) == []


@pytest.mark.parametrize(("seconds", "bookmarks"), [(3, 1), (2, 0)])
def test_a_watch_is_told_how_far_it_came_shortly_before_it_ends(server: Server, seconds: int, bookmarks: int) -> None:
    now = server.registry.revision
    watch = f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds={seconds}&resourceVersion={now}"
    assert [event["type"] for event in events(server.ask("GET", watch))] == ["BOOKMARK"] * bookmarks


def test_a_bookmark_is_shown_in_the_form_that_was_asked_for(server: Server) -> None:
    watch = f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=1&labelSelector=none%3Dx"
    (event,) = events(server.ask("GET", watch, headers=METADATA))
    shown = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {
            "resourceVersion": str(server.registry.revision),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }
    assert event == {"type": "BOOKMARK", "object": shown}
    (event,) = events(server.ask("GET", f"{watch}&includeObject=None", headers=TABLE))
    assert event["object"]["kind"] == "Table"
    assert event["object"]["columnDefinitions"]
    assert [row["object"] for row in event["object"]["rows"]] == [shown]


def test_a_watch_tells_its_columns_once(server: Server) -> None:
    for name in (fresh(), fresh()):
        server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    watch = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&includeObject=None"
    first, second, *_ = events(server.ask("GET", watch, headers=TABLE))
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert first["object"]["rows"][0]["object"] is None


def test_there_is_no_watch_in_yaml(server: Server) -> None:
    reply = server.ask("GET", f"{CONFIG_MAPS}?watch=1", headers={"accept": "application/yaml, application/json"})
    assert (reply.code, reply.headers["content-type"]) == (406, "application/yaml")
    assert yaml.safe_load(reply.body)["message"] == (
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )


def test_a_watch_of_one_object_may_select_no_other(server: Server) -> None:
    path = f"/api/v1/watch{CONFIG_MAPS.removeprefix('/api/v1')}/m?timeoutSeconds=1"
    assert events(server.ask("GET", path)) == []
    assert events(server.ask("GET", f"{path}&fieldSelector=metadata.name%3Dm")) == []
    for selector in ("metadata.name%3Db", "metadata.namespace%3Ddefault"):
        message = check_status(server.ask("GET", f"{path}&fieldSelector={selector}"), 400, "BadRequest")
        assert message == "fieldSelector metadata.name doesn't match requested name"


@pytest.mark.parametrize("timeout", ["-5", "-9223372036854775808"])
def test_a_watch_whose_time_is_over_ends_at_once(server: Server, timeout: str) -> None:
    assert server.ask("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds={timeout}").code == 200


@pytest.mark.parametrize("timeout", ["0", "9223372036854775807"])
def test_a_watch_without_a_sensible_end_stays_open(server: Server, timeout: str) -> None:
    server.soon(lambda: server.watchers() == 0)
    with server.raw(request("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds={timeout}")) as sock:
        server.soon(lambda: server.watchers() == 1)
        name = fresh()
        server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}})
        received = b""
        while name.encode() not in received:
            received += (data := sock.recv(65536))
            assert data, "the watch has ended"


def test_a_watch_of_a_forgotten_version_is_told_so_in_the_stream(server: Server) -> None:
    served = server.registry.catalogue.stored("leases.coordination.k8s.io")
    assert served is not None
    served.cache.forget_before(10)
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases?watch=1&resourceVersion=5"
    reply = server.ask("GET", path)
    event = reply.obj
    assert (reply.code, event["type"], event["object"]["code"], event["object"]["reason"]) == (
        200,
        "ERROR",
        410,
        "Expired",
    )


def test_what_a_watch_begins_with_cannot_be_of_the_future(server: Server) -> None:
    """Three seconds later it is an event, as whatever else is wrong once the options are understood."""
    future = server.registry.revision + 1000
    begin = f"{CONFIG_MAPS}?watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&resourceVersion={future}"
    (event,) = events(server.ask("GET", f"{begin}&timeoutSeconds=9"))
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (504, "Timeout")
    assert event["object"]["message"].startswith(f"Timeout: Too large resource version: {future}, current: ")


# -- sizes


def test_a_body_of_three_mebibytes_is_taken_and_one_byte_more_is_not(server: Server) -> None:
    body = b'{"metadata":{"name":"%b"}}' % fresh().encode()
    full = body + b" " * ((3 << 20) - len(body))
    assert server.ask("POST", CONFIG_MAPS, full).code == 201
    message = check_status(server.ask("POST", CONFIG_MAPS, full + b" "), 413, "RequestEntityTooLarge")
    assert message == "Request entity too large: limit is 3145728"


def test_a_connection_survives_a_body_that_is_far_too_large(server: Server) -> None:
    connection = server.connection()
    check_status(server.ask("POST", CONFIG_MAPS, b" " * (8 << 20), on=connection), 413, "RequestEntityTooLarge")
    assert server.ask("GET", "/livez", on=connection).code == 200
    connection.close()


def test_many_and_long_warnings_do_not_burst_the_headers(server: Server) -> None:
    body = {"metadata": {"name": fresh()}} | {f"field{number}" + "x" * 1000: 1 for number in range(50)}
    reply = server.ask("POST", CONFIG_MAPS, body)
    assert reply.code == 201
    assert reply.warnings
    assert sum(map(len, reply.warnings)) < 6000


def test_a_warning_cannot_smuggle_a_header(server: Server) -> None:
    body = {"metadata": {"name": fresh()}, "a\r\nx-evil: 1": 1}
    reply = server.ask("POST", CONFIG_MAPS, body)
    assert reply.code == 201
    assert "x-evil" not in reply.headers


def test_a_compressed_body_is_refused_like_any_other_nonsense(server: Server) -> None:
    headers = JSON | {"content-encoding": "gzip"}
    check_status(server.ask("POST", CONFIG_MAPS, gzip.compress(config(fresh())), headers), 400, "BadRequest")


# -- compressed answers


def test_a_large_answer_is_compressed_for_who_asks(server: Server) -> None:
    for _ in range(20):
        body = {
            "metadata": {"name": fresh(), "labels": {"size": "large"}},
            "data": {"text": "all work and no play " * 5000},
        }
        server.ask("POST", CONFIG_MAPS, body)
    path = f"{CONFIG_MAPS}?labelSelector=size%3Dlarge"
    plain = server.ask("GET", path)
    assert "content-encoding" not in plain.headers
    for accept in ("gzip", "deflate, gzip", "br,gzip "):
        reply = server.ask("GET", path, headers={"accept-encoding": accept})
        assert (reply.headers["content-encoding"], reply.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert gzip.decompress(reply.body) == plain.body
        assert len(reply.body) < len(plain.body) / 10
    for accept in ("identity", "deflate", "gzip;q=0", "x-gzip"):  # kube-apiserver reads no weights
        assert server.ask("GET", path, headers={"accept-encoding": accept}).body == plain.body
    yaml_reply = server.ask("GET", path, headers={"accept-encoding": "gzip", "accept": "application/yaml"})
    assert len(yaml.safe_load(gzip.decompress(yaml_reply.body))["items"]) == 20
    one = server.ask("GET", f"{path}&limit=1", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in one.headers  # 105 KB


def test_a_large_document_is_compressed(server: Server) -> None:
    reply = server.ask("GET", "/openapi/v2", headers={"accept-encoding": "gzip"})
    assert reply.headers["content-encoding"] == "gzip"
    whole = gzip.decompress(reply.body)
    assert json.loads(whole)["swagger"] == "2.0"
    head = server.ask("HEAD", "/openapi/v2", headers={"accept-encoding": "gzip"})
    assert head.headers["content-length"] == str(len(whole))


# -- credentials


MANY_TYPES = "*," * 8000 + "a," * 8000 + "*/*"


@pytest.mark.parametrize("accept", ["", "application/yaml", "nonsense", MANY_TYPES])
def test_a_stranger_gets_json_whatever_it_accepts(server: Server, accept: str) -> None:
    reply = server.ask("GET", CONFIG_MAPS, headers={"accept": accept}, port=server.guarded_port)
    check_status(reply, 401, "Unauthorized")
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/%zz", f"{CONFIG_MAPS}?timeout=nonsense", f"{CONFIG_MAPS}?watch=%zz&limit=x"])
def test_a_stranger_learns_nothing_of_how_its_request_was_read(server: Server, path: str) -> None:
    check_status(server.ask("GET", path, port=server.guarded_port), 401, "Unauthorized")


def test_of_many_media_types_the_first_are_looked_at(server: Server) -> None:
    def code(accept: str) -> int:
        return server.ask("GET", CONFIG_MAPS, headers={"accept": accept}).code

    assert code("a/b," * (MAX_CLAUSES - 1) + "application/json") == 200
    assert code("a/b," * MAX_CLAUSES + "application/json") == 406
    assert code("*," * 8000 + "a," * 8000 + "*/*") == 406


def test_a_query_has_no_more_parameters_than_anybody_needs(server: Server) -> None:
    assert server.ask("GET", f"{CONFIG_MAPS}?{'&'.join('a' * 1000)}").code == 200
    check_status(server.ask("GET", f"{CONFIG_MAPS}?{'&'.join('a' * 1001)}"), 400, "BadRequest")


TWICE = [f"Authorization: Bearer {TOKEN}", "Authorization: Bearer wrong"]


@pytest.mark.parametrize("headers", [TWICE, TWICE[::-1], TWICE[:1] * 2])
def test_who_shows_two_credentials_shows_none(server: Server, headers: list[str]) -> None:
    with server.raw(request("GET", CONFIG_MAPS, *headers), server.guarded_port) as sock:
        check_status(answer_on(sock), 401, "Unauthorized")


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ("Host: localhost\r\nHost: localhost\r\n", b"400 Bad Request: too many Host headers"),
        ("Host: localhost\r\nHost: evil.example\r\n", b"400 Bad Request: too many Host headers"),
        ("", b"400 Bad Request: missing required Host header"),
    ],
)
def test_a_request_names_one_host(server: Server, hosts: str, text: bytes) -> None:
    for port in (server.port, server.guarded_port):
        with server.raw(f"GET {CONFIG_MAPS} HTTP/1.1\r\n{hosts}\r\n".encode(), port) as sock:
            reply = answer_on(sock)
            assert (reply.code, reply.body, reply.headers["connection"]) == (400, text, "close")
            assert sock.recv(1) == b""


def test_of_any_other_header_the_first_counts(server: Server) -> None:
    with server.raw(request("GET", CONFIG_MAPS, "Accept: application/yaml", "Accept: application/json")) as sock:
        assert answer_on(sock).headers["content-type"] == "application/yaml"


@pytest.mark.parametrize(
    "shown",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer \xff\xfe",
    ],
)
@pytest.mark.parametrize("path", [CONFIG_MAPS, "/api", "/version", "/nonsense", "/healthz", f"{CONFIG_MAPS}?watch=1"])
def test_who_shows_no_valid_token_gets_a_401_and_nothing_else(server: Server, shown: str | None, path: str) -> None:
    before = server.registry.revision
    headers = JSON if shown is None else JSON | {"authorization": shown}
    for method in ("GET", "POST", "DELETE"):
        reply = server.ask(method, path, b'{"metadata":{"name":"x"}}', headers, server.guarded_port)
        assert check_status(reply, 401, "Unauthorized") == "Unauthorized"
        assert "details" not in reply.obj
    assert server.registry.revision == before


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_lets_in(server: Server, scheme: str) -> None:
    headers = {"authorization": f"{scheme} {TOKEN}"}
    assert server.ask("GET", CONFIG_MAPS, headers=headers, port=server.guarded_port).code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "127.0.0.1:8080"}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "evil.example"}, 401),
        ({"Host": "localhost:80", "Origin": "http://localhost:80"}, 200),
        ({"Host": "localhost:80", "Origin": "http://localhost:80", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "localhost:80", "Sec-Fetch-Site": "none"}, 200),
        ({"Host": "localhost:80", "Origin": "http://localhost:3000"}, 401),
        ({"Host": "localhost:80", "Origin": "http://127.0.0.1:80"}, 401),
        ({"Host": "localhost:80", "Origin": "https://localhost:80"}, 401),
        ({"Host": "localhost:80", "Origin": "null"}, 401),
        ({"Host": "localhost:80", "Sec-Fetch-Site": "same-site"}, 401),
        ({"Host": "localhost:80", "Sec-Fetch-Site": "cross-site"}, 401),
        ({"Host": "localhost", "Origin": "http://evil.example"}, 401),
    ],
)
def test_the_plain_listener_answers_no_web_page(server: Server, headers: dict[str, str], code: int) -> None:
    """A browser on this machine runs the scripts of strangers; DNS rebinding makes them come from any name."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    body = config(fresh())
    for method, path, content in (("GET", CONFIG_MAPS, b""), ("POST", CONFIG_MAPS, body)):
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(f"{method} {path} HTTP/1.1\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            assert int(raw.recv(12)[9:]) == (201 if content and code == 200 else code)


def test_no_other_page_of_this_machine_can_post_without_a_content_type(server: Server) -> None:
    """What a browser may send to anybody without asking first."""
    before = server.registry.revision
    for content_type in ([], ["Content-Type: text/plain"], ["Content-Type: application/x-www-form-urlencoded"]):
        sent = request("POST", CONFIG_MAPS, "Origin: http://localhost:3000", *content_type, "Content-Length: 2") + b"{}"
        with server.raw(sent) as sock:
            check_status(answer_on(sock), 401, "Unauthorized")
    assert server.registry.revision == before


def test_a_delete_whose_body_never_came_deletes_nothing(server: Server) -> None:
    """What the client meant may have been a dry run, or another object."""
    made = server.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "stays"}})
    assert made.code == 201
    for path in ("/configmaps/stays", "/configmaps"):
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(
                f"DELETE /api/v1/namespaces/default{path} HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Type: application/json\r\nContent-Length: 40\r\n\r\n".encode()
            )
    assert server.ask("GET", "/api/v1/namespaces/default/configmaps/stays").code == 200


def test_a_head_without_end_is_cut_off(server: Server) -> None:
    """Nobody has shown a credential yet: what is kept of a request must be bounded."""
    with socket.create_connection(("127.0.0.1", server.port)) as raw, contextlib.suppress(ConnectionError):
        raw.sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        for _ in range(64):
            raw.sendall(b"x" * 65536)
        assert raw.recv(12) in (b"HTTP/1.1 431", b"")


# -- clients that take their time


@pytest.fixture(scope="module")
def impatient() -> Iterator[Server]:
    patience = Patience(head=0.2, body=0.2, idle=0.2)
    with serving_in_a_thread(Limits(patience, connections=8, strangers=4, stranger_seconds=0.0)) as server:
        yield server


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", request("POST", CONFIG_MAPS, "Content-Length: 9"), request("GET", "/livez")]
)
def test_a_client_that_has_had_its_time_is_left(impatient: Server, sent: bytes) -> None:
    """Half a head, half a body, nothing, or nothing more."""
    for port in (impatient.port, impatient.guarded_port):
        with impatient.raw(sent, port) as sock:
            while sock.recv(65536):
                pass


def test_a_body_that_does_not_come_in_time_is_a_504(server: Server) -> None:
    head = request("POST", f"{CONFIG_MAPS}?timeout=1ms", "Content-Type: application/json", "Content-Length: 99")
    with server.raw(head + b"{") as sock:
        message = check_status(reply := answer_on(sock), 504, "Timeout")
        assert message == "Timeout: request did not complete within the allotted timeout"
        assert reply.headers["connection"] == "close"
        assert sock.recv(1) == b""


def test_strangers_cannot_keep_others_out(impatient: Server) -> None:
    """They have so many places, and where another waits for one who has been there longest goes."""
    port = impatient.guarded_port
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    for sock in socks:
        sock.sendall(b"GET / HT")
    assert impatient.ask("GET", "/livez", headers={"authorization": f"Bearer {TOKEN}"}, port=port).code == 200
    for sock in socks:
        with contextlib.suppress(ConnectionError):
            assert sock.recv(1) == b""
        sock.close()


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"kind": "Pod"}, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        ({"kind": "Nonsense"}, 'no kind "Nonsense" is registered for version "v1" in scheme '),
        ({"apiVersion": "v2"}, 'no kind "ConfigMap" is registered for version "v2" in scheme '),
        (
            {"apiVersion": "apps/v1", "kind": "Deployment"},
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
    ],
)
def test_no_patch_makes_an_object_of_another_kind(server: Server, patch: dict[str, str], why: str) -> None:
    name = fresh()
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}})
    operations = [{"op": "replace", "path": f"/{key}", "value": value} for key, value in patch.items()]
    for body, form in ((patch, "merge-patch"), (operations, "json-patch")):
        reply = server.ask("PATCH", f"{CONFIG_MAPS}/{name}", body, {"content-type": f"application/{form}+json"})
        check_status(reply, 422, "Invalid")
        assert reply.obj["message"].startswith(' "" is invalid: patch: Invalid value: "{')
        assert why in reply.obj["message"]
    strategic = {"content-type": "application/strategic-merge-patch+json"}
    assert server.ask("PATCH", f"{CONFIG_MAPS}/{name}", patch, strategic).obj["kind"] == "ConfigMap"
    nothing = {"kind": None, "apiVersion": ""}
    merge = {"content-type": "application/merge-patch+json"}
    assert server.ask("PATCH", f"{CONFIG_MAPS}/{name}", nothing, merge).code == 200


def test_a_review_has_no_rows(server: Server) -> None:
    """What is answered and never stored cannot be shown as a Table."""
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    check_status(server.ask("POST", path, review, JSON | TABLE), 406, "NotAcceptable")
    either = {"accept": f"{TABLE['accept']}, application/json"}
    assert server.ask("POST", path, review, JSON | either).obj["kind"] == "SelfSubjectAccessReview"
