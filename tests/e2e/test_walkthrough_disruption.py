"""Pods that must not go all at once: budgets, the eviction that asks them, and `drain` (SC-52, SC-53)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from fairlead.api.objects import Obj
from tests.e2e.helpers.clusters import node
from tests.e2e.helpers.manifests import pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl

NODES = [node("n1"), node("n2")]

EVICTED = '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
REFUSED = f"Error from server (TooManyRequests): {VIOLATED}"
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
HEADER = "NAME   MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE"
HEALTH = "kubectl get pdb web-pdb -o jsonpath='{.status.currentHealthy} of {.status.desiredHealthy}'"
ROLLED_OUT = "kubectl rollout status deployment/web --timeout=30s"
DRAIN = "kubectl drain n1 --ignore-daemonsets --timeout"


@pytest.fixture(autouse=True)
def left_schedulable(terminal: Terminal) -> Iterator[None]:
    """Whatever a test does to the nodes, the next one finds them in use."""
    yield
    terminal.output("kubectl uncordon n1 n2")


@pytest.fixture
def web(terminal: Terminal) -> Terminal:
    """A terminal in a namespace with two pods of the deployment `web` on n1, and a budget that needs both."""
    terminal.output("kubectl cordon n2")
    terminal.output("kubectl create deployment web --image=nginx --replicas=2")
    terminal.output(ROLLED_OUT)
    terminal.output("kubectl uncordon n2")
    created = "kubectl create pdb web-pdb --selector=app=web --min-available=2"
    terminal.prints(created, "poddisruptionbudget.policy/web-pdb created")
    terminal.comes_to(HEALTH, "2 of 2")
    return terminal


def pods(terminal: Terminal, phase: str = "Running") -> list[str]:
    """The names of the pods of that phase."""
    chosen = f"kubectl get pods --field-selector=status.phase={phase} -o jsonpath='{{.items[*].metadata.name}}'"
    return terminal.output(chosen).split()


def grown(terminal: Terminal) -> None:
    """A third replica runs, so that one may go."""
    terminal.output("kubectl scale deployment web --replicas=3")
    terminal.output(ROLLED_OUT)
    terminal.comes_to("kubectl get pdb", f"{HEADER}\nweb-pdb  2  N/A  1  …")


def readiness(terminal: Terminal, status: str) -> None:
    """The pods that run now are ready or not. A simulated pod is until somebody says otherwise."""
    change = f'{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}'
    terminal.output(f"kubectl patch pods {' '.join(pods(terminal))} --subresource=status -p '{change}'")


def eviction(namespace: str, name: str, version: str = "policy/v1") -> tuple[str, str]:
    """The command that posts an eviction of the pod, and what it posts."""
    manifest = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    return f"kubectl create --raw {path} -f -", json.dumps(manifest)


def evicts(terminal: Terminal, namespace: str, name: str) -> None:
    """The pod may go."""
    command, manifest = eviction(namespace, name)
    terminal.prints(command, EVICTED, manifest)


def refuses(terminal: Terminal, namespace: str, name: str, shown: str) -> Obj:
    """The pod may not go; the whole answer, which kubectl keeps to itself unless asked."""
    command, manifest = eviction(namespace, name)
    terminal.refuses(command, shown, manifest)
    told = re.search(r"response object: .*?\[(\{.*^\})\]", terminal.run(f"{command} -v=9", manifest).err, re.S | re.M)
    assert told
    answer: Obj = json.loads(told.group(1))
    return answer


@every_kubectl
def test_a_budget_is_shown_with_what_it_allows(web: Terminal) -> None:
    """SC-52, S3-106, S3-107: a percentage is rounded up."""
    web.prints("kubectl get pdb", f"{HEADER}\nweb-pdb  2  N/A  0  …")
    grown(web)
    web.output("kubectl delete pdb web-pdb && kubectl create pdb half --selector=app=web --max-unavailable=50%")
    web.comes_to("kubectl get pdb", f"{HEADER}\nhalf  N/A  50%  2  …")
    numbers = "{.status['expectedPods','currentHealthy','desiredHealthy','disruptionsAllowed']}"
    web.prints(f'kubectl get pdb half -o jsonpath="{numbers}"', "3 3 1 2")


def test_an_eviction_against_the_budget_is_refused_and_says_which(web: Terminal, namespace: str) -> None:
    """SC-52, S3-97."""
    answer = refuses(web, namespace, pods(web)[0], REFUSED)
    assert (answer["code"], answer["reason"], answer["message"]) == (429, "TooManyRequests", VIOLATED)
    needed = "The disruption budget web-pdb needs 2 healthy pods and has 2 currently"
    assert answer["details"]["causes"] == [{"reason": "DisruptionBudget", "message": needed}]
    assert len(pods(web)) == 2


def test_two_evictions_cannot_both_take_the_last_allowance(web: Terminal, namespace: str) -> None:
    """SC-52, S3-100, S3-102: cordoned nodes keep the replacement Pending, and a pending pod asks no budget."""
    grown(web)
    web.output("kubectl cordon n1 n2")
    watch = "kubectl get pdb web-pdb --watch -o jsonpath='{.status.disruptedPods}{\"\\n\"}'"
    watcher = web.output(f"{watch} >~/watched 2>&1 & echo $!")
    web.comes_to("wc -l <~/watched", "1")
    first, second, _ = pods(web)
    evicts(web, namespace, first)
    refuses(web, namespace, second, REFUSED)
    web.comes_to(f"grep -c -m 1 {first} ~/watched", "1")
    web.output(f"kill {watcher}")
    web.comes_to(HEALTH, "2 of 2")
    web.comes_to("kubectl get pods --field-selector=status.phase=Pending -o name", "pod/web-…")
    (pending,) = pods(web, "Pending")
    evicts(web, namespace, pending)


def test_two_budgets_for_one_pod_are_a_mistake(web: Terminal, namespace: str) -> None:
    """SC-52, S3-98."""
    web.output("kubectl create pdb another --selector=app=web --min-available=1")
    answer = refuses(web, namespace, pods(web)[0], f"Error from server: {TWO_BUDGETS}")
    assert (answer["code"], answer["message"]) == (500, TWO_BUDGETS)


def test_what_does_no_work_may_go_if_the_budget_says_so(web: Terminal, namespace: str) -> None:
    """S3-100: by default only while enough others are healthy."""
    readiness(web, "False")
    web.comes_to(HEALTH, "0 of 2")
    name = pods(web)[0]
    refuses(web, namespace, name, REFUSED)
    web.output("""kubectl patch pdb web-pdb -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'""")
    evicts(web, namespace, name)


