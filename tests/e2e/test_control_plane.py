"""What a control plane tells of itself, seen with the real kubectl as an operator looks at it (issue 16)."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

from fairlead.server.registry.legacy_tokens import LAST_USED, NAME
from fairlead.server.registry.server_identity import lease_name
from tests.e2e.helpers.terminal import Terminal
from tests.processes import Up

_TOKEN_SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: bot-token, annotations: {kubernetes.io/service-account.name: bot}}
type: kubernetes.io/service-account-token
"""


def got(terminal: Terminal, what: str) -> Any:
    return json.loads(terminal.output(f"kubectl get {what} -o json"))


def test_the_parts_of_the_control_plane_are_healthy(terminal: Terminal) -> None:
    rows = [line.split() for line in terminal.output("kubectl get componentstatuses").splitlines()]
    assert rows[0] == ["NAME", "STATUS", "MESSAGE", "ERROR"]
    assert sorted(rows[1:]) == [[name, "Healthy", "ok"] for name in ("controller-manager", "etcd-0", "scheduler")]
    assert terminal.output("kubectl get cs scheduler -o name").strip() == "componentstatus/scheduler"
    refused = terminal.run("kubectl get cs etcd-1")
    assert 'componentstatuses "etcd-1" not found' in refused.err


def test_the_server_keeps_a_lease_by_its_name(terminal: Terminal) -> None:
    [lease] = got(terminal, "leases -n kube-system -l apiserver.kubernetes.io/identity=kube-apiserver")["items"]
    assert re.fullmatch("apiserver-[a-z2-7]{26}", lease["metadata"]["name"])
    assert lease["metadata"]["name"] == lease_name(socket.gethostname())
    assert lease["spec"]["leaseDurationSeconds"] == 3600
    assert lease["spec"]["holderIdentity"].startswith(f"{lease['metadata']['name']}_")


def test_a_secret_tells_when_its_token_was_used(terminal: Terminal) -> None:
    since = got(terminal, f"configmap -n kube-system {NAME}")["data"]["since"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", since)
    terminal.output("kubectl create serviceaccount bot")
    terminal.output("kubectl create -f -", _TOKEN_SECRET)
    terminal.output("kubectl wait secret/bot-token --for=jsonpath={.data.token}")
    assert LAST_USED not in got(terminal, "secret bot-token")["metadata"].get("labels", {})
    token = "$(kubectl get secret bot-token -o jsonpath={.data.token} | base64 -d)"
    terminal.output(f"kubectl auth whoami --token={token}")
    label = LAST_USED.replace(".", r"\.").replace("/", r"\/")
    terminal.output(f"kubectl wait secret/bot-token --for=jsonpath='{{.metadata.labels.{label}}}'")
    used = got(terminal, "secret bot-token")["metadata"]["labels"][LAST_USED]
    assert since <= used


def test_the_keys_of_the_issuer_are_where_the_server_can_be_reached(terminal: Terminal, cluster: Up) -> None:
    found = json.loads(terminal.output("kubectl get --raw /.well-known/openid-configuration"))
    server = terminal.output("kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}'").strip()
    assert found["jwks_uri"] == f"{server}/openid/v1/jwks"
    keys = json.loads(terminal.output("kubectl get --raw /openid/v1/jwks"))
    assert [key["use"] for key in keys["keys"]] == ["sig"]


def test_the_service_network_and_its_addresses_are_shown(terminal: Terminal, namespace: str) -> None:
    terminal.output("kubectl wait servicecidr/kubernetes --for=condition=Ready")
    terminal.output("kubectl create service clusterip web --tcp=80 --clusterip=10.0.0.9")
    terminal.output("kubectl wait ipaddress/10.0.0.9 --for=create")
    rows = [line.split()[:2] for line in terminal.output("kubectl get ipaddresses --no-headers").splitlines()]
    assert rows == [["10.0.0.1", "services/default/kubernetes"], ["10.0.0.9", f"services/{namespace}/web"]]


def test_an_operator_compacts_the_history(terminal: Terminal) -> None:
    version = json.loads(terminal.output("kubectl get --raw /api/v1/configmaps"))["metadata"]["resourceVersion"]
    told = json.loads(terminal.output("kubectl create --raw /debug/compact -f /dev/null"))
    assert int(told["compacted"]) >= int(version)
    path = f"'/api/v1/configmaps?watch=1&resourceVersion={int(version) - 1}&timeoutSeconds=1'"
    event = json.loads(terminal.output(f"kubectl get --raw {path}"))
    assert event["object"]["code"] == 410
