"""Labels of running pods: add, list, change, remove, and what a controller makes of it (SC-07)."""

from __future__ import annotations

import pytest

from tests.e2e.helpers.manifests import replication_controller
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl


@pytest.fixture
def master(terminal: Terminal) -> str:
    """The name of the one pod of the controller `redis-master`."""
    terminal.output("kubectl create -f -", replication_controller("redis-master", 1))
    terminal.comes_to("kubectl get pods --no-headers | awk '{print $3}'", "Running")
    return terminal.output("kubectl get pods -o jsonpath='{.items[0].metadata.name}'")


@every_kubectl
def test_a_label_is_added_listed_overwritten_and_removed(terminal: Terminal, master: str) -> None:
    """SC-07, S0-16 to S0-20."""
    terminal.prints(f"kubectl label pod {master} role=backend", f"pod/{master} labeled")
    terminal.prints(
        "kubectl get pods -Lrole",
        f"""
        NAME       READY   STATUS    RESTARTS   AGE   ROLE
        {master}   1/1     Running   0          …     backend
        """,
    )
    terminal.refuses(
        f"kubectl label pod {master} role=master",
        "error: 'role' already has a value (backend), and --overwrite is false",
    )
    terminal.prints(f"kubectl label pod {master} role=master --overwrite", f"pod/{master} labeled")
    terminal.prints(f"kubectl label pod {master} role=master", f"pod/{master} not labeled")
    terminal.prints("kubectl get pods -l role=master -o name", f"pod/{master}")
    terminal.prints("kubectl get pods -l 'role notin (master)'", "No resources found in … namespace.")
    terminal.prints(f"kubectl label pod {master} role-", f"pod/{master} unlabeled")
    terminal.prints(f"kubectl label pod {master} role-", f'label "role" not found.\npod/{master} not labeled')


def test_a_malformed_label_is_refused(terminal: Terminal, master: str) -> None:
    """SC-07, S0-20: by kubectl, and by the server for clients that do not look."""
    terminal.refuses(f"kubectl label pod {master} 'role=bad value'", "error: invalid label value: …")
    terminal.refuses(
        f"kubectl label pod {master} role=x role-",
        "error: can not both modify and remove a label in the same command",
    )
    terminal.refuses(
        f"""kubectl patch pod {master} -p '{{"metadata":{{"labels":{{"role":"bad value"}}}}}}'""",
        f'The Pod "{master}" is invalid: metadata.labels: Invalid value: "bad value": a valid label must be …',
    )


def test_a_pod_that_loses_its_label_is_released_and_replaced(terminal: Terminal, master: str) -> None:
    """SC-07, S0-21."""
    owner = f"kubectl get pod {master} -o jsonpath='{{.metadata.ownerReferences[*].name}}'"
    terminal.prints(owner, "redis-master")
    terminal.prints(f"kubectl label pod {master} name=other --overwrite", f"pod/{master} labeled")
    terminal.comes_to("kubectl get pods --no-headers | awk '{print $3}'", "Running\nRunning")
    terminal.comes_to(owner, "")
    terminal.prints(f"kubectl label pod {master} name=redis-master --overwrite", f"pod/{master} labeled")
    terminal.comes_to("kubectl get pods --no-headers | awk '{print $3}'", "Running")
