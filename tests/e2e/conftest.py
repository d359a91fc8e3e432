"""Fixtures of the end-to-end tests: a cluster for each module, and for each test a terminal in a namespace of its own.

A module says in `NODES` which nodes its cluster has. `minor` is the version of kubectl; a test for every version
parametrizes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead import COMPATIBILITY_VERSION
from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import Terminal, terminal_in
from tests.kubectl import KubectlMissing, kubectl
from tests.processes import Up


@pytest.fixture
def minor() -> str:
    return COMPATIBILITY_VERSION


@pytest.fixture
def kubectl_of_minor(minor: str) -> Path:
    try:
        return kubectl(minor)
    except KubectlMissing as missing:
        pytest.skip(f"no kubectl: {missing}")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    nodes = getattr(request.module, "NODES", [node("node-1")])
    with cluster_of(tmp_path_factory.mktemp("cluster"), *nodes) as up:
        yield up


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """A name that tells which test it was."""
    return re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:60].strip("-")


@pytest.fixture
def terminal(cluster: Up, tmp_path: Path, kubectl_of_minor: Path, namespace: str) -> Iterator[Terminal]:
    """A terminal whose kubectl works in a fresh namespace of the module's cluster; the namespace goes with the test."""
    terminal = terminal_in(namespace, cluster.kubeconfig, tmp_path / "home", kubectl_of_minor)
    yield terminal
    terminal.output(f"kubectl delete namespace {namespace} --timeout=30s")
