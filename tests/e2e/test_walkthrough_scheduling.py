"""What fits where: requests against what a node offers, limits and usage aside (SC-10, SC-11, SC-13, SC-14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fairlead.api.objects import Obj
from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.manifests import container, pod, replication_controller
from tests.e2e.helpers.terminal import Terminal

CREATE = "kubectl create -f -"
STATES = "kubectl get pods --no-headers | awk '{print $3}' | sort | uniq -c"
WHY = "kubectl get events --field-selector reason=FailedScheduling -o jsonpath='{.items[-1:].message}'"
#: Another pod could make room, or not even that would help.
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
NO_HELP = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."

Opened = Callable[[Obj], AbstractContextManager[Terminal]]


@pytest.fixture
def one_node(tmp_path: Path, kubectl_of_minor: Path) -> Opened:
    """A terminal for a cluster of one node of the test's choice."""

    @contextmanager
    def opened(only: Obj) -> Iterator[Terminal]:
        with cluster_of(tmp_path, only) as up:
            yield Terminal(tmp_path / "home", kubectl_of_minor, variables={"KUBECONFIG": str(up.kubeconfig)})

    return opened


def allocated(terminal: Terminal, name: str) -> dict[str, str]:
    """The lines of `kubectl describe node` under "Allocated resources", by resource."""
    section = terminal.output(f"kubectl describe node {name} | sed -n '/^Allocated/,/^Events/p'")
    rows = [" ".join(line.split()) for line in section.splitlines()]
    return {row.partition(" ")[0]: row.partition(" ")[2] for row in rows if row.startswith(("cpu", "memory"))}


@pytest.mark.parametrize(("unit", "three", "six"), [("Gi", "3Gi", "6Gi"), ("G", "3G", "6G")])
def test_three_pods_of_one_gigabyte_fill_a_node_of_three(one_node: Opened, unit: str, three: str, six: str) -> None:
    """SC-10, S0-50 to S0-53, S0-67: allocatable counts, not capacity; limits may exceed it."""
    only = node("n", cpu="16", memory=f"4{unit}", allocatable_memory=f"3{unit}")
    sizes = {"requests": {"memory": f"1{unit}"}, "limits": {"memory": f"2{unit}"}}
    with one_node(only) as terminal:
        terminal.output(CREATE, replication_controller("one-gig", 4, **sizes))
        terminal.comes_to(STATES, "1 Pending\n3 Running")
        why = f"0/1 nodes are available: 1 Insufficient memory. no new claims to deallocate, {NO_VICTIMS}"
        terminal.comes_to(WHY, why)
        assert allocated(terminal, "n")["memory"] == f"{three} (100%) {six} (200%)"
        terminal.prints("kubectl scale rc one-gig --replicas=3", "replicationcontroller/one-gig scaled")
        terminal.comes_to(STATES, "3 Running")


def test_a_node_is_oversubscribed_by_limits_alone(one_node: Opened) -> None:
    """SC-11, S0-53, S0-106."""
    sizes = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    with one_node(node("big", cpu="64", memory="32Gi")) as terminal:
        terminal.output(CREATE, replication_controller("web", 33, **sizes))
        terminal.comes_to(STATES, "1 Pending\n32 Running")
        assert allocated(terminal, "big")["memory"] == "32Gi (100%) 64Gi (200%)"


