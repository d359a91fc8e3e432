"""kubectl's Go client asks for protobuf wherever it knows the type: what it reads there is what it reads as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.helpers.terminal import Terminal

PROTOBUF = "Content-Type: application/vnd.kubernetes.protobuf"
PATHS = {"EventList": "/api/v1", "PodList": "/api/v1", "DeploymentList": "/apis/apps/v1"}

#: Since 1.32 clients of built-in kinds ask for protobuf; these know every field, too.
newest_kubectl = pytest.mark.parametrize("minor", ["1.36", "1.37"])


def asked(terminal: Terminal, command: str, content_type: str = PROTOBUF) -> str:
    """What a command prints that was answered in protobuf."""
    answer = terminal.run(f"{command} -v=8")
    assert answer.code == 0, answer.err
    assert content_type in answer.err, answer.err
    return answer.out


def documents(text: str) -> Iterator[Any]:
    """One JSON document after the other."""
    rest = text.lstrip()
    while rest.startswith("{"):
        found, end = json.JSONDecoder().raw_decode(rest)
        yield found
        rest = rest[end:].lstrip()


@newest_kubectl
def test_a_go_client_reads_objects_lists_reviews_and_watches(terminal: Terminal, namespace: str) -> None:
    terminal.output("kubectl create deployment web --image=nginx:1 --replicas=2")
    terminal.output("kubectl rollout status deployment web --timeout=60s")
    dumped = asked(terminal, f"kubectl cluster-info dump --namespaces {namespace}")
    lists = {found["kind"]: found for found in documents(dumped)}
    for kind, path in PATHS.items():
        plural = kind.removesuffix("List").lower() + "s"
        shown = json.loads(terminal.output(f"kubectl get --raw '{path}/namespaces/{namespace}/{plural}'"))
        for item in shown["items"]:
            item["metadata"].pop("managedFields", None)  # kubectl leaves them out
        assert lists[kind]["items"] == shown["items"] != []
    assert "2 desired | 2 updated | 2 total | 2 available" in asked(terminal, "kubectl describe deployment web")
    assert len(asked(terminal, "kubectl create token default").split(".")) == 3
    assert asked(terminal, "kubectl auth can-i create pods") == "yes\n"
    watched = asked(terminal, "kubectl events --watch --request-timeout=1s", f"{PROTOBUF};stream=watch")
    assert "Scaled up replica set" in watched
