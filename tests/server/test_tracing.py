"""Traces of requests, as a collector receives them that speaks OTLP (issue 16)."""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from fairlead.api.strict import ConfigurationError
from fairlead.client.kubeconfig import load as load_kubeconfig
from fairlead.client.tls import tls_of
from fairlead.server.http.tracing_configuration import TracingSettings, load
from tests.processes import Up, fairlead_up

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@dataclass
class Collector:
    """Takes what is exported, and has it by the names of the spans."""

    port: int
    spans: list[Any] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def of(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def steps_of(self, parent: Any) -> list[str]:
        steps = [span for span in self.spans if span.parent_span_id == parent.span_id]
        return [span.name for span in sorted(steps, key=lambda span: span.start_time_unix_nano)]


def attributes(held: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value or str(pair.value.int_value) for pair in held.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.paths.add(self.path)
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                found.resources.append(attributes(group.resource))
                found.spans.extend(span for scope in group.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def configuration(folder: Path, endpoint: str, rate: int, more: Mapping[str, Any] = MappingProxyType({})) -> Path:
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "TracingConfiguration",
        "endpoint": endpoint,
        "samplingRatePerMillion": rate,
    }
    path = folder / "tracing.yaml"
    path.write_text(json.dumps({**document, **more}))
    return path


def ask(up: Up, method: str, path: str, body: Any = None, **headers: str) -> int:
    """A request as the administrator; the code of the answer."""
    access = load_kubeconfig(up.kubeconfig)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{access.server}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, context=tls_of(access)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TRACED = {"traceparent": f"00-{TRACE}-{PARENT}-01", "content-type": "application/json"}


def test_a_request_and_its_steps_reach_the_collector(collector: Collector, tmp_path: Path) -> None:
    file = configuration(tmp_path, f"127.0.0.1:{collector.port}", 0)  # of itself the server traces nothing
    with fairlead_up(tmp_path / "data", "--components", "api,controllers", "--tracing-config-file", str(file)) as up:
        assert ask(up, "GET", "/version") == 200
        assert ask(up, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}}, **TRACED) == 201
        assert ask(up, "GET", f"{CONFIG_MAPS}/none", **TRACED) == 404
    assert collector.paths == {"/v1/traces"}
    assert {resource["service.name"] for resource in collector.resources} == {"apiserver"}
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    [created] = collector.of("POST /api/v1/namespaces/{:namespace}/configmaps")
    assert created.parent_span_id.hex() == PARENT
    told = attributes(created)
    assert (told["http.request.method"], told["url.path"], told["http.response.status_code"]) == (
        "POST",
        CONFIG_MAPS,
        "201",
    )
    assert told["audit-id"]
    steps = ["authorization", "priority and fairness", "admission: mutating", "admission: validating", "store: create"]
    assert collector.steps_of(created) == steps
    inner = [span for span in collector.spans if span.parent_span_id == created.span_id]
    assert all(created.start_time_unix_nano <= span.start_time_unix_nano for span in inner)
    assert all(span.end_time_unix_nano <= created.end_time_unix_nano for span in inner)
    [missing] = collector.of("GET /api/v1/namespaces/{:namespace}/configmaps/{:name}")
    assert attributes(missing)["http.response.status_code"] == "404"


def test_a_part_of_the_requests_is_traced_by_chance_and_strangers_decide_nothing(
    collector: Collector, tmp_path: Path
) -> None:
    file = configuration(tmp_path, f"http://127.0.0.1:{collector.port}", 1_000_000)
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("s3cret,jane,jane\n")
    options = ("--components", "api", "--tracing-config-file", str(file), "--token-auth-file", str(tokens))
    with fairlead_up(tmp_path / "data", *options) as up:
        assert ask(up, "GET", "/version", authorization="Bearer s3cret", **TRACED) == 200
        assert ask(up, "GET", CONFIG_MAPS, authorization="Bearer s3cret") == 403
    [version, refused] = [span for span in collector.spans if not span.parent_span_id]
    assert version.trace_id.hex() != TRACE
    assert [link.trace_id.hex() for link in version.links] == [TRACE]
    assert refused.name == "GET /api/v1/namespaces/{:namespace}/configmaps"
    assert attributes(refused)["http.response.status_code"] == "403"


def test_a_server_without_a_collector_serves_and_stops(tmp_path: Path) -> None:
    file = configuration(tmp_path, "127.0.0.1:9", 1_000_000)
    with fairlead_up(tmp_path / "data", "--components", "api", "--tracing-config-file", str(file)) as up:
        assert ask(up, "GET", CONFIG_MAPS) == 200


def test_what_the_file_says(tmp_path: Path) -> None:
    assert load(configuration(tmp_path, "collector:4318", 500_000)) == TracingSettings(
        "http://collector:4318/v1/traces", 0.5
    )
    assert load(configuration(tmp_path, "https://collector/own/path", 1)).url == "https://collector/own/path"
    path = configuration(tmp_path, "", 0)
    path.write_text("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n")
    assert load(path) == TracingSettings("http://localhost:4318/v1/traces", 0)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"samplingRatePerMillion": -1}, "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive"),
        ({"samplingRatePerMillion": 1_000_001}, "must be less than or equal to one million"),
        ({"endpoint": "ftp://x"}, "endpoint: Invalid value"),
        ({"endpoint": "host:port"}, "endpoint: Invalid value"),
        ({"kind": "Other"}, 'no kind "Other" is registered for version "apiserver.config.k8s.io/v1"'),
        ({"sampling": 1}, 'strict decoding error: unknown field "sampling"'),
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(configuration(tmp_path, "collector:4318", 1, wrong))
    assert text in str(refused.value)


def test_without_the_library_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)  # as if it were not there
    with pytest.raises(ValueError, match=r"pip install 'fairlead\[tracing\]'"):
        load(configuration(tmp_path, "collector:4318", 1))
