"""What the kernel of a node does about memory, and what becomes of the pods (SC-10, SC-11, SC-17, SC-55, SC-56)."""

from __future__ import annotations

from typing import Final

import pytest

from tests.e2e.helpers.clusters import node
from tests.e2e.helpers.manifests import container, pod, replication_controller
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.usage import kubelet_config, use, using

CREATE: Final = "kubectl create -f -"
NODES = [
    node("three", cpu="16", memory="4Gi", allocatable_memory="3Gi", story="three"),
    node("big", cpu="64", memory="32Gi", story="big"),
    node("leaking", story="leaking"),
    node("exhausted", memory="10Gi", cpu="16"),
    node("group"),
    node("single", annotations=kubelet_config({"singleProcessOOMKill": True})),
]
GIG = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}
LEAK = """
apiVersion: v1
kind: Pod
metadata: {name: simmemleak-hra99, labels: {name: simmemleak}}
spec:
  nodeSelector: {story: leaking}
  containers: [{name: simmemleak, image: saadali/simmemleak, resources: {limits: {cpu: 100m, memory: 50Mi}}}]
"""
LAST_STATE = (
    '{{range.status.containerStatuses}}{{"Container Name: "}}{{.name}}{{"\\r\\nLastState: "}}{{.lastState}}{{end}}'
)


def restarts(terminal: Terminal, *names: str) -> list[str]:
    columns = "-o custom-columns=R:.status.containerStatuses[*].restartCount --no-headers"
    return terminal.output(f"kubectl get pods {' '.join(names)} {columns}").split()


@pytest.mark.slow
def test_what_is_used_makes_no_room_for_what_is_requested(terminal: Terminal) -> None:
    """SC-10, S0-50 to S0-53, S0-67."""
    terminal.output(CREATE, replication_controller("one-gig", 4, nodeSelector={"story": "three"}, **GIG))
    terminal.output("kubectl wait rc/one-gig --for=jsonpath='{.status.readyReplicas}'=3 --timeout=30s")
    use(terminal, "pods --all", memory="400Mi")
    terminal.comes_to("kubectl top pods --no-headers", "one-gig-… 400Mi\none-gig-… 400Mi\none-gig-… 400Mi", seconds=60)
    terminal.prints(
        "kubectl get pods --no-headers --sort-by=.status.phase",
        """
        one-gig-…  0/1  Pending  0  …
        one-gig-…  1/1  Running  0  …
        one-gig-…  1/1  Running  0  …
        one-gig-…  1/1  Running  0  …
        """,
    )
    terminal.prints("kubectl get events --field-selector reason=FailedScheduling", "…\n… 1 Insufficient memory, …\n…")
    terminal.output("kubectl scale rc one-gig --replicas=3")
    terminal.comes_to("kubectl get pods --no-headers --field-selector status.phase=Pending", "No resources found …")


def test_oversubscription_holds_until_the_peaks_coincide(terminal: Terminal) -> None:
    """SC-11, S0-53, S0-106."""
    for name, replicas, memory in (("day", 16, "1900Mi"), ("night", 17, "50Mi")):
        manifest = replication_controller(name, replicas, nodeSelector={"story": "big"}, **GIG)
        terminal.output(CREATE, using(manifest, memory=memory))
    terminal.output("kubectl wait rc/day rc/night --for=jsonpath='{.status.readyReplicas}'=16 --timeout=60s")
    terminal.prints("kubectl describe node big", "…\nmemory  32Gi (100%)  64Gi (200%)\n…")
    assert set(restarts(terminal)) == {"0", "<none>"}

    use(terminal, "pods -l name=night", memory="1900Mi")

    terminal.comes_to("kubectl get pods -o jsonpath='{..lastState.terminated.reason}'", "OOMKilled…")


