"""`/metrics` and `/metrics/slis` over HTTP, read as Prometheus reads them (S0-81)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from fairlead.server.metrics.requests import Crowd, note_waits, waiting
from tests.server.http_world import CONFIG_MAPS, TOKEN, Server, serving_in_a_thread

_AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}
_KIND = {"group": "", "version": "v1", "resource": "configmaps", "subresource": "", "component": "apiserver"}
_CREATE = _KIND | {"verb": "POST", "scope": "resource", "dry_run": ""}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as world:
        yield world


def metrics(server: Server, path: str = "/metrics") -> dict[str, Metric]:
    reply = server.ask("GET", path)
    assert reply.code == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {family.name: family for family in text_string_to_metric_families(reply.body.decode())}


def value(server: Server, sample: str, path: str = "/metrics", **labels: str) -> float:
    """Of one series; 0 if there is none yet."""
    found = [
        each.value
        for family in metrics(server, path).values()
        for each in family.samples
        if each.name == sample and each.labels == labels
    ]
    assert len(found) <= 1
    return found[0] if found else 0.0


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


def test_a_request_is_counted_and_its_time_and_size_measured(server: Server) -> None:
    created, failed = _CREATE | {"code": "201"}, _CREATE | {"code": "409"}
    before = value(server, "apiserver_request_total", **created)
    for _ in range(2):
        server.ask("POST", CONFIG_MAPS, config_map("counted"))
    assert value(server, "apiserver_request_total", **created) == before + 1
    assert value(server, "apiserver_request_total", **failed) == 1
    assert value(server, "apiserver_request_duration_seconds_count", **_CREATE) == before + 2
    assert value(server, "apiserver_request_duration_seconds_bucket", le="60", **_CREATE) == before + 2
    without_dry_run = {name: value for name, value in _CREATE.items() if name != "dry_run"}
    assert value(server, "apiserver_request_sli_duration_seconds_count", **without_dry_run) == before + 2

    read = _KIND | {"verb": "GET", "scope": "resource"}
    body = server.ask("GET", f"{CONFIG_MAPS}/counted").body
    assert value(server, "apiserver_response_sizes_sum", **read) == len(body)
    assert value(server, "apiserver_response_sizes_bucket", le="1000", **read) == 1
    listed = _KIND | {"verb": "LIST"}
    for path, scope in ((CONFIG_MAPS, "namespace"), ("/api/v1/configmaps", "cluster")):
        body = server.ask("GET", path).body
        assert value(server, "apiserver_response_sizes_sum", **listed, scope=scope) == len(body)


@pytest.mark.parametrize(
    ("method", "path", "headers", "labels"),
    [
        ("PATCH", "/x", {"content-type": "application/merge-patch+json"}, {"verb": "PATCH"}),
        ("PATCH", "/x?fieldManager=m", {"content-type": "application/apply-patch+yaml"}, {"verb": "APPLY"}),
        ("PUT", "/x", {}, {"verb": "PUT"}),
        ("PUT", "/x?dryRun=All", {}, {"verb": "PUT", "dry_run": "All"}),
        ("PUT", "/x?dryRun=whatever", {}, {"verb": "PUT", "dry_run": "invalid"}),
        ("DELETE", "/x", {}, {"verb": "DELETE"}),
        ("DELETE", "?labelSelector=no%3Done", {}, {"verb": "DELETE", "scope": "namespace"}),
        ("HEAD", "/x", {}, {"verb": "GET"}),
        ("GET", "?watch=1&timeoutSeconds=1", {}, {"verb": "WATCH", "scope": "namespace"}),
    ],
)
def test_verbs_are_called_as_upstream(
    server: Server, method: str, path: str, headers: dict[str, str], labels: dict[str, str]
) -> None:
    wanted = _CREATE | labels
    before = value(server, "apiserver_request_duration_seconds_count", **wanted)
    server.ask(method, f"{CONFIG_MAPS}{path}", {"metadata": {"name": "x"}}, headers)
    assert value(server, "apiserver_request_duration_seconds_count", **wanted) == before + 1


def test_strangers_cannot_make_series(server: Server) -> None:
    def series() -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        return {
            (each.name, tuple(sorted(each.labels.items())))
            for family in metrics(server).values()
            for each in family.samples
        }

    for path in ("/api/v1/nonsense", f"{CONFIG_MAPS}/n", "/livez"):
        server.ask("GET", path)
    server.ask("GET", CONFIG_MAPS, headers={"authorization": "Bearer no"}, port=server.guarded_port)
    server.ask("GET", CONFIG_MAPS, headers={}, port=server.guarded_port)
    server.ask("PROPFIND", CONFIG_MAPS)
    metrics(server)
    before = series()
    for number in range(50):
        server.ask("GET", f"/api/v1/nonsense-{number}")
        server.ask("GET", f"/nonsense-{number}")
        server.ask("GET", f"/livez/{number}")
        server.ask("GET", f"/livez?exclude=c{number}")
        server.ask("GET", f"/apis/g{number}.example.com/v1/things")
        server.ask("GET", f"{CONFIG_MAPS}/n/sub-{number}")
        server.ask("GET", f"/api/v1/namespaces/ns-{number}/configmaps/n")
        server.ask("GET", f"{CONFIG_MAPS}/n", headers={"user-agent": f"agent {number}"})
        server.ask("GET", CONFIG_MAPS, headers={"authorization": f"Bearer {number}"}, port=server.guarded_port)
    for method in ("MKCOL", "REPORT", "SEARCH", "SUBSCRIBE", "LINK"):
        server.ask(method, CONFIG_MAPS)
    assert series() - before == set()


def test_who_comes_in_is_counted(server: Server) -> None:
    def attempts(result: str) -> float:
        # The parser calls every counter so; here it stands alone, as upstream.
        return value(server, "authentication_attempts_total", result=result)

    before = {result: attempts(result) for result in ("failure", "error")}
    guarded = server.guarded_port
    assert server.ask("GET", CONFIG_MAPS, headers={}, port=guarded).code == 401
    assert server.ask("GET", CONFIG_MAPS, headers={"authorization": "Bearer wrong"}, port=guarded).code == 401
    assert server.ask("GET", CONFIG_MAPS, headers=_AUTHORIZED, port=guarded).code == 200
    assert attempts("failure") == before["failure"] + 1
    assert attempts("error") == before["error"] + 1
    assert attempts("success") > 0
    assert value(server, "authenticated_user_requests_total", username="other") > 0

    as_nobody = {"impersonate-user": "nobody"}
    denied = value(server, "authorization_attempts_total", result="no-opinion")
    assert server.ask("GET", "/metrics", headers=as_nobody).code == 403
    assert value(server, "authorization_attempts_total", result="no-opinion") == denied + 1
    as_monitor = as_nobody | {"impersonate-group": "system:monitoring"}
    for path in ("/metrics", "/metrics/slis", "/livez/ping"):
        assert server.ask("GET", path, headers=as_monitor).code == 200
    allowed = {"type": "RBAC", "name": "rbac", "decision": "allowed"}
    assert value(server, "apiserver_authorization_decisions_total", **allowed) >= 3


def test_admission_and_storage_are_measured(server: Server) -> None:
    plugin = {"name": "NamespaceLifecycle", "type": "admit", "operation": "CREATE", "rejected": "false"}
    seconds = "apiserver_admission_controller_admission_duration_seconds_count"
    step = {"type": "admit", "operation": "CREATE", "rejected": "true"}
    stored = {"operation": "create", "group": "", "resource": "configmaps"}
    before = value(server, seconds, **plugin), value(server, "etcd_request_duration_seconds_count", **stored)
    objects = value(server, "apiserver_resource_objects", group="", resource="configmaps")
    rejected = value(server, "apiserver_admission_step_admission_duration_seconds_count", **step)
    assert server.ask("POST", CONFIG_MAPS, config_map("stored")).code == 201
    assert server.ask("POST", "/api/v1/namespaces/none/configmaps", config_map("stored")).code == 404
    assert value(server, seconds, **plugin) == before[0] + 1
    assert value(server, seconds, **plugin | {"rejected": "true"}) >= 1
    assert value(server, "apiserver_admission_step_admission_duration_seconds_count", **step) == rejected + 1
    assert value(server, "etcd_request_duration_seconds_count", **stored) == before[1] + 1
    assert value(server, "apiserver_resource_objects", group="", resource="configmaps") == objects + 1
    assert value(server, "apiserver_storage_objects", resource="configmaps") == objects + 1


def test_watches_are_counted_while_they_last(server: Server) -> None:
    watching = _KIND | {"verb": "WATCH", "scope": "namespace"}
    kind = {"group": "", "version": "v1", "resource": "configmaps"}
    sent = value(server, "apiserver_watch_events_total", **kind)
    connection = server.connection()
    connection.request("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={server.registry.revision}")
    reply = connection.getresponse()
    server.soon(lambda: value(server, "apiserver_longrunning_requests", **watching) == 1)
    server.ask("POST", CONFIG_MAPS, config_map("watched"))
    line = reply.readline()
    assert value(server, "apiserver_watch_events_total", **kind) == sent + 1
    assert value(server, "apiserver_watch_events_sizes_sum", **kind) >= len(line)
    sock: socket.socket = connection.sock
    sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    server.soon(lambda: value(server, "apiserver_longrunning_requests", **watching) == 0)


def test_the_time_that_a_request_waits_for_others_is_noted() -> None:
    async def ask() -> list[float]:
        waits: list[float] = []
        note_waits(waits)

        async def wait() -> None:
            with waiting():
                await asyncio.sleep(0.001)

        await asyncio.gather(wait(), wait())
        return waits

    assert [seconds > 0 for seconds in asyncio.run(ask())] == [True, True]


def test_the_most_at_once_are_told_for_a_second() -> None:
    crowd = Crowd()
    crowd.enter(10.0)
    crowd.enter(10.1)
    crowd.present -= 1
    assert crowd.most(10.5) == 2
    assert crowd.most(11.5) == 2, "in the last second there were"
    assert crowd.most(12.6) == 1, "one of them is still there"
    crowd.present -= 1
    assert crowd.most(20.0) == 0


def test_checks_of_health_are_counted_apart(server: Server) -> None:
    slis = "/metrics/slis"
    labels = {"name": "etcd", "type": "readyz"}
    before = value(server, "kubernetes_healthchecks_total", slis, **labels, status="success")
    assert server.ask("GET", "/readyz").code == 200
    assert value(server, "kubernetes_healthchecks_total", slis, **labels, status="success") == before + 1
    server.progress.is_ready = False
    try:
        assert server.ask("GET", "/readyz").code == 500
        assert value(server, "kubernetes_healthcheck", slis, name="informer-sync", type="readyz") == 0
    finally:
        server.progress.is_ready = True
    assert server.ask("GET", "/readyz").code == 200
    assert value(server, "kubernetes_healthcheck", slis, name="informer-sync", type="readyz") == 1


def test_the_process_and_its_version_are_told(server: Server) -> None:
    found = metrics(server)
    [build] = found["kubernetes_build_info"].samples
    assert (build.labels["major"], build.labels["minor"], build.value) == ("1", "36", 1)
    for name in ("process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"):
        assert found[name].samples[0].value > 0
    assert found["process_start_time_seconds"].samples[0].value > 1e9
    assert found["apiserver_request_total".removesuffix("_total")].type == "counter"
    assert found["apiserver_request_duration_seconds"].type == "histogram"
