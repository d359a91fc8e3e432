"""Two teams share a cluster: namespaces, the contexts of kubectl, and one controller in each (SC-01, SC-02)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl

CREATED_PODS = """
    NAME                READY   STATUS    RESTARTS   AGE
    redis-slave-…       1/1     Running   0          …
    redis-slave-…       1/1     Running   0          …
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A cluster of its own, on plain HTTP."""
    with cluster_of(tmp_path, node("node-1"), options=("--http-port", "0")) as up:
        found = re.search(r"http://[\d.:]+", up.greeting)
        assert found
        yield found.group()


@pytest.fixture
def plain(address: str, tmp_path: Path, kubectl_of_minor: Path) -> Terminal:
    """A terminal without any configuration but the cluster's address."""
    terminal = Terminal(tmp_path / "home", kubectl_of_minor)
    set_cluster = f"kubectl config set-cluster kubernetes-cluster --server={address}"
    terminal.prints(set_cluster, 'Cluster "kubernetes-cluster" set.')
    for team, name in (("dev", "development"), ("prod", "production")):
        set_context = f"kubectl config set-context ctx-{team} --namespace={name} --cluster=kubernetes-cluster"
        terminal.prints(f"{set_context} --user={team}", f'Context "ctx-{team}" created.')
        created = f"kubectl --context=ctx-{team} create -f namespace-{name}.yaml"
        terminal.prints(created, f"namespace/{name} created")
    return terminal


@every_kubectl
def test_namespaces_and_contexts_are_created_chosen_and_shown(plain: Terminal, address: str) -> None:
    """SC-01, S0-22 to S0-29: the file is kubectl's own; undefined users work over plain HTTP without a password."""
    plain.prints("kubectl config current-context; true", "error: current-context is not set")
    plain.prints("kubectl config use-context ctx-dev", 'Switched to context "ctx-dev".')
    plain.prints(
        "kubectl config view",
        f"""
        apiVersion: v1
        clusters:
        - cluster:
            server: {address}
          name: kubernetes-cluster
        contexts:
        - context:
            cluster: kubernetes-cluster
            namespace: development
            user: dev
          name: ctx-dev
        - context:
            cluster: kubernetes-cluster
            namespace: production
            user: prod
          name: ctx-prod
        current-context: ctx-dev
        kind: Config
        …
        users: null
        """,
    )
    plain.prints(
        "kubectl config get-contexts",
        """
        CURRENT   NAME       CLUSTER              AUTHINFO   NAMESPACE
        *         ctx-dev    kubernetes-cluster   dev        development
                  ctx-prod   kubernetes-cluster   prod       production
        """,
    )
    plain.prints("kubectl get pods", "No resources found in development namespace.")
    assert plain.output("stat -c %a ~/.kube/config") == "600"
    plain.comes_to(
        "kubectl get namespaces",
        """
        NAME              STATUS   AGE
        default           Active   …
        development       Active   …
        kube-node-lease   Active   …
        kube-public       Active   …
        kube-system       Active   …
        production        Active   …
        """,
    )
    labels = "kubectl get ns development -o jsonpath='{.metadata.labels}'"
    plain.prints(labels, '{"kubernetes.io/metadata.name":"development"}')


@every_kubectl
def test_one_controller_lives_in_two_namespaces_independently(plain: Terminal) -> None:
    """SC-02, S0-30 to S0-33."""
    create = "kubectl create -f redis-slave-controller.yaml"
    plain.output("kubectl config use-context ctx-dev")
    plain.prints(create, "replicationcontroller/redis-slave created")
    plain.comes_to("kubectl get pods", CREATED_PODS)
    plain.output("kubectl config use-context ctx-prod")
    plain.prints("kubectl get rc", "No resources found in production namespace.")
    plain.prints("kubectl get pods", "No resources found in production namespace.")
    plain.prints(create, "replicationcontroller/redis-slave created")
    plain.comes_to("kubectl get pods", CREATED_PODS)
    plain.refuses(
        create,
        'Error from server (AlreadyExists): error when creating "redis-slave-controller.yaml": '
        'replicationcontrollers "redis-slave" already exists',
    )
    names = {context: _pods(plain, context) for context in ("ctx-dev", "ctx-prod")}
    assert not names["ctx-dev"] & names["ctx-prod"]

    plain.prints("kubectl delete rc redis-slave", 'replicationcontroller "redis-slave" deleted…')
    plain.comes_to("kubectl get rc,pods", "No resources found in production namespace.")
    plain.prints(
        "kubectl --context ctx-dev get rc -o wide",
        """
        NAME          DESIRED   CURRENT   READY   AGE   CONTAINERS   IMAGES                            SELECTOR
        redis-slave   2         2         2       …     slave        kubeguide/guestbook-redis-slave   name=redis-slave
        """,
    )
    assert _pods(plain, "ctx-dev") == names["ctx-dev"]


def test_without_a_user_kubectl_asks_for_one_where_there_is_encryption(plain: Terminal, address: str) -> None:
    """SC-01, S0-25: it asks before it says anything to the server, so no server can help."""
    plain.output(f"kubectl config set-cluster kubernetes-cluster --server={address.replace('http:', 'https:')}")
    answer = plain.run("kubectl --context=ctx-dev get pods")
    assert answer.code == 1
    assert "Please enter Username: " in answer.out + answer.err
    assert "error: EOF" in answer.err


def test_a_namespace_that_does_not_exist_takes_nothing_and_a_deleted_one_takes_all_along(plain: Terminal) -> None:
    """S0-35."""
    plain.output("kubectl config use-context ctx-dev")
    plain.refuses(
        "kubectl -n nowhere create -f redis-slave-controller.yaml",
        'Error from server (NotFound): error when creating "redis-slave-controller.yaml": '
        'namespaces "nowhere" not found',
    )
    plain.output("kubectl create -f redis-slave-controller.yaml")
    plain.comes_to("kubectl get pods", CREATED_PODS)
    plain.prints("kubectl delete namespace development", 'namespace "development" deleted')
    plain.refuses(
        "kubectl get namespace development", 'Error from server (NotFound): namespaces "development" not found'
    )
    plain.prints("kubectl get rc,pods", "No resources found in development namespace.")


def _pods(terminal: Terminal, context: str) -> set[str]:
    return set(terminal.output(f"kubectl --context {context} get pods -o name").split())
