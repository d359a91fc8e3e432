"""Some pods matter more than others: classes, what admission makes of them, and who has to go (SC-43 to SC-50)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fairlead.api.objects import Obj
from fairlead.runtime.clock import parse_timestamp
from tests.e2e.helpers.clusters import cluster_of, node
from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal
from tests.examples import each_time

CREATE = "kubectl create -f -"
CREATE_NONPREEMPTING = "kubectl create priorityclass nonpreempting --value=1000000 --preemption-policy=Never"
STATES = "kubectl get pods --no-headers | awk '{print $1, $3}'"
COLUMNS = "N:.metadata.name,C:.spec.priorityClassName,P:.spec.priority,H:.spec.preemptionPolicy"
PRIORITIES = f"kubectl get pods --no-headers -o custom-columns={COLUMNS}"
WHY = "kubectl events --for pod/{} -o jsonpath='{{.items[-1:].message}}'"
HEALTH = "kubectl get pdb {} -o jsonpath='{{.status.currentHealthy}} of {{.status.desiredHealthy}}'"
REFUSED = 'Error from server (Forbidden): error when creating "STDIN": pods "nginx" is forbidden:'
NGINX = """
apiVersion: v1
kind: Pod
metadata: {name: nginx, labels: {env: test}}
spec:
  priorityClassName: high-priority
  containers: [{name: nginx, image: nginx, imagePullPolicy: IfNotPresent}]
"""
#: By then a pod that was refused once backs off no longer (S3-11).
BACKOFF_SECONDS = 3.0

#: Four pods that may have to go, on three nodes; one of them is Guaranteed.
NODES = [node(name, cpu="2") for name in ("n1", "n2", "n3")]
CLASSES = {"mid": 500, "low": 100, "high": 1000}
ALL = {"cpu": "2", "memory": "1Gi"}
VICTIMS = [
    pod("v1", requests={"cpu": "2"}, priorityClassName="mid", nodeName="n1"),
    pod("v2a", requests={"cpu": "1"}, priorityClassName="low", nodeName="n2"),
    pod("v2b", requests={"cpu": "1"}, priorityClassName="low", nodeName="n2"),
    pod("v3", container(requests=ALL, limits=ALL), priorityClassName="low", nodeName="n3"),
]
#: A pod that wants to be in no zone where one of the application q is.
TERM = {"labelSelector": {"matchLabels": {"app": "q"}}, "topologyKey": "topology.kubernetes.io/zone"}
AVOIDS_Q = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}

Opened = Callable[..., AbstractContextManager[Terminal]]


@pytest.fixture
def cluster_with(tmp_path: Path, kubectl_of_minor: Path) -> Opened:
    """A terminal for a cluster of the test's own, as no namespace holds its priority classes."""

    @contextmanager
    def opened(*nodes: Obj, **classes: int) -> Iterator[Terminal]:
        with cluster_of(tmp_path, *nodes) as up:
            terminal = Terminal(tmp_path / "home", kubectl_of_minor, variables={"KUBECONFIG": str(up.kubeconfig)})
            for name, value in classes.items():
                terminal.output(f"kubectl create priorityclass {name} --value={value}")
            yield terminal

    return opened


def sized(name: str, cpu: str, priority: str = "", **spec: object) -> str:
    """A pod of that size and class."""
    return pod(name, requests={"cpu": cpu}, priorityClassName=priority, **spec)


def started(terminal: Terminal, *manifests: str) -> None:
    """Create these pods and wait until all of the namespace run."""
    terminal.output(CREATE, "\n".join(manifests))
    terminal.output("kubectl wait pods --all --for=condition=Ready --timeout=30s")


def runs(terminal: Terminal, name: str, on: str) -> None:
    """The pod comes to run on that node."""
    terminal.prints(f"kubectl wait pod/{name} --for=condition=Ready --timeout=30s", f"pod/{name} condition met")
    terminal.prints(f"kubectl get pod {name} -o jsonpath='{{.spec.nodeName}}'", on)


