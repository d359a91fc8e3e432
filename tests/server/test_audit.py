"""The audit log: what a policy wants told of requests is in the file, in Kubernetes' form (issue 16)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.runtime.log_lines import TextLines
from fairlead.server.audit import policy_file
from fairlead.server.audit.auditor import AuditSettings
from tests.server.http_world import CONFIG_MAPS, JSON, TOKEN, Reply, Server

SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: [quiet]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: RequestResponse
  omitStages: [RequestReceived]
  omitManagedFields: true
  resources:
  - group: ""
    resources: [configmaps]
    resourceNames: [bare]
- level: RequestResponse
  omitStages: [RequestReceived]
  resources:
  - group: ""
    resources: [configmaps]
- level: Request
  verbs: [patch, delete]
  resources:
  - group: ""
    resources: [namespaces, "pods/*"]
- level: Metadata
"""


class World:
    """A server that writes an audit log, and the log."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "logs" / "audit.log"
        self.server = Server(audit=AuditSettings(policy_file.parse(POLICY.encode()), str(self.log)))

    def events(self, audit_id: str, until: str = "ResponseComplete") -> list[dict[str, Any]]:
        """What the log has of that request, once it has that stage."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [event for event in self.everything() if event["auditID"] == audit_id]
            return until in [event["stage"] for event in found]

        self.server.soon(is_there)
        return found

    def everything(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def ask(self, *args: Any, **kwargs: Any) -> tuple[Reply, dict[str, Any]]:
        """The answer, and the last event of the request."""
        reply = self.server.ask(*args, **kwargs)
        return reply, self.events(reply.headers["audit-id"])[-1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("audit"))
    found.server.start()
    yield found
    found.server.stop()


def without_times(event: dict[str, Any]) -> dict[str, Any]:
    times = (event.pop("requestReceivedTimestamp"), event.pop("stageTimestamp"))
    assert all(len(time) == len("2026-11-24T04:00:00.000000Z") and time.endswith("Z") for time in times)
    assert times[0] <= times[1]
    return event


def test_a_request_is_told_when_it_comes_and_when_it_is_answered(world: World) -> None:
    headers = {"user-agent": "somebody/1", "x-forwarded-for": "10.1.2.3, nonsense, ::1", "x-real-ip": "10.9.9.9"}
    reply = world.server.ask("GET", f"{SECRETS}?limit=5", headers=headers)
    received, complete = world.events(reply.headers["audit-id"])
    told = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": reply.headers["audit-id"],
        "stage": "RequestReceived",
        "requestURI": f"{SECRETS}?limit=5",
        "verb": "list",
        "user": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["10.1.2.3", "::1", "10.9.9.9", "127.0.0.1"],
        "userAgent": "somebody/1",
        "objectRef": {"resource": "secrets", "namespace": "default", "apiVersion": "v1"},
    }
    assert received["requestReceivedTimestamp"] == received["stageTimestamp"]
    assert without_times(received) == told
    assert without_times(complete) == told | {
        "stage": "ResponseComplete",
        "responseStatus": {"metadata": {}, "code": 200},
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }


def test_a_client_may_name_its_request_itself(world: World) -> None:
    reply, event = world.ask("GET", SECRETS, headers={"Audit-ID": "mine"})
    assert (reply.headers["audit-id"], event["auditID"]) == ("mine", "mine")
    reply, event = world.ask("GET", SECRETS, headers={"Audit-ID": "x" * 5000, "user-agent": "y" * 5000})
    assert reply.headers["audit-id"] == event["auditID"] == "x" * 1024
    assert event["userAgent"] == "y" * 1024 + "...TRUNCATED"


