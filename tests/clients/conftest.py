"""A cluster for each file of tests, and the ways into it that people use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from fairlead.api.objects import Obj
from tests.processes import Up, fairlead_up


@dataclass(frozen=True, slots=True)
class Ways:
    """Kubeconfigs of one cluster: of its owner, of a user with a certificate, of a service account with a token.

    The last two may do what the role `edit` allows in the namespace `team`.
    """

    admin: Path
    certificate: Path
    token: Path


def deployment(name: str, replicas: int = 2) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    }


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with fairlead_up(tmp_path_factory.mktemp("clients") / "data", "--nodes", "2") as running:
        yield running


@pytest.fixture(scope="module")
def ways(up: Up, kubectl_path: Path) -> Ways:
    def run(*command: str | Path) -> bytes:
        return subprocess.run(list(map(str, command)), capture_output=True, check=True).stdout

    def fairlead(*options: str) -> bytes:
        return run(sys.executable, "-m", "fairlead", "kubeconfig", "--data-dir", up.data_dir, *options)

    client = (kubectl_path, "--kubeconfig", up.kubeconfig)
    run(*client, "create", "namespace", "team")
    run(*client, "-n", "team", "create", "serviceaccount", "robot")
    run(
        *client,
        "-n",
        "team",
        "create",
        "rolebinding",
        "edit",
        "--clusterrole=edit",
        "--user=dev",
        "--serviceaccount=team:robot",
    )
    certificate, token = up.data_dir.with_name("certificate"), up.data_dir.with_name("token")
    certificate.write_bytes(fairlead("--user", "dev", "--namespace", "team"))
    text = run(*client, "-n", "team", "create", "token", "robot").decode().strip()
    token.write_bytes(up.kubeconfig.read_bytes())
    config = (kubectl_path, "config", "--kubeconfig", token)
    run(*config, "set-credentials", "robot", f"--token={text}")
    run(*config, "set-context", "--current", "--user=robot", "--namespace=team")
    return Ways(up.kubeconfig, certificate, token)


@pytest.fixture
def namespace() -> str:
    """A name for a namespace of one's own."""
    return f"t-{uuid4().hex[:8]}"