def preempts(terminal: Terminal, name: str, survivors: str, cpu: str = "2") -> None:
    """A pod of high priority comes to run on that node, and only the survivors are left beside it."""
    terminal.output(CREATE, sized("p", cpu, "high"))
    runs(terminal, "p", on=name)
    terminal.comes_to(STATES, "\n".join(f"{one} Running" for one in ("p", *survivors.split())))


def budgeted(terminal: Terminal, name: str, *others: str) -> None:
    """A budget that allows none of these pods to go, and that knows of them."""
    pods = (name, *others)
    terminal.output(f"kubectl label pods {' '.join(pods)} app={name}")
    terminal.output(f"kubectl create pdb {name} --selector=app={name} --min-available={len(pods)}")
    terminal.comes_to(HEALTH.format(name), f"{len(pods)} of {len(pods)}")


def backed_off(terminal: Terminal, name: str) -> None:
    """Wait until a refused pod would be tried again at once: while it backs off, others may pass it (S3-11)."""
    refused = "{.status.conditions[?(@.type=='PodScheduled')].lastTransitionTime}"
    refused_at = parse_timestamp(terminal.output(f'kubectl get pod {name} -o jsonpath="{refused}"'))
    while time.time() < refused_at + BACKOFF_SECONDS:
        time.sleep(0.1)


def test_classes_have_a_range_and_never_change(cluster_with: Opened) -> None:
    """SC-43, S3-02, S3-03, S3-09, S3-14."""
    with cluster_with(node("n")) as terminal:
        terminal.prints(
            "kubectl get priorityclass",
            """
            NAME                      VALUE        GLOBAL-DEFAULT   AGE   PREEMPTIONPOLICY
            system-cluster-critical   2000000000   false            …     PreemptLowerPriority
            system-node-critical      2000001000   false            …     PreemptLowerPriority
            """,
        )
        invalid = 'error: failed to create priorityclass: PriorityClass.scheduling.k8s.io "{}" is invalid:'
        terminal.refuses(
            "kubectl create priorityclass toobig --value=1000000001",
            f"{invalid.format('toobig')} value: Forbidden: "
            "maximum allowed value of a user defined priority is 1000000000",
        )
        terminal.refuses(
            "kubectl create priorityclass system-foo --value=1",
            f"{invalid.format('system-foo')} metadata.name: Forbidden: priority class names with 'system-' prefix "
            "are reserved for system use only. error: system-foo is not a known system priority class",
        )
        for name, value in (("lowest", "-2147483648"), ("top", "1000000000")):
            created = f"priorityclass.scheduling.k8s.io/{name} created"
            terminal.prints(f"kubectl create priorityclass {name} --value={value}", created)
            terminal.prints(f"kubectl get priorityclass {name} --no-headers", f"{name} {value} false … Preempt…")
        for change, why in (
            ('"value":5', "value: Forbidden: may not be changed in an update."),
            ('"preemptionPolicy":"Never"', 'preemptionPolicy: Invalid value: "Never": field is immutable'),
        ):
            patch = f"kubectl patch priorityclass top -p '{{{change}}}'"
            terminal.refuses(patch, f'The PriorityClass "top" is invalid: {why}')
        terminal.output(CREATE_NONPREEMPTING)
        terminal.prints("kubectl describe priorityclass nonpreempting | grep Policy", "PreemptionPolicy: Never")


