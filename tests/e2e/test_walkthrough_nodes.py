"""Take a node out of scheduling and give it back: replace, patch, cordon, drain (SC-04, SC-05)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.helpers.clusters import node
from tests.e2e.helpers.manifests import pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl

NODES = [node("k8s-node-1", cpu="2", memory="4Gi")]

READY = """
    NAME         STATUS   ROLES    AGE   VERSION
    k8s-node-1   Ready    <none>   …     v1.36…
"""
DISABLED = """
    NAME         STATUS                     ROLES    AGE   VERSION
    k8s-node-1   Ready,SchedulingDisabled   <none>   …     v1.36…
"""
UNSCHEDULABLE = (
    "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
TAINTS = "kubectl get node k8s-node-1 -o jsonpath='{range .spec.taints[*]}{.key}:{.effect}{end}'"


@pytest.fixture(autouse=True)
def left_schedulable(terminal: Terminal) -> Iterator[None]:
    """Whatever a test does to the node, the next one finds it in use."""
    yield
    terminal.output("kubectl uncordon k8s-node-1")


def test_a_node_is_isolated_by_replace_and_given_back_by_patch(terminal: Terminal) -> None:
    """SC-04, S0-01 to S0-07: what runs there runs on, what is new waits, and starts without being made anew."""
    terminal.output("kubectl create -f -", pod("old", requests={"cpu": "100m"}))
    terminal.output("kubectl wait pod/old --for=condition=Ready --timeout=20s")
    terminal.prints("kubectl replace -f unschedule_node.yaml", "node/k8s-node-1 replaced")
    terminal.prints("kubectl get nodes", DISABLED)
    terminal.prints("kubectl get node k8s-node-1 -o jsonpath='{.status.capacity.memory}'", "4Gi")

    terminal.prints("kubectl run late --image=nginx", "pod/late created")
    terminal.comes_to(
        "kubectl describe pod late | grep -A 3 Events",
        f"""
        Events:
          Type     Reason            Age   From               Message
          ----     ------            ----  ----               -------
          Warning  FailedScheduling  …     default-scheduler  {UNSCHEDULABLE}
        """,
    )
    terminal.prints(
        "kubectl get pods",
        """
        NAME   READY   STATUS    RESTARTS   AGE
        late   0/1     Pending   0          …
        old    1/1     Running   0          …
        """,
    )
    uid = terminal.output("kubectl get pod late -o jsonpath='{.metadata.uid}'")
    schedulable = """kubectl patch node k8s-node-1 -p '{"spec":{"unschedulable":false}}'"""
    terminal.prints(schedulable, "node/k8s-node-1 patched")
    terminal.prints(schedulable, "node/k8s-node-1 patched (no change)")
    terminal.prints("kubectl wait pod/late --for=condition=Ready --timeout=20s", "pod/late condition met")
    assert terminal.output("kubectl get pod late -o jsonpath='{.metadata.uid}'") == uid
    terminal.prints("kubectl get nodes", READY)


def test_a_node_renews_its_lease_and_reports_its_conditions(terminal: Terminal) -> None:
    """S0-15: `describe` shows both."""
    terminal.prints(
        "kubectl describe node k8s-node-1 | sed -n '/^Lease/,/^Addresses/p'",
        """
        Lease:
          HolderIdentity:  k8s-node-1
          AcquireTime:     <unset>
          RenewTime:       …
        Conditions:
          Type             Status  LastHeartbeatTime  LastTransitionTime  Reason  Message
          ----             ------  -----------------  ------------------  ------  -------
          MemoryPressure   False   …   KubeletHasSufficientMemory   kubelet has sufficient memory available
          DiskPressure     False   …   KubeletHasNoDiskPressure     kubelet has no disk pressure
          PIDPressure      False   …   KubeletHasSufficientPID      kubelet has sufficient PID available
          Ready            True    …   KubeletReady                 kubelet is posting ready status
        Addresses:
        """,
    )


def test_replace_may_not_take_away_a_pod_network(terminal: Terminal) -> None:
    """SC-04, S0-02."""
    given = (
        '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "routed"}, "spec": {"podCIDRs": ["10.1.0.0/24"]}}'
    )
    terminal.prints("kubectl create -f -", "node/routed created", given)
    terminal.refuses(
        "sed s/k8s-node-1/routed/ unschedule_node.yaml | kubectl replace -f -",
        'The Node "routed" is invalid: spec.podCIDRs: Forbidden: '
        'node updates may not change podCIDR except from "" to valid',
    )
    terminal.prints("kubectl delete node routed", 'node "routed" deleted')


@every_kubectl
def test_cordon_is_a_mark_and_a_taint_that_pods_may_tolerate(terminal: Terminal) -> None:
    """SC-05, S0-08 to S0-11."""
    terminal.prints("kubectl cordon k8s-node-1", "node/k8s-node-1 cordoned")
    terminal.prints("kubectl cordon k8s-node-1", "node/k8s-node-1 already cordoned")
    terminal.prints("kubectl get nodes", DISABLED)
    terminal.comes_to(TAINTS, "node.kubernetes.io/unschedulable:NoSchedule")
    tolerant = pod("tolerant", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    terminal.output("kubectl create -f -", tolerant)
    terminal.prints("kubectl wait pod/tolerant --for=condition=Ready --timeout=20s", "pod/tolerant condition met")
    terminal.prints("kubectl uncordon k8s-node-1", "node/k8s-node-1 uncordoned")
    terminal.prints("kubectl uncordon k8s-node-1", "node/k8s-node-1 already uncordoned")
    terminal.prints("kubectl get nodes", READY)
    terminal.comes_to(TAINTS, "")


def test_cordoning_is_told_by_events_of_the_node(terminal: Terminal) -> None:
    """S0-11."""
    terminal.output("kubectl cordon k8s-node-1 && kubectl uncordon k8s-node-1")
    terminal.comes_to(
        "kubectl describe node k8s-node-1 | grep -o 'Normal .*Schedulable.*' | sort -u -k 2,2",
        """
        Normal  NodeNotSchedulable  …  Node k8s-node-1 status is now: NodeNotSchedulable
        Normal  NodeSchedulable     …  Node k8s-node-1 status is now: NodeSchedulable
        """,
    )


@every_kubectl
def test_drain_evicts_and_leaves_the_node_cordoned(terminal: Terminal, namespace: str) -> None:
    """S0-06, S3-104: pods that no controller would replace need --force."""
    terminal.output("kubectl create deployment web --image=nginx")
    terminal.output("kubectl wait deployment/web --for=condition=Available --timeout=20s")
    terminal.output("kubectl run alone --image=nginx")
    terminal.output("kubectl wait pod/alone --for=condition=Ready --timeout=20s")
    refusal = terminal.run("kubectl drain k8s-node-1 --pod-selector '!nothing' --dry-run=server")
    assert refusal.code == 1
    assert f"(use --force to override): {namespace}/alone" in refusal.err
    terminal.output("kubectl delete pod alone")
    drained = terminal.output("kubectl drain k8s-node-1").splitlines()
    assert drained[0] == "node/k8s-node-1 cordoned"
    assert any(line.startswith("pod/web-") and line.endswith(" evicted") for line in drained), drained
    assert drained[-1] == "node/k8s-node-1 drained"
    terminal.prints("kubectl get nodes", DISABLED)
    terminal.comes_to("kubectl get pods --no-headers | awk '{print $3}'", "Pending")
    terminal.output("kubectl uncordon k8s-node-1")
    terminal.output("kubectl wait deployment/web --for=condition=Available --timeout=20s")


def test_taints_are_added_changed_and_removed(terminal: Terminal) -> None:
    """S0-10: a pod that does not tolerate a taint waits and is told which kind of trouble it is."""
    terminal.prints("kubectl taint node k8s-node-1 team=db:NoSchedule", "node/k8s-node-1 tainted")
    terminal.refuses(
        "kubectl taint node k8s-node-1 team=web:NoSchedule",
        "error: node k8s-node-1 already has team taint(s) with same effect(s) and --overwrite is false",
    )
    terminal.output("kubectl run web --image=nginx")
    terminal.comes_to(
        "kubectl get events --field-selector reason=FailedScheduling -o jsonpath='{.items[0].message}'",
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )
    terminal.prints("kubectl taint node k8s-node-1 team:NoSchedule-", "node/k8s-node-1 untainted")
    terminal.prints("kubectl wait pod/web --for=condition=Ready --timeout=20s", "pod/web condition met")
