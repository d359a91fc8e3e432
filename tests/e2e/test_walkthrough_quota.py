"""A namespace with a quota: what it counts, what it refuses, what comes back (SC-25)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl

CREATE = "kubectl create -f -"
MEMORY = {"memory": "400Mi"}


@pytest.fixture
def production(terminal: Terminal, namespace: str) -> Iterator[str]:
    """A namespace beside the test's own, without its quota."""
    name = f"{namespace[:50]}-prod"
    terminal.output(f"kubectl create namespace {name}")
    terminal.output(f"kubectl -n {name} create quota mem --hard=requests.memory=8Gi,limits.memory=8Gi")
    yield name
    terminal.output(f"kubectl delete namespace {name}")


@every_kubectl
def test_the_sum_of_a_namespace_is_capped_and_given_back(terminal: Terminal, namespace: str, production: str) -> None:
    """SC-25, S0-79, S0-83."""
    terminal.prints(
        "kubectl create quota mem --hard=requests.memory=512Mi,limits.memory=512Mi", "resourcequota/mem created"
    )
    described = f"""
        Name:            mem
        Namespace:       {namespace}
        Resource         Used  Hard
        --------         ----  ----
        limits.memory    {{used}}  512Mi
        requests.memory  {{used}}  512Mi
    """
    terminal.comes_to("kubectl describe quota mem", described.format(used="0"))
    terminal.prints(CREATE, "pod/a created", pod("a", container(limits=MEMORY)))
    terminal.refuses(
        CREATE,
        'Error from server (Forbidden): error when creating "STDIN": pods "b" is forbidden: exceeded quota: mem, '
        "requested: limits.memory=400Mi,requests.memory=400Mi, used: limits.memory=400Mi,requests.memory=400Mi, "
        "limited: limits.memory=512Mi,requests.memory=512Mi",
        pod("b", container(limits=MEMORY)),
    )
    terminal.refuses(
        CREATE,
        'Error from server (Forbidden): error when creating "STDIN": pods "c" is forbidden: failed quota: mem: '
        "must specify limits.memory for: c; requests.memory for: c",
        pod("c"),
    )
    terminal.prints("kubectl describe quota mem", described.format(used="400Mi"))
    for name in ("a", "b"):
        terminal.prints(
            f"kubectl -n {production} create -f -", f"pod/{name} created", pod(name, container(limits=MEMORY))
        )
    terminal.output("kubectl delete pod a")
    terminal.comes_to("kubectl describe quota mem", described.format(used="0"))
    terminal.prints(CREATE, "pod/b created", pod("b", container(limits=MEMORY)))


def test_objects_are_counted_and_a_controller_reports_what_it_may_not_make(terminal: Terminal) -> None:
    """S0-79: the quota stops the pods, not the deployment."""
    terminal.output("kubectl create quota few --hard=pods=2,count/deployments.apps=1")
    terminal.comes_to("kubectl get quota few -o jsonpath='{.status.used}'", '{"count/deployments.apps":"0","pods":"0"}')
    terminal.prints("kubectl create deployment web --image=nginx --replicas=3", "deployment.apps/web created")
    terminal.comes_to("kubectl get deployment web", "NAME READY UP-TO-DATE AVAILABLE AGE\nweb 2/3 2 2 …")
    terminal.comes_to(
        "kubectl get replicasets -o jsonpath='{.items[0].status.conditions[*].message}'",
        'pods "web-…" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2',
    )
    terminal.refuses(
        "kubectl create deployment more --image=nginx",
        'error: failed to create deployment: deployments.apps "more" is forbidden: exceeded quota: few, '
        "requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1",
    )
    terminal.comes_to(
        "kubectl describe quota few | tail -n 4",
        """
        Resource                Used  Hard
        --------                ----  ----
        count/deployments.apps  1     1
        pods                    2     2
        """,
    )
    terminal.comes_to("kubectl get quota", "NAME REQUEST LIMIT AGE\nfew count/deployments.apps: 1/1, pods: 2/2 …")


def test_a_quota_with_a_scope_counts_the_pods_in_it_only(terminal: Terminal) -> None:
    """S0-79, S0-120."""
    terminal.output("kubectl create quota best --hard=pods=0 --scopes=BestEffort")
    terminal.comes_to("kubectl get quota best -o jsonpath='{.status.hard.pods}'", "0")
    terminal.refuses(
        CREATE,
        'Error from server (Forbidden): error when creating "STDIN": pods "p" is forbidden: exceeded quota: best, '
        "requested: pods=1, used: pods=0, limited: pods=0",
        pod("p"),
    )
    terminal.prints(CREATE, "pod/p created", pod("p", requests={"cpu": "10m"}))


def test_the_description_of_a_namespace_shows_its_quotas_and_limits(terminal: Terminal, namespace: str) -> None:
    """S0-79, S0-86."""
    terminal.output("kubectl create quota few --hard=pods=2")
    terminal.output("kubectl create -f limits.yaml")
    terminal.comes_to(
        f"kubectl describe namespace {namespace} | grep -v '^ [PC]o'",
        f"""
        Name:         {namespace}
        Labels:       kubernetes.io/metadata.name={namespace}
        Annotations:  <none>
        Status:       Active

        Resource Quotas
          Name:     few
          Resource  Used  Hard
          --------  ---   ---
          pods      0     2

        Resource Limits
         Type       Resource  Min   Max  Default Request  Default Limit  Max Limit/Request Ratio
         ----       --------  ---   ---  ---------------  -------------  -----------------------
        """,
    )