def test_the_default_class_counts_for_pods_that_come_while_it_is_there(cluster_with: Opened) -> None:
    """SC-43, S3-05, S3-07."""
    with cluster_with(node("n")) as terminal:
        terminal.output(CREATE, pod("before"))
        terminal.output("kubectl create priorityclass d1 --value=7 --global-default")
        terminal.refuses(
            "kubectl create priorityclass d2 --value=8 --global-default",
            'error: failed to create priorityclass: priorityclasses.scheduling.k8s.io "d2" is forbidden: '
            "PriorityClass d1 is already marked as default. Only one default can exist",
        )
        terminal.output(CREATE, pod("during"))
        terminal.output("kubectl delete priorityclass d1")
        terminal.output(CREATE, pod("later"))
        default = "PreemptLowerPriority"
        shown = f"before <none> 0 {default}\nduring d1 7 {default}\nlater <none> 0 {default}"
        terminal.prints(PRIORITIES, shown)
        why = f"{REFUSED} no PriorityClass with name d1 was found"
        terminal.refuses(CREATE, why, NGINX.replace("high-priority", "d1"))


def test_a_pod_names_its_class_and_never_its_number(cluster_with: Opened) -> None:
    """SC-44, S3-06, S3-08."""
    with cluster_with(node("n")) as terminal:
        terminal.output(CREATE_NONPREEMPTING)
        terminal.refuses(CREATE, f"{REFUSED} no PriorityClass with name high-priority was found", NGINX)
        terminal.output("kubectl create priorityclass high-priority --value=1000000")
        why = (
            "the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 1000000 from the given PriorityClass name"
        )
        terminal.refuses(CREATE, f"{REFUSED} {why}", f"{NGINX}  priority: 5\n")
        terminal.prints(CREATE, "pod/nginx created", NGINX)
        terminal.prints(PRIORITIES, "nginx high-priority 1000000 PreemptLowerPriority")
        terminal.output("kubectl delete pod nginx")
        terminal.output(CREATE, NGINX.replace("high-priority", "nonpreempting"))
        terminal.prints(PRIORITIES, "nginx nonpreempting 1000000 Never")


@pytest.mark.parametrize(
    ("tainted", "chosen", "survivors"),
    each_time(
        [("n3", "n2", "v1 v3")],
        [("", "n3", "v1 v2a v2b"), ("n3", "n2", "v1 v3"), ("n2 n3", "n1", "v2a v2b v3")],
    ),
    ids=["least-loss", "next-best", "only-one-left"],
)
def test_the_node_that_loses_least_is_chosen(cluster_with: Opened, tainted: str, chosen: str, survivors: str) -> None:
    """SC-46, S3-21, S3-32, S3-33: the lowest priority, then the smallest sum of them; never the quality of service."""
    with cluster_with(*NODES, **CLASSES) as terminal:
        started(terminal, *VICTIMS)
        if tainted:
            terminal.output(f"kubectl taint nodes {tainted} dedicated=other:NoSchedule")
        preempts(terminal, chosen, survivors)


def test_no_more_pods_go_than_must(cluster_with: Opened) -> None:
    """SC-46, S3-19."""
    with cluster_with(node("n4", cpu="3"), ten=10, twenty=20, thirty=30, high=1000) as terminal:
        started(terminal, *(sized(name, "1", name) for name in ("ten", "twenty", "thirty")))
        preempts(terminal, "n4", "thirty twenty", cpu="1")


def test_a_victim_is_told_why_and_gets_its_time_to_stop(cluster_with: Opened) -> None:
    """S3-22 to S3-24: the room is kept for the pod that made it, and what needs none is scheduled meanwhile."""
    told = "{.status.conditions[?(@.type=='DisruptionTarget')]['reason','message']}"
    with cluster_with(node("n", cpu="1"), high=1000) as terminal:
        started(terminal, sized("victim", "1", terminationGracePeriodSeconds=600))
        terminal.output("kubectl annotate pod victim sim.fairlead.dev/stop-seconds=600")
        terminal.output(CREATE, sized("p", "1", "high"))
        terminal.comes_to("kubectl get pod p -o wide --no-headers", "p 0/1 Pending 0 … <none> <none> n <none>")
        terminal.comes_to("kubectl get pod victim --no-headers", "victim 1/1 Terminating 0 …")
        because = "PreemptionByScheduler default-scheduler: preempting to accommodate a higher priority pod"
        terminal.prints(f'kubectl get pod victim -o jsonpath="{told}"', because)
        uid = terminal.output("kubectl get pod p -o jsonpath='{.metadata.uid}'")
        terminal.comes_to(WHY.format("victim"), f"Preempted by pod {uid} on node n")
        terminal.output(CREATE, sized("small", "0"))
        runs(terminal, "small", on="n")
        terminal.output("kubectl delete pod victim --force --grace-period=0")
        runs(terminal, "p", on="n")


