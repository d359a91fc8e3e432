"""Nodes short of memory, processes, inodes or disk: whom they evict, and whom they take (SC-34, SC-35, SC-40, SC-41).

A kubelet looks every ten seconds, so all stories run at once, each on nodes and in a namespace of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from fairlead.api.quantity import units
from tests.e2e.helpers.clusters import node
from tests.e2e.helpers.manifests import container, pod, replication_controller
from tests.e2e.helpers.terminal import Terminal, terminal_in
from tests.e2e.helpers.usage import kubelet_config, use, using
from tests.processes import Up

Story: TypeAlias = Callable[[Terminal], None]

CREATE: Final = "kubectl create -f -"
MI: Final = 2**20
SHORT_OF_MEMORY = kubelet_config({"evictionHard": {"memory.available": "500Mi"}})
FEW_PROCESSES = kubelet_config({"evictionHard": {"pid.available": "10%"}}) | {"sim.fairlead.dev/max-pid": "1000"}
NODES = [
    node("hungry", memory="10Gi", annotations=SHORT_OF_MEMORY, story="hungry"),
    node("ranked", memory="16Gi", annotations=SHORT_OF_MEMORY),
    node("forking", annotations=FEW_PROCESSES),
    node("forking-equals", annotations=FEW_PROCESSES),
    node("littered", annotations={"sim.fairlead.dev/inodes": "100000"}),
    node("pressed", memory="4Gi"),
    node("full"),
]
CLASSES = """
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: hi}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: neg}, value: -10}
"""


def waits(terminal: Terminal, target: str, condition: str, seconds: int = 60) -> None:
    terminal.output(f"kubectl wait {target} --for={condition} --timeout={seconds}s")


def evicted(terminal: Terminal, name: str, seconds: int = 60) -> None:
    waits(terminal, f"pod/{name}", "jsonpath='{.status.reason}'=Evicted", seconds)


def running(terminal: Terminal, *names: str) -> None:
    waits(terminal, " ".join(f"pod/{name}" for name in names), "jsonpath='{.status.phase}'=Running")


def shows(terminal: Terminal, node_name: str, condition: str) -> None:
    waits(terminal, f"node/{node_name}", f"condition={condition}")


def the_pod_furthest_above_its_request_goes_and_its_replacement_waits(terminal: Terminal) -> None:
    """SC-34: S0-113, S0-114, S3-35 to S3-44, S3-59 to S3-63. It is killed at once, whatever its grace period."""
    hog = replication_controller(
        "hog",
        1,
        requests={"memory": "1Gi"},
        nodeSelector={"story": "hungry"},
        terminationGracePeriodSeconds=60,
    )
    terminal.output(CREATE, using(hog, memory="2Gi"))
    limits = {"cpu": "1", "memory": "1Gi"}
    terminal.output(CREATE, using(pod("ok", container(limits=limits), nodeName="hungry"), memory="900Mi"))
    terminal.output("kubectl create poddisruptionbudget hog --selector=name=hog --min-available=1")
    waits(terminal, "rc/hog", "jsonpath='{.status.readyReplicas}'=1")
    running(terminal, "ok")
    name = terminal.output("kubectl get pods -l name=hog -o name").removeprefix("pod/")

    terminal.output(f"kubectl annotate pod {name} sim.fairlead.dev/stop-seconds=60")  # deaf to SIGTERM

    use(terminal, "node hungry", memory=f"{10 * 1024 - 412 - 2048 - 900}Mi")

    evicted(terminal, name, seconds=40)
    terminal.prints(
        f"kubectl get pod {name} -o jsonpath='{{.status.phase}} {{.status.message}}'",
        "Failed The node was low on resource: memory. Threshold quantity: 500Mi, available: 412Mi. "
        "Container c was using 2Gi, request is 1Gi, has larger consumption of memory. ",
    )
    disruption = '{.status.conditions[?(@.type=="DisruptionTarget")]'
    terminal.prints(f"kubectl get pod {name} -o jsonpath='{disruption}.reason}}'", "TerminationByKubelet")
    shows(terminal, "hungry", "MemoryPressure")
    terminal.comes_to(
        "kubectl describe node hungry",
        """
        …
        Taints:  node.kubernetes.io/memory-pressure:NoSchedule
        …
        …MemoryPressure  True  …  KubeletHasInsufficientMemory  kubelet has insufficient memory available
        …
        …Warning  EvictionThresholdMet  …  kubelet  Attempting to reclaim memory
        …
        """,
    )
    terminal.comes_to(
        "kubectl get pods --sort-by=.metadata.creationTimestamp",
        f"""
        NAME       READY  STATUS   RESTARTS  AGE
        {name}  0/1  Error    0  …
        ok         1/1    Running  0         …
        hog-…      0/1    Pending  0         …
        """,
    )
    terminal.comes_to(
        "kubectl get events --field-selector reason=FailedScheduling", "…\n… node(s) had untolerated taint(s)…\n…"
    )


def pods_go_in_the_order_of_their_rank(terminal: Terminal) -> None:
    """SC-35: S3-71 to S3-75, S3-43."""
    gig, hundred_mi = {"memory": "1Gi"}, {"memory": "100Mi"}
    used = {
        "be-low": ("200Mi", container(), ""),
        "over-lo": ("1229Mi", container(requests=gig), ""),
        "over-hi": ("2Gi", container(requests=gig), "hi"),
        "be-hi": ("10Mi", container(), "hi"),
        "under-lo": ("1Gi", container(requests={"memory": "2Gi"}), "neg"),
        "guar": ("922Mi", container(limits=gig | {"cpu": "1"}), ""),
        "crit": ("1Gi", container(requests=hundred_mi), "system-node-critical"),
    }
    for name, (memory, only, priority) in used.items():
        manifest = pod(name, only, nodeName="ranked", priorityClassName=priority)
        terminal.output(CREATE, using(manifest, memory=memory))
    running(terminal, *used)
    left = dict(used)
    for name in ("over-lo", "be-low", "over-hi", "be-hi", "under-lo", "guar"):
        in_pods = sum(units(memory) for memory, _, _ in left.values()) // MI
        use(terminal, "node ranked", memory=f"{16 * 1024 - in_pods - 400}Mi")
        evicted(terminal, name)
        del left[name]
        alive = terminal.output("kubectl get pods --field-selector status.phase=Running -o name")
        assert set(alive.split()) == {f"pod/{survivor}" for survivor in left}, f"after {name}"


def of_two_that_fork_the_lower_priority_goes(terminal: Terminal) -> None:
    """SC-40: S3-60, S3-76."""
    x = using(pod("x", nodeName="forking"), pids="300")
    y = using(pod("y", nodeName="forking", priorityClassName="hi"), pids="500")
    terminal.output(CREATE, f"{x}\n---\n{y}")
    running(terminal, "x", "y")
    use(terminal, "node forking", pids="150")
    evicted(terminal, "x")
    terminal.prints(
        "kubectl get pod x -o jsonpath='{.status.message}'",
        "The node was low on resource: pids. Threshold quantity: 100, available: 50. ",
    )
    shows(terminal, "forking", "PIDPressure")
    running(terminal, "y")


def of_two_equals_that_fork_the_larger_goes(terminal: Terminal) -> None:
    """SC-40: S3-76."""
    x = using(pod("x", nodeName="forking-equals"), pids="300")
    y = using(pod("y", nodeName="forking-equals"), pids="500")
    terminal.output(CREATE, f"{x}\n---\n{y}")
    running(terminal, "x", "y")
    use(terminal, "node forking-equals", pids="150")
    evicted(terminal, "y")
    running(terminal, "x")


def files_without_number_cost_the_lower_priority_its_place(terminal: Terminal) -> None:
    """SC-40: S3-76; five of a hundred inodes must be left by default."""
    low = using(pod("low", nodeName="littered"), inodes="40000")
    high = using(pod("high", nodeName="littered", priorityClassName="hi"), inodes="50000")
    terminal.output(CREATE, f"{low}\n---\n{high}")
    running(terminal, "low", "high")
    use(terminal, "node littered", nodefs_inodes="8000")
    evicted(terminal, "low")
    terminal.prints(
        "kubectl get pod low -o jsonpath='{.status.message}'",
        "The node was low on resource: inodes. Threshold quantity: 5000, available: 2k. ",
    )
    shows(terminal, "littered", "DiskPressure")
    running(terminal, "high")


def short_of_memory_a_node_takes_only_who_requests_some(terminal: Terminal) -> None:
    """SC-41: S3-44. The condition outlasts the shortage, so nobody else is evicted meanwhile."""
    use(terminal, "node pressed", memory=f"{4 * 1024 - 50}Mi")
    shows(terminal, "pressed", "MemoryPressure")
    use(terminal, "node pressed", memory="100Mi")
    toleration = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}
    pods = (
        pod("be", nodeName="pressed"),
        pod("burstable", requests={"memory": "1Mi"}, nodeName="pressed"),
        pod("tolerant", nodeName="pressed", tolerations=[toleration]),
    )
    terminal.output(CREATE, "\n---\n".join(pods))
    evicted(terminal, "be")
    terminal.prints(
        "kubectl get pod be -o jsonpath='{.status.phase} {.status.message}'",
        "Failed Pod was rejected: The node had condition: [MemoryPressure]. ",
    )
    running(terminal, "burstable", "tolerant")


def short_of_disk_a_node_takes_only_critical_pods(terminal: Terminal) -> None:
    """SC-41: S3-44, S3-91."""
    use(terminal, "node full", nodefs="95Gi")
    shows(terminal, "full", "DiskPressure")
    use(terminal, "node full", nodefs="1Gi")
    burstable = pod("burstable", requests={"memory": "1Mi"}, nodeName="full")
    critical = pod("critical", nodeName="full", priorityClassName="system-node-critical")
    terminal.output(CREATE, f"{burstable}\n---\n{critical}")
    evicted(terminal, "burstable")
    terminal.prints(
        "kubectl get pod burstable -o jsonpath='{.status.message}'",
        "Pod was rejected: The node had condition: [DiskPressure]. ",
    )
    running(terminal, "critical")


STORIES: Final[tuple[Story, ...]] = (
    the_pod_furthest_above_its_request_goes_and_its_replacement_waits,
    pods_go_in_the_order_of_their_rank,
    of_two_that_fork_the_lower_priority_goes,
    of_two_equals_that_fork_the_larger_goes,
    files_without_number_cost_the_lower_priority_its_place,
    short_of_memory_a_node_takes_only_who_requests_some,
    short_of_disk_a_node_takes_only_critical_pods,
)


@pytest.mark.slow
def test_nodes_under_pressure_do_what_kubelets_do(cluster: Up, kubectl_path: Path, tmp_path: Path) -> None:
    """A test for all stories, for they share the time that passes."""
    terminals = {
        story: terminal_in(f"story-{number}", cluster.kubeconfig, tmp_path / f"home-{number}", kubectl_path)
        for number, story in enumerate(STORIES)
    }
    terminals[STORIES[0]].output(CREATE, CLASSES)
    with ThreadPoolExecutor(len(STORIES)) as threads:
        endings = [threads.submit(story, terminal) for story, terminal in terminals.items()]
    failures = [error for ending in endings if isinstance(error := ending.exception(), Exception)]
    if failures:
        raise ExceptionGroup("stories that went otherwise", failures)