def test_what_is_written_is_told_only_where_the_policy_says_so(world: World) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"password": "open-sesame"}}
    reply, event = world.ask("POST", SECRETS, body)
    assert (reply.code, event["responseStatus"]["code"]) == (201, 201)
    assert event["objectRef"]["name"] == "s"  # which only the body says
    world.ask("GET", f"{SECRETS}/s")
    world.ask("PATCH", f"{SECRETS}/s", {"data": {"a": "b3Blbg=="}}, {"content-type": "application/merge-patch+json"})
    text = world.log.read_text()
    assert "open-sesame" not in text and "b3Blbg==" not in text


def test_objects_are_told_as_they_were_read_and_answered(world: World) -> None:
    reply, event = world.ask("POST", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "<v>"}})
    assert event["level"] == "RequestResponse"
    assert event["requestObject"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "c"},
        "data": {"k": "<v>"},
    }
    assert event["responseObject"] == reply.obj
    assert "RequestReceived" not in [event["stage"] for event in world.events(reply.headers["audit-id"])]

    yaml = {"accept": "application/yaml"}
    _, event = world.ask("GET", f"{CONFIG_MAPS}/c", headers=yaml)
    assert event["responseObject"] == reply.obj
    reply, event = world.ask("GET", f"{CONFIG_MAPS}?pretty=1")
    assert event["responseObject"] == reply.obj
    for path in (f"{CONFIG_MAPS}/c", CONFIG_MAPS):
        _, event = world.ask("GET", path, headers={"accept": "application/vnd.kubernetes.protobuf"})
        assert event["responseObject"]["kind"] in ("ConfigMap", "ConfigMapList")
    table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    reply, event = world.ask("GET", CONFIG_MAPS, headers=table)
    assert event["responseObject"] == reply.obj and reply.obj["kind"] == "Table"


def test_managed_fields_can_be_left_out(world: World) -> None:
    reply, event = world.ask("PUT", f"{CONFIG_MAPS}/bare", {"metadata": {"name": "bare", "managedFields": []}})
    assert reply.code == 404
    world.ask("POST", CONFIG_MAPS, {"metadata": {"name": "bare"}, "data": {"a": "b"}})
    reply, event = world.ask("GET", f"{CONFIG_MAPS}/bare")
    assert "managedFields" in reply.obj["metadata"]
    assert "managedFields" not in event["responseObject"]["metadata"]
    assert event["responseObject"]["metadata"]["uid"] == reply.obj["metadata"]["uid"]


def test_patches_and_options_of_deletions_are_what_was_sent(world: World) -> None:
    space = "/api/v1/namespaces/told"
    world.server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "told"}})
    merge, operations = (
        {"metadata": {"labels": {"a": "b"}}},
        [{"op": "add", "path": "/metadata/labels/c", "value": "d"}],
    )
    _, event = world.ask("PATCH", space, merge, {"content-type": "application/merge-patch+json"})
    assert (event["requestObject"], "responseObject" in event) == (merge, False)
    _, event = world.ask("PATCH", space, operations, {"content-type": "application/json-patch+json"})
    assert event["requestObject"] == operations
    applied = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: told}\n"
    _, event = world.ask("PATCH", f"{space}?fieldManager=m", applied, {"content-type": "application/apply-patch+yaml"})
    assert event["requestObject"]["metadata"] == {"name": "told"}
    _, event = world.ask("DELETE", space, {"propagationPolicy": "Background"})
    assert event["requestObject"]["kind"] == "DeleteOptions"
    assert event["requestObject"]["propagationPolicy"] == "Background"


def test_refusals_are_told_with_their_reason(world: World) -> None:
    reply, event = world.ask("GET", f"{SECRETS}/none")
    status = {key: value for key, value in reply.obj.items() if key not in ("kind", "apiVersion")}
    assert event["responseStatus"] == status
    _, event = world.ask("GET", f"{CONFIG_MAPS}/none")
    assert event["responseObject"]["reason"] == "NotFound"
    _, event = world.ask("DELETE", f"{SECRETS}/none2")
    assert event["responseStatus"]["code"] == 404