def test_describe_shows_what_is_taken_and_the_rest_is_what_fits(one_node: Opened) -> None:
    """SC-13, S0-72 to S0-74."""
    with one_node(node("k8s-node-1", cpu="1", memory="4000Mi", pods=40)) as terminal:
        terminal.output("kubectl create namespace frontend")
        for namespace, name, cpu, memory in (
            ("frontend", "webserver-ffj8j", "500m", "2000Mi"),
            ("kube-system", "fluentd-cloud-logging-k8s-node-1", "100m", "200Mi"),
            ("kube-system", "kube-dns-v8-qopgw", "310m", "170Mi"),
        ):
            manifest = pod(name, requests={"cpu": cpu, "memory": memory})
            terminal.output(f"kubectl -n {namespace} create -f -", manifest)
            terminal.output(f"kubectl -n {namespace} wait pod/{name} --for=condition=Ready --timeout=20s")
        terminal.prints(
            "kubectl describe nodes k8s-node-1 | sed -n '/^Non-terminated/,/^  memory/p'",
            """
            Non-terminated Pods:          (3 in total)
              Namespace  Name  CPU Requests  CPU Limits  Memory Requests  Memory Limits  Age
              ---------  ----  ------------  ----------  ---------------  -------------  ---
              frontend  webserver-ffj8j  500m (50%)  0 (0%)  2000Mi (50%)  0 (0%)  …
              kube-system  fluentd-cloud-logging-k8s-node-1  100m (10%)  0 (0%)  200Mi (5%)  0 (0%)  …
              kube-system  kube-dns-v8-qopgw  310m (31%)  0 (0%)  170Mi (4%)  0 (0%)  …
            Allocated resources:
              (Total limits may be over 100 percent, i.e., overcommitted.)
              Resource           Requests      Limits
              --------           --------      ------
              cpu                910m (91%)    0 (0%)
              memory             2370Mi (59%)  0 (0%)
            """,
        )
        smaller = '{"status":{"allocatable":{"memory":"3711Mi"}}}'
        terminal.prints(f"kubectl patch node k8s-node-1 --subresource=status -p '{smaller}'", "node/k8s-node-1 patched")
        for cpu, memory, reason in (("91m", "1341Mi", "cpu"), ("90m", "1342Mi", "memory")):
            terminal.output(CREATE, pod(f"no-{reason}", requests={"cpu": cpu, "memory": memory}))
            why = f"0/1 nodes are available: 1 Insufficient {reason}. no new claims to deallocate, {NO_VICTIMS}"
            about = f"kubectl events --for pod/no-{reason} -o jsonpath='{{.items[-1:].message}}'"
            terminal.comes_to(about, why)
        terminal.output(CREATE, pod("yes", requests={"cpu": "90m", "memory": "1341Mi"}))
        terminal.prints("kubectl wait pod/yes --for=condition=Ready --timeout=20s", "pod/yes condition met")


def test_the_node_checks_again_what_it_is_given(one_node: Opened) -> None:
    """SC-14, S0-54, S0-55: a pod that names its node comes past the scheduler, not past the node."""
    with one_node(node("n", cpu="1", pods=3)) as terminal:
        terminal.output(CREATE, pod("a", requests={"cpu": "800m"}))
        terminal.output("kubectl wait pod/a --for=condition=Ready --timeout=20s")
        terminal.output(CREATE, pod("b", requests={"cpu": "500m"}, nodeName="n"))
        terminal.comes_to(
            "kubectl get pods",
            """
            NAME   READY   STATUS     RESTARTS   AGE
            a      1/1     Running    0          …
            b      0/1     OutOfcpu   0          …
            """,
        )
        short = "Node didn't have enough resource: cpu, requested: 500, used: 800, capacity: 1000"
        terminal.prints(
            "kubectl describe pod b | grep -A 2 ^Status",
            f"""
            Status:   Failed
            Reason:   OutOfcpu
            Message:  Pod was rejected: {short}
            """,
        )
        terminal.comes_to("kubectl describe pod b | grep kubelet", f"Warning  OutOfcpu  …  kubelet  {short}")
        for name in ("c", "d"):
            terminal.output(CREATE, pod(name))
            terminal.output(f"kubectl wait pod/{name} --for=condition=Ready --timeout=20s")
        terminal.output(CREATE, pod("e"))
        terminal.comes_to(WHY, f"0/1 nodes are available: 1 Too many pods. no new claims to deallocate, {NO_VICTIMS}")