def test_a_leak_dies_at_its_limit_and_waits_longer_each_time(terminal: Terminal) -> None:
    """SC-17, S0-64, S0-75 to S0-77, S0-112, S4-08; five kills are in tests/sim, in virtual time."""
    terminal.output(CREATE, LEAK)
    waiting = "jsonpath='{.status.containerStatuses[0].state.waiting.reason}'=CrashLoopBackOff"
    terminal.output(f"kubectl wait pod/simmemleak-hra99 --for={waiting} --timeout=60s")
    terminal.prints(
        "kubectl get pods",
        """
        NAME               READY  STATUS             RESTARTS    AGE
        simmemleak-hra99   0/1    CrashLoopBackOff   1 (… ago)   …
        """,
    )
    terminal.prints(
        "kubectl describe pod simmemleak-hra99",
        """
        …
            State:          Waiting
              Reason:       CrashLoopBackOff
            Last State:     Terminated
              Reason:       OOMKilled
              Exit Code:    137
              Started:      …
              Finished:     …
            Ready:          False
            Restart Count:  1
        …
        """,
    )
    terminal.prints(
        f"kubectl get pod -o go-template='{LAST_STATE}' simmemleak-hra99",
        "Container Name: simmemleak\n"
        "LastState: map[terminated:map[containerID:containerd://… exitCode:137 finishedAt:… reason:OOMKilled "
        "startedAt:…]]",
    )
    namespace = terminal.output("kubectl config view --minify -o jsonpath='{..namespace}'")
    terminal.comes_to(
        "kubectl get events --sort-by=.metadata.creationTimestamp -o custom-columns=R:.reason,M:.message --no-headers",
        f"""
        Scheduled  Successfully assigned {namespace}/simmemleak-hra99 to leaking
        …
        BackOff  Back-off restarting failed container simmemleak in pod simmemleak-hra99_…
        """,
    )
    reasons = terminal.output("kubectl get events -o jsonpath='{.items[*].reason}'").split()
    assert {"Pulled", "Created", "Started"} <= set(reasons)


def test_the_kernel_of_an_exhausted_node_kills_by_score(terminal: Terminal) -> None:
    """SC-55: S3-84, S3-87, S4-12, S4-20. The host takes the memory; the highest score dies, not the lowest rank."""
    used = {
        "c1": ("1536Mi", container(requests={"memory": "1Gi"})),
        "c2": ("3994Mi", container(requests={"memory": "4Gi"})),
        "guar": ("1Gi", container(limits={"cpu": "1", "memory": "1Gi"})),
        "idle": ("1Mi", container()),
        "hungry": ("1Gi", container()),
    }
    manifests = [using(pod(name, only, nodeName="exhausted"), memory=memory) for name, (memory, only) in used.items()]
    terminal.output(CREATE, "\n---\n".join(manifests))
    terminal.output(f"kubectl wait {' '.join(f'pod/{name}' for name in used)} --for=condition=Ready --timeout=30s")
    in_pods = 1536 + 3994 + 1024 + 1 + 1024
    killed = "jsonpath='{.status.containerStatuses[0].lastState.terminated.reason}'=OOMKilled"

    use(terminal, "node exhausted", memory=f"{10 * 1024 - in_pods + 100}Mi")
    terminal.output(f"kubectl wait pod/hungry --for={killed} --timeout=30s")
    assert restarts(terminal, "c1", "c2", "guar", "idle") == ["0"] * 4

    use(terminal, "node exhausted", memory=f"{10 * 1024 - (in_pods - 1024) + 100}Mi")
    terminal.output(f"kubectl wait pod/c1 --for={killed} --timeout=30s")
    assert restarts(terminal, "c2", "guar", "idle") == ["0"] * 3


def test_a_limit_kills_the_whole_container_or_the_child_alone(terminal: Terminal) -> None:
    """SC-56: S0-115, S4-08 to S4-10; `singleProcessOOMKill` spares the first process."""
    main = container("main", limits={"memory": "100Mi"})
    for name in ("group", "single"):
        terminal.output(CREATE, using(pod(name, main, container("beside"), nodeName=name), memory="1Mi"))
    terminal.output("kubectl wait pod/group pod/single --for=condition=Ready --timeout=30s")
    of_child = "main.sim.fairlead.dev/usage-child-memory"
    terminal.output(f"kubectl annotate pod group single '{of_child}=ramp(from=10Mi, to=200Mi, over=10s)'")
    status = "jsonpath='{.status.containerStatuses[?(@.name==\"main\")].lastState.terminated.reason}'"
    terminal.output(f"kubectl wait pod/group --for={status}=OOMKilled --timeout=30s")
    assert restarts(terminal, "single") == ["0,0"]
    of_beside = '{.status.containerStatuses[?(@.name=="beside")].restartCount}'
    terminal.prints(f"kubectl get pod group -o jsonpath='{of_beside}'", "0")