def test_without_a_budget_an_eviction_is_a_deletion_that_says_why(terminal: Terminal, namespace: str) -> None:
    """S3-94 to S3-96, S3-99, S3-101, S3-102."""
    terminal.output("kubectl create -f -", pod("quux"))
    terminal.output("kubectl wait pod/quux --for=condition=Ready --timeout=20s")
    terminal.output("kubectl annotate pod quux sim.fairlead.dev/stop-seconds=20")
    command, manifest = eviction(namespace, "quux", "policy/v1beta1")
    mismatch = "Error from server (BadRequest): name in URL does not match name in Eviction object"
    terminal.refuses(command, mismatch, manifest.replace("quux", "quuz"))
    terminal.prints(command.replace("/eviction", "/eviction?dryRun=All"), EVICTED, manifest)
    terminal.prints("kubectl get pods --no-headers", "quux 1/1 Running 0 …")
    terminal.prints(command, EVICTED, manifest)
    terminal.prints("kubectl get pods --no-headers", "quux 1/1 Terminating 0 …")
    told = "{.status.conditions[?(@.type=='DisruptionTarget')]['reason','message']}"
    terminal.prints(f'kubectl get pod quux -o jsonpath="{told}"', "EvictionByEvictionAPI Eviction API: evicting")
    terminal.output("kubectl delete pod quux --force --grace-period=0")


@pytest.mark.slow
def test_a_drain_is_stuck_until_the_application_is_healthy(web: Terminal, namespace: str) -> None:
    """SC-53, S3-104, S3-105, S0-06."""
    readiness(web, "False")
    web.comes_to(HEALTH, "0 of 2")
    stuck = web.run(f"{DRAIN}=4s")
    assert stuck.code == 1
    assert stuck.out.startswith("node/n1 cordoned\n")
    for name in pods(web):
        assert f"evicting pod {namespace}/{name}\n" in stuck.out
        failed = f'error when evicting pods/"{name}" -n "{namespace}"'
        assert f"{failed} (will retry after 5s): {VIOLATED}\n" in stuck.err
        assert f"{failed}: global timeout reached: 4s\n" in stuck.err
    assert len(pods(web)) == 2
    web.prints("kubectl get node n1 --no-headers", "n1 Ready,SchedulingDisabled <none> … v1.36…")

    readiness(web, "True")
    grown(web)
    drained = web.output(f"{DRAIN}=50s").splitlines()
    assert len([line for line in drained if line.endswith(" evicted")]) == 2, drained
    assert drained[-1] == "node/n1 drained"
    web.output(ROLLED_OUT)
    nodes = "kubectl get pods --no-headers -o custom-columns=N:.spec.nodeName,P:.status.phase"
    web.prints(nodes, "n2 Running\n" * 3)


def test_a_pod_deleted_by_hand_asks_no_budget(web: Terminal, namespace: str) -> None:
    """SC-53, S3-105: the other way out of a drain that is stuck."""
    web.output("kubectl cordon n1 n2")
    name = pods(web)[0]
    refuses(web, namespace, name, REFUSED)
    web.prints(f"kubectl delete pod {name}", f'pod "{name}" deleted…')
    web.comes_to(HEALTH, "1 of 2")