@pytest.mark.parametrize(
    ("protected", "chosen", "survivors", "health"),
    [(["v3"], "n2", "v1 v3", "1 of 1"), (["v3", "v1", "v2a v2b"], "n3", "v1 v2a v2b", "0 of 1")],
    ids=["another-node", "everywhere"],
)
def test_budgets_turn_preemption_elsewhere_but_do_not_stop_it(
    cluster_with: Opened, protected: list[str], chosen: str, survivors: str, health: str
) -> None:
    """SC-47, S3-21, S3-29, S3-32: the fewest violations, then the lowest priority."""
    with cluster_with(*NODES, **CLASSES) as terminal:
        started(terminal, *VICTIMS)
        for pods in protected:
            budgeted(terminal, *pods.split())
        preempts(terminal, chosen, survivors)
        terminal.comes_to(HEALTH.format("v3"), health)


def test_a_pod_that_never_preempts_waits_before_the_others(cluster_with: Opened) -> None:
    """SC-49, S3-10 to S3-16: and holds up nobody who fits; it may be preempted itself."""
    with cluster_with(node("n", cpu="1"), highest=2000000) as terminal:
        terminal.output(CREATE_NONPREEMPTING)
        started(terminal, sized("runner", "1"))
        terminal.output(CREATE, sized("w", "1"))
        terminal.output(CREATE, sized("np", "1", "nonpreempting"))
        terminal.comes_to(
            WHY.format("np"),
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
        )
        terminal.output(CREATE, sized("small", "0"))
        runs(terminal, "small", on="n")
        terminal.prints(STATES, "np Pending\nrunner Running\nsmall Running\nw Pending")
        backed_off(terminal, "np")
        terminal.output("kubectl delete pod runner")
        runs(terminal, "np", on="n")
        terminal.output(CREATE, sized("vip", "1", "highest"))
        runs(terminal, "vip", on="n")
        terminal.comes_to(STATES, "small Running\nvip Running\nw Pending")


@pytest.fixture
def zone(cluster_with: Opened) -> Iterator[Terminal]:
    """Two nodes of one zone, q on the second."""
    with cluster_with(node("n1"), node("n2"), high=1000) as terminal:
        terminal.output("kubectl label nodes --all topology.kubernetes.io/zone=z1")
        started(terminal, pod("q", nodeName="n2"))
        terminal.output("kubectl label pod q app=q")
        yield terminal


def test_no_pod_of_another_node_is_preempted(zone: Terminal) -> None:
    """SC-50, S3-20, S3-30, S3-31: not even where its going would help."""
    here = {"kubernetes.io/hostname": "n1"}
    zone.output(CREATE, pod("p", priorityClassName="high", nodeSelector=here, affinity=AVOIDS_Q))
    zone.comes_to(
        WHY.format("p"),
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
    )
    zone.prints(STATES, "p Pending\nq Running")
    zone.output("kubectl delete pod q")
    runs(zone, "p", on="n1")


def test_a_pod_that_another_avoids_is_preempted_on_its_own_node(zone: Terminal) -> None:
    """SC-50, S3-30: the control, without the node selector."""
    zone.output(CREATE, pod("p", priorityClassName="high", affinity=AVOIDS_Q))
    runs(zone, "p", on="n2")
    zone.prints(STATES, "p Running")