def test_a_finished_deletion_is_told_as_a_success(world: World) -> None:
    world.server.ask("POST", SECRETS, {"metadata": {"name": "gone"}})
    reply, event = world.ask("DELETE", f"{SECRETS}/gone")
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Success",
        "details": reply.obj["details"],
        "code": 200,
    }


def test_authorization_says_why(world: World) -> None:
    reply, event = world.ask(
        "GET", SECRETS, headers={"impersonate-user": "jane", "impersonate-extra-acme.com%2fwhy": "test"}
    )
    assert reply.code == 403
    assert event["user"]["username"] == "system:admin"
    assert event["impersonatedUser"] == {
        "username": "jane",
        "groups": ["system:authenticated"],
        "extra": {"acme.com/why": ["test"]},
    }
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert event["annotations"] == {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""}
    reply, event = world.ask("GET", "/apis", headers={"impersonate-user": "jane"})
    assert event["annotations"]["authorization.k8s.io/reason"] == (
        'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery"'
        ' to Group "system:authenticated"'
    )
    assert (event["verb"], "objectRef" in event) == ("get", False)


def test_who_is_not_let_in_is_told_once(world: World) -> None:
    port = world.server.guarded_port
    reply = world.server.ask("GET", SECRETS, headers={"authorization": "Bearer stolen"}, port=port)
    (event,) = world.events(reply.headers["audit-id"], "ResponseStarted")
    assert (reply.code, event["user"], event["verb"]) == (401, {}, "list")
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    world.server.ask("GET", SECRETS, headers={"authorization": f"Bearer {TOKEN}"}, port=port)
    text = world.log.read_text()
    assert "stolen" not in text and TOKEN not in text


def test_a_watch_is_told_when_it_begins_and_when_it_ends(world: World) -> None:
    reply = world.server.ask("GET", f"{PODS}?watch=1&timeoutSeconds=1")
    events = world.events(reply.headers["audit-id"])
    assert [event["stage"] for event in events] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert {event["verb"] for event in events} == {"watch"}
    assert [event.get("responseStatus") for event in events] == [None, *[{"metadata": {}, "code": 200}] * 2]
    assert "apiserver.latency.k8s.io/total" in events[-1]["annotations"]
    reply = world.server.ask("GET", f"{PODS}?watch=1&labelSelector=((")
    events = world.events(reply.headers["audit-id"])
    assert [event.get("responseStatus", {}).get("code") for event in events] == [None, 400, 400]


def test_what_the_policy_leaves_out_is_not_told(world: World) -> None:
    quiet = [
        world.server.ask("GET", "/healthz/ping"),
        world.server.ask("GET", "/version"),
    ]
    _, last = world.ask("GET", SECRETS)
    ids = {event["auditID"] for event in world.everything()}
    assert last["auditID"] in ids
    assert ids.isdisjoint(reply.headers["audit-id"] for reply in quiet)


def test_a_client_that_goes_away_in_the_middle_is_told(world: World) -> None:
    head = f"POST {SECRETS} HTTP/1.1\r\nhost: localhost\r\naudit-id: half\r\ncontent-length: 100\r\n\r\n{{".encode()
    with world.server.raw(head):
        world.events("half", "RequestReceived")
    event = world.events("half")[-1]
    assert (event["responseStatus"]["code"], event["responseStatus"]["message"]) == (500, "unexpected EOF")


