"""Audit events are sent to a service over real HTTPS, beside requests or before they go on (issue 16)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.client.kubeconfig import Access, render
from fairlead.runtime.clock import monotonic
from fairlead.server.audit import auditor, policy_file
from fairlead.server.audit import webhook as webhook_module
from fairlead.server.audit.auditor import AuditSettings
from fairlead.server.audit.event import Stage
from fairlead.server.audit.truncation import Truncation
from fairlead.server.audit.webhook import AuditWebhook, AuditWebhookSettings, Mode
from fairlead.server.metrics.audit import AuditMetrics
from tests.server.audit_world import a_request
from tests.server.http_world import CONFIG_MAPS, JSON, SECONDS, Reply, Server, check_status
from tests.server.https_services import HttpsServer

POLICY = b"""
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  nonResourceURLs: ["/metrics"]
- level: RequestResponse
"""
#: Whoever waits for a batch that is not full would wait for ever.
LONG = 3600.0


class Collector(HttpsServer):
    """Takes lists of events; answers with `code`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._respond)
        self.lists: list[Obj] = []
        self.code = 200
        self.kubeconfig = folder / "audit.kubeconfig"
        self.kubeconfig.write_text(render(Access(f"{self.url}/audit", self.ca.encode(), token="from-fairlead")))

    def _respond(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        assert (method, path) == ("POST", "/audit")
        if self.code == 200:
            self.lists.append(json.loads(body))
        return self.code, b""

    def events(self) -> list[Obj]:
        return [event for found in self.lists for event in found["items"]]

    def stages(self, audit_id: str) -> list[str]:
        return [event["stage"] for event in self.events() if event["auditID"] == audit_id]


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    made = Collector(tmp_path)
    with made.serving():
        yield made


@contextmanager
def auditing(
    collector: Collector, path: str = "", of_log: Truncation | None = None, **webhook: Any
) -> Iterator[Server]:
    settings = AuditWebhookSettings(collector.kubeconfig, **webhook)
    server = Server(audit=AuditSettings(policy_file.parse(POLICY), path, webhook=settings, truncation=of_log))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def create(server: Server, name: str) -> Reply:
    return server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": "v"}})


def metric(server: Server, name: str) -> float:
    text = server.ask("GET", "/metrics").body.decode()
    found = [line for line in text.splitlines() if line.startswith(name)]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def test_a_full_batch_is_sent_at_once_as_a_list(collector: Collector, tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    with auditing(collector, str(log), most_at_once=4, most_wait_seconds=LONG) as server:
        ids = [create(server, name).headers["audit-id"] for name in ("a", "b")]
        server.soon(lambda: bool(collector.lists))
        (found,) = collector.lists
        assert collector.headers["Authorization"] == "Bearer from-fairlead"
        assert (found["kind"], found["apiVersion"], found["metadata"]) == ("EventList", "audit.k8s.io/v1", {})
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert [event | {"kind": "Event", "apiVersion": "audit.k8s.io/v1"} for event in found["items"]] == lines
        assert [event["auditID"] for event in found["items"]] == [ids[0], ids[0], ids[1], ids[1]]
        assert [event["stage"] for event in found["items"][:2]] == ["RequestReceived", "ResponseComplete"]
        assert "kind" not in found["items"][0] and found["items"][1]["responseObject"]["kind"] == "ConfigMap"


def test_each_receiver_is_told_what_is_not_too_large_for_it(collector: Collector, tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    of_webhook = Truncation(most_of_event=2_000)
    with auditing(
        collector, str(log), Truncation(most_of_event=8_000), mode=Mode.BLOCKING_STRICT, truncation=of_webhook
    ) as server:

        def written(audit_id: str, stages: int) -> list[Obj]:
            found: list[Obj] = []

            def is_there() -> bool:
                lines = [json.loads(line) for line in log.read_text().splitlines()]
                found[:] = [event for event in lines if event["auditID"] == audit_id]
                return len(found) == stages

            server.soon(is_there)
            return found

        small = create(server, "a").headers["audit-id"]
        body = {"metadata": {"name": "b"}, "data": {"k": "v" * 3_000}}
        large = server.ask("POST", CONFIG_MAPS, body).headers["audit-id"]
        _, told = [event for event in collector.events() if event["auditID"] == small]
        assert told["responseObject"] == written(small, 2)[-1]["responseObject"]
        _, told = [event for event in collector.events() if event["auditID"] == large]
        assert told["annotations"]["audit.k8s.io/truncated"] == "true"
        assert not {"requestObject", "responseObject"} & told.keys() and told["responseStatus"]["code"] == 201
        kept = written(large, 2)[-1]
        assert kept["requestObject"]["data"] == body["data"] and "audit.k8s.io/truncated" not in kept["annotations"]

        reply = server.ask("GET", f"{CONFIG_MAPS}/b?pretty={'x' * 3_000}")  # too large without objects
        assert reply.code == 200
        assert len(written(reply.headers["audit-id"], 2)) == 2
        assert not collector.stages(reply.headers["audit-id"])
        assert metric(server, 'apiserver_audit_error_total{plugin="truncate"}') == 2


def test_a_batch_is_not_larger_than_it_may_be(collector: Collector) -> None:
    truncation = Truncation(most_of_batch=3_000, most_of_event=3_000)
    with auditing(collector, most_wait_seconds=LONG, throttle=None, truncation=truncation) as server:
        for name in "abcdef":
            create(server, name)
        server.soon(lambda: len(collector.lists) > 1)
        assert all(len(json.dumps(found["items"], separators=(",", ":"))) <= 3_000 for found in collector.lists)


def test_a_batch_that_does_not_fill_is_sent_after_a_while(collector: Collector) -> None:
    with auditing(collector, most_wait_seconds=0.05) as server:
        id_ = create(server, "a").headers["audit-id"]
        server.soon(lambda: collector.stages(id_) == ["RequestReceived", "ResponseComplete"])


def test_without_a_wait_nothing_is_done_while_nothing_comes(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--audit-webhook-batch-max-wait 0s` had the server look again at every turn of its loop."""
    looks = 0

    def counting() -> float:
        nonlocal looks
        looks += 1
        return monotonic()

    monkeypatch.setattr(webhook_module, "monotonic", counting)

    async def run() -> None:
        webhook = AuditWebhook(AuditWebhookSettings(collector.kubeconfig, most_wait_seconds=0.0, throttle=None))
        try:
            for _ in range(100):
                await asyncio.sleep(0)
            assert looks < 10
            webhook.take([(b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a"}', None)])
        finally:
            await webhook.close()

    asyncio.run(run())
    assert [event["auditID"] for event in collector.events()] == ["a"]


def test_a_stop_sends_what_there_is(collector: Collector) -> None:
    with auditing(collector, most_wait_seconds=LONG) as server:
        id_ = create(server, "a").headers["audit-id"]
        assert collector.lists == []
    assert collector.stages(id_) == ["RequestReceived", "ResponseComplete"]


def test_a_batch_that_is_refused_is_sent_again(collector: Collector) -> None:
    collector.code = 404
    with auditing(collector, most_wait_seconds=0.01, initial_backoff_seconds=0.01) as server:
        id_ = create(server, "a").headers["audit-id"]
        server.soon(lambda: collector.asked["/audit"] >= 1)
        collector.code = 200
        server.soon(lambda: len(collector.stages(id_)) >= 1)
        collector.code = 503
        before = metric(server, 'apiserver_audit_error_total{plugin="webhook"}')
        create(server, "b")
        server.soon(lambda: metric(server, 'apiserver_audit_error_total{plugin="webhook"}') > before)


def test_nobody_waits_for_a_service_that_stands_still_and_what_there_is_no_room_for_is_counted(
    collector: Collector,
) -> None:
    silent = threading.Event()
    collector.before = lambda: silent.wait(SECONDS)
    try:
        with auditing(collector, most_at_once=2, most_waiting=6) as server:
            for number in range(6):
                assert create(server, f"a{number}").code == 201
            server.soon(lambda: metric(server, 'apiserver_audit_error_total{plugin="buffered"}') == 6)
            assert metric(server, "apiserver_audit_event_total") == 12
            silent.set()
            server.soon(lambda: len(collector.events()) == 6)
            id_ = create(server, "later").headers["audit-id"]
            server.soon(lambda: len(collector.stages(id_)) == 2)
    finally:
        silent.set()


@pytest.mark.parametrize("mode", [Mode.BLOCKING, Mode.BLOCKING_STRICT])
def test_requests_wait_until_the_service_is_told(collector: Collector, mode: Mode) -> None:
    with auditing(collector, mode=mode) as server:
        for name in ("a", "b"):
            id_ = create(server, name).headers["audit-id"]
            assert collector.stages(id_) == ["RequestReceived", "ResponseComplete"]
        reply = server.ask("GET", CONFIG_MAPS, headers=JSON, port=server.guarded_port)
        check_status(reply, 401, "Unauthorized")
        assert collector.stages(reply.headers["audit-id"]) == ["ResponseStarted"]
        reply = server.ask("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1")
        stages = collector.stages(reply.headers["audit-id"])
        assert stages[:2] == ["RequestReceived", "ResponseStarted"]


def test_an_event_that_cannot_be_told_loses_no_other_and_keeps_nobody_waiting(collector: Collector) -> None:
    """In a token file that is not UTF-8 there may be names that JSON has not."""

    async def run() -> None:
        webhook = AuditWebhookSettings(collector.kubeconfig, Mode.BLOCKING)
        settings, metrics = AuditSettings(policy_file.parse(POLICY), webhook=webhook), AuditMetrics()
        async with auditor.auditing(settings, metrics) as found:
            assert found is not None
            waiters = [
                found.put((a_request(user=User(name)), Stage.REQUEST_RECEIVED, 0.0), 1)
                for name in ("me", "\udcff", "you")
            ]
            async with asyncio.timeout(SECONDS):
                assert [waiter and await waiter for waiter in waiters] == [True, False, True]

    asyncio.run(run())
    assert {event["user"]["username"] for event in collector.events()} == {"me", "you"}


def test_a_service_that_fails_fails_requests_only_if_it_is_strict(collector: Collector) -> None:
    collector.code = 500
    with auditing(collector, mode=Mode.BLOCKING, initial_backoff_seconds=0.001) as server:
        assert create(server, "a").code == 201
        assert metric(server, 'apiserver_audit_error_total{plugin="webhook"}') == 2
    with auditing(collector, mode=Mode.BLOCKING_STRICT, initial_backoff_seconds=0.001) as server:
        reply = create(server, "a")
        assert (reply.code, reply.body) == (
            500,
            f'Internal Server Error: "{CONFIG_MAPS}": failed to store audit event\n'.encode(),
        )
        assert metric(server, "apiserver_audit_requests_rejected_total") == 1
        collector.code = 200
        assert create(server, "a").code == 201


def test_what_is_complained_of_has_no_password_of_the_url(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kubeconfig = tmp_path / "audit.kubeconfig"
    kubeconfig.write_text(render(Access("https://me:s3@cr:et@127.0.0.1:1/a:b@c", None)))

    async def run() -> None:
        webhook = AuditWebhook(AuditWebhookSettings(kubeconfig, Mode.BLOCKING, initial_backoff_seconds=0.0))
        waiter = asyncio.get_running_loop().create_future()
        webhook.take([(b"{}", waiter)])
        assert not await waiter
        await webhook.close()

    asyncio.run(run())
    assert 'Post "https://me:***@127.0.0.1:1/a:b@c"' in caplog.text
    assert "et@" not in caplog.text
