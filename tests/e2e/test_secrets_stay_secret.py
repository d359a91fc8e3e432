"""What is secret is in no log, event, error, metric or audit line below the level `Request` (issue 16)."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.kubeconfig import load
from fairlead.client.tls import tls_of
from tests.e2e.helpers.clusters import cluster_of, node
from tests.processes import Up

#: Planted in objects, and as a token that is wrong.
PASSWORD, WRONG_TOKEN = "correct-horse-battery", "w1th-this-nobody-comes-in"
SECRETS = "/api/v1/namespaces/default/secrets"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


@dataclass
class Client:
    """Asks as the administrator, and keeps the text of every refusal."""

    up: Up
    refusals: list[str] = field(default_factory=list)

    def ask(
        self, method: str, path: str, body: Any = None, type_: str = "application/json", token: str = ""
    ) -> dict[str, Any]:
        access = load(self.up.kubeconfig)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": type_} | ({"authorization": f"Bearer {token}"} if token else {})
        request = urllib.request.Request(f"{access.server}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=tls_of(access)) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except urllib.error.HTTPError as error:
            self.refusals.append(error.read().decode())
            return {}

    def text(self, path: str) -> str:
        access = load(self.up.kubeconfig)
        with urllib.request.urlopen(f"{access.server}{path}", context=tls_of(access)) as answer:
            return str(answer.read().decode())


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[tuple[Client, Path]]:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    options = ("--audit-policy-file", str(policy), "--audit-log-path", str(log), "--logging-format", "json")
    with cluster_of(tmp_path, node("node-1"), options=options) as up:
        yield Client(up), log


def secret(name: str, **fields: Any) -> dict[str, Any]:
    data = {"password": base64.b64encode(PASSWORD.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data, **fields}


def trouble(client: Client) -> list[str]:
    """Everything that one can do wrong with what is secret; the tokens that were made."""
    ask = client.ask
    made = ask("POST", SECRETS, secret("s"))
    ask("POST", SECRETS, secret("s"))
    ask("PUT", f"{SECRETS}/s", secret("s") | {"metadata": {"name": "s", "resourceVersion": "1"}})
    ask("PATCH", f"{SECRETS}/s", {"type": "Other", "stringData": {"more": PASSWORD}}, MERGE)
    ask("PATCH", f"{SECRETS}/s", {"immutable": True}, MERGE)
    ask("PATCH", f"{SECRETS}/s", {"stringData": {"password": f"{PASSWORD}2"}}, MERGE)
    ask("PATCH", f"{SECRETS}/applied?fieldManager=one", secret("applied"), APPLY)
    other = secret("applied") | {"data": {"password": base64.b64encode(f"{PASSWORD}3".encode()).decode()}}
    ask("PATCH", f"{SECRETS}/applied?fieldManager=two", other, APPLY)
    ask("POST", SECRETS, secret("wrong-key") | {"stringData": {"a key": PASSWORD}})
    ask("POST", SECRETS, secret("wrong-type", type="kubernetes.io/tls", stringData={"tls.key": PASSWORD}))
    ask("POST", SECRETS, secret("wrong-docker", type="kubernetes.io/dockerconfigjson") | {"stringData": {}})
    docker = {".dockerconfigjson": PASSWORD}
    ask("POST", SECRETS, secret("no-json", type="kubernetes.io/dockerconfigjson", stringData=docker))
    ask("POST", SECRETS, secret("no-base64") | {"data": {"password": f"{PASSWORD}!"}})
    ask("POST", SECRETS, b'{"metadata": {"name": "cut"}, "stringData": {"password": "%b"' % PASSWORD.encode())
    env = [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "none"}}}]
    container = {"name": "c", "image": "nginx", "env": env}
    volume = {"name": "v", "secret": {"secretName": "s"}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], "volumes": [volume]}}
    ask("POST", "/api/v1/namespaces/default/pods", pod)
    ask("GET", SECRETS, token=WRONG_TOKEN)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": WRONG_TOKEN}}
    ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", request)["status"]["token"]
    ask("GET", SECRETS, token=token)
    assert made["data"]["password"] == base64.b64encode(PASSWORD.encode()).decode()
    ask("DELETE", f"{SECRETS}/s")
    return [str(token)]


def test_nothing_that_is_secret_is_told(audited: tuple[Client, Path]) -> None:
    client, log = audited
    tokens = trouble(client)
    assert len(client.refusals) >= 12
    told = {
        "events": client.text("/api/v1/events") + client.text("/apis/events.k8s.io/v1/events"),
        "metrics": client.text("/metrics"),
        "errors": "\n".join(client.refusals),
    }
    client.up.process.terminate()  # what the logs still hold is written
    client.up.process.wait(30)
    told["audit"] = log.read_text()
    told["log"] = client.up.data_dir.with_name(f"{client.up.data_dir.name}.log").read_text()
    assert '"secrets"' in told["audit"]
    [admin] = client.up.data_dir.rglob("admin.token")
    secrets = [PASSWORD, base64.b64encode(PASSWORD.encode()).decode().rstrip("="), WRONG_TOKEN]
    secrets += [admin.read_text().strip(), *tokens]
    secrets += [token.rpartition(".")[2] for token in tokens]  # the signature alone
    leaks = {(where, secret) for where, text in told.items() for secret in secrets if secret in text}
    assert leaks == set()