def test_a_request_that_breaks_the_server_is_told_as_a_panic(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(world.server.registry, "get", broken)
    reply = world.server.ask("GET", f"{SECRETS}/s")
    received, panic = world.events(reply.headers["audit-id"], "Panic")
    assert (reply.code, received["stage"]) == (500, "RequestReceived")
    assert panic["responseStatus"]["message"] == "APIServer panic'd: RuntimeError"
    (record,) = [record for record in caplog.records if "RuntimeError" in (record.exc_text or "")]
    line = f'E {record.name}: GET {SECRETS}/s audit-ID="{reply.headers["audit-id"]}"'
    assert TextLines().format(record).splitlines()[0] == line


def test_lines_stay_lines_whatever_is_sent(world: World) -> None:
    odd = {"user-agent": 'a"b\\c\u00ff', "audit-id": 'odd"\\id', **JSON}
    body = json.dumps({"metadata": {"name": "odd"}, "data": {"k": "a\nb\u2028"}}, indent=3).encode()
    _, event = world.ask("POST", CONFIG_MAPS, body, headers=odd)
    assert event["requestObject"]["data"] == {"k": "a\nb\u2028"}
    assert event["userAgent"].startswith('a"b\\c')
    assert all(event["kind"] == "Event" for event in world.everything())


def test_a_large_answer_leaves_the_log(world: World) -> None:
    for number in range(11):
        world.server.ask("POST", CONFIG_MAPS, {"metadata": {"name": f"large-{number}"}, "data": {"x": "x" * 1_000_000}})
    reply, event = world.ask("GET", CONFIG_MAPS)
    assert len(reply.body) > 11_000_000
    assert "responseObject" not in event
    assert event["annotations"]["audit.k8s.io/truncated"] == "true"


def test_only_the_owner_may_read_the_log(world: World) -> None:
    world.ask("GET", SECRETS)
    assert (world.log.stat().st_mode & 0o777, world.log.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_pod_security_tells_what_it_decided(world: World) -> None:
    labels = {"enforce": "baseline", "audit": "restricted", "audit-version": "v1.30"}
    named = {f"pod-security.kubernetes.io/{mode}": value for mode, value in labels.items()}
    world.server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "safe", "labels": named}})

    def told(kind: str, spec: Any) -> tuple[int, dict[str, str]]:
        group = "/api/v1" if kind == "pods" else "/apis/apps/v1"
        reply, event = world.ask("POST", f"{group}/namespaces/safe/{kind}", {"metadata": {"name": "p"}, "spec": spec})
        annotations = event["annotations"].items()
        start = "pod-security.kubernetes.io/"
        return reply.code, {key.removeprefix(start): value for key, value in annotations if key.startswith(start)}

    pod = {"containers": [{"name": "c", "image": "i"}]}
    code, annotations = told("pods", pod)
    assert (code, annotations["enforce-policy"]) == (201, "baseline:latest")
    assert annotations["audit-violations"].startswith(
        'would violate PodSecurity "restricted:v1.30": allowPrivilegeEscalation != false (container "c" must set'
    )
    code, annotations = told("pods", pod | {"hostNetwork": True})
    assert (code, annotations["enforce-policy"]) == (403, "baseline:latest")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    code, annotations = told("deployments", {"selector": {"matchLabels": {"a": "b"}}, "template": template})
    assert (code, list(annotations)) == (201, ["audit-violations"])


def test_the_id_of_a_token_is_told_and_not_the_token(world: World) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    world.server.ask("POST", accounts, {"metadata": {"name": "bot"}})
    reply, event = world.ask("POST", f"{accounts}/bot/token", {})
    assert (reply.code, event["objectRef"]["subresource"]) == (201, "token")
    assert event["annotations"]["authentication.kubernetes.io/issued-credential-id"].startswith("JTI=")
    assert reply.obj["status"]["token"] not in world.log.read_text()


def test_the_use_of_a_deprecated_kind_is_told(world: World) -> None:
    _, event = world.ask("GET", "/api/v1/namespaces/default/endpoints")
    assert event["annotations"]["k8s.io/deprecated"] == "true"


def test_what_is_told_is_counted(world: World) -> None:
    world.ask("GET", SECRETS)
    there = len(world.everything())
    reply = world.server.ask("GET", "/metrics")
    samples = dict(line.rsplit(" ", 1) for line in reply.body.decode().splitlines() if line[0] != "#")
    assert float(samples["apiserver_audit_event_total"]) >= there > 0
    assert float(samples['apiserver_audit_level_total{level="Metadata"}']) > 0
    assert "apiserver_audit_error_total" not in " ".join(samples)