def test_a_pod_that_waits_says_why_and_starts_when_there_is_room(one_node: Opened) -> None:
    """S0-67 to S0-71."""
    with one_node(node("k8s-node-1", cpu="1", memory="1Gi")) as terminal:
        terminal.output(CREATE, pod("holder", requests={"cpu": "900m", "memory": "900Mi"}))
        terminal.output("kubectl wait pod/holder --for=condition=Ready --timeout=20s")
        terminal.prints("kubectl create -f frontend.yaml", "pod/frontend created")
        both = f"1 Insufficient cpu, 1 Insufficient memory. no new claims to deallocate, {NO_VICTIMS}"
        terminal.comes_to(
            "kubectl describe pod frontend | grep -A 3 Events",
            f"""
            Events:
              Type     Reason            Age   From               Message
              ----     ------            ----  ----               -------
              Warning  FailedScheduling  …     default-scheduler  0/1 nodes are available: {both}
            """,
        )
        terminal.output(CREATE, pod("huge", requests={"cpu": "2"}))
        terminal.comes_to(
            "kubectl events --for pod/huge -o jsonpath='{.items[-1:].message}'",
            f"0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, {NO_HELP}",
        )
        terminal.output("kubectl delete pod holder")
        terminal.prints("kubectl wait pod/frontend --for=condition=Ready --timeout=20s", "pod/frontend condition met")
        another = '{"apiVersion":"v1","kind":"Node","metadata":{"name":"k8s-node-2"}}'
        terminal.output(CREATE, another)
        size = '{"cpu":"2","memory":"4Gi","pods":"110"}'
        ready = (
            f'{{"status":{{"capacity":{size},"allocatable":{size},"conditions":[{{"type":"Ready","status":"True"}}]}}}}'
        )
        terminal.output(f"kubectl patch node k8s-node-2 --subresource=status --type=merge -p '{ready}'")
        terminal.comes_to("kubectl get pod huge -o jsonpath='{.spec.nodeName}'", "k8s-node-2")


def test_the_story_of_a_pod_is_told_by_its_events(one_node: Opened) -> None:
    """S0-48, S0-68, S0-77."""
    with one_node(node("k8s-node-1", cpu="2", memory="1Gi")) as terminal:
        terminal.output("kubectl create -f frontend.yaml")
        terminal.prints("kubectl wait pod/frontend --for=condition=Ready --timeout=20s", "pod/frontend condition met")
        terminal.comes_to(
            "kubectl get events --field-selector involvedObject.name=frontend --no-headers"
            " -o custom-columns=R:.reason,M:.message | sort",
            """
            Created    Container created
            Created    Container created
            Pulled     Container image "mysql" already present on machine and can be accessed by the pod
            Pulled     Container image "wordpress" already present on machine and can be accessed by the pod
            Scheduled  Successfully assigned default/frontend to k8s-node-1
            Started    Container started
            Started    Container started
            """,
        )
        assert allocated(terminal, "k8s-node-1") == {"cpu": "500m (25%) 1 (50%)", "memory": "128Mi (12%) 256Mi (25%)"}


def test_a_container_may_ask_for_nothing_and_for_resources_of_its_own_making(one_node: Opened) -> None:
    """S0-49, S0-78: extended resources count like the others."""
    only = node("n")
    for amounts in only["status"].values():
        amounts["example.com/licence"] = "1"
    wanting = container(requests={"example.com/licence": "1"}, limits={"example.com/licence": "1"})
    with one_node(only) as terminal:
        terminal.output(CREATE, pod("first", wanting))
        terminal.output("kubectl wait pod/first --for=condition=Ready --timeout=20s")
        terminal.output(CREATE, pod("second", wanting))
        terminal.comes_to(
            WHY,
            f"0/1 nodes are available: 1 Insufficient example.com/licence. no new claims to deallocate, {NO_VICTIMS}",
        )
