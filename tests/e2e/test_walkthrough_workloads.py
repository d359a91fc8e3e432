"""Run several copies: scale, roll out, look back, pause, delete."""

from __future__ import annotations

import json

import pytest

from fairlead.api.objects import Obj
from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl

IMAGES = "kubectl get pods -o jsonpath='{range .items[*]}{.spec.containers[0].image}{\"\\n\"}{end}' | sort -u"
ROLLED_OUT = "kubectl rollout status deployment/web --timeout=30s | tail -n 1"


@pytest.fixture
def web(terminal: Terminal) -> Terminal:
    """A terminal in a namespace with the deployment `web`, three pods of it available."""
    created = "kubectl create deployment web --image=nginx:1.26 --replicas=3"
    terminal.prints(created, "deployment.apps/web created")
    terminal.prints(ROLLED_OUT, 'deployment "web" successfully rolled out')
    return terminal


def history(*revisions: int) -> str:
    rows = "\n".join(f"{revision}  <none>" for revision in revisions)
    return f"deployment.apps/web\nREVISION  CHANGE-CAUSE\n{rows}"


def workload(kind: str, **spec: object) -> str:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container("web")]}}
    manifest: Obj = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }
    return json.dumps(manifest)


@every_kubectl
def test_a_deployment_is_shown_with_its_replica_set_and_pods(web: Terminal) -> None:
    """X-03, X-10."""
    web.prints(
        "kubectl get deployments,replicasets,pods",
        """
        NAME                  READY   UP-TO-DATE   AVAILABLE   AGE
        deployment.apps/web   3/3     3            3           …

        NAME                   DESIRED   CURRENT   READY   AGE
        replicaset.apps/web-…  3         3         3       …

        NAME           READY   STATUS    RESTARTS   AGE
        pod/web-…-…    1/1     Running   0          …
        pod/web-…-…    1/1     Running   0          …
        pod/web-…-…    1/1     Running   0          …
        """,
    )
    web.prints(
        "kubectl get deployment web -o wide",
        """
        NAME   READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES       SELECTOR
        web    3/3     3            3           …     nginx        nginx:1.26   app=web
        """,
    )
    web.prints(
        "kubectl describe deployment web | grep -v ^Creation",
        """
        Name:                   web
        Namespace:              …
        Labels:                 app=web
        Annotations:            deployment.kubernetes.io/revision: 1
        Selector:               app=web
        Replicas:               3 desired | 3 updated | 3 total | 3 available | 0 unavailable
        StrategyType:           RollingUpdate
        MinReadySeconds:        0
        RollingUpdateStrategy:  25% max unavailable, 25% max surge
        Pod Template:
          Labels:  app=web
          Containers:
           nginx:
            Image:         nginx:1.26
            Port:          <none>
            Host Port:     <none>
            Environment:   <none>
            Mounts:        <none>
          Volumes:         <none>
          …
        Conditions:
          Type           Status  Reason
          ----           ------  ------
          Available      True    MinimumReplicasAvailable
          Progressing    True    NewReplicaSetAvailable
        OldReplicaSets:  <none>
        NewReplicaSet:   web-… (3/3 replicas created)
        Events:
          Type    Reason             Age   From                   Message
          ----    ------             ----  ----                   -------
          Normal  ScalingReplicaSet  …     deployment-controller  Scaled up replica set web-… from 0 to 3
        """,
    )


def test_a_deployment_grows_and_shrinks(web: Terminal) -> None:
    """X-06, X-10."""
    web.prints("kubectl scale deployment/web --replicas=5", "deployment.apps/web scaled")
    web.prints(ROLLED_OUT, 'deployment "web" successfully rolled out')
    web.prints("kubectl get deployment web --no-headers", "web  5/5  5  5  …")
    web.prints("kubectl scale deployment/web --current-replicas=5 --replicas=0", "deployment.apps/web scaled")
    web.comes_to("kubectl get pods", "No resources found in … namespace.")
    web.prints("kubectl get deployment web --no-headers", "web  0/0  0  0  …")
    web.refuses(
        "kubectl scale deployment/web --current-replicas=5 --replicas=1",
        "error: Expected replicas to be 5, was 0",
    )


@every_kubectl
def test_a_rollout_is_followed_looked_back_upon_and_undone(web: Terminal) -> None:
    """X-10."""
    web.prints("kubectl set image deployment/web nginx=nginx:1.27", "deployment.apps/web image updated")
    web.prints(ROLLED_OUT, 'deployment "web" successfully rolled out')
    web.comes_to(IMAGES, "nginx:1.27")
    web.prints("kubectl rollout history deployment/web", history(1, 2))
    web.prints(
        "kubectl rollout history deployment/web --revision=1",
        """
        deployment.apps/web with revision #1
        Pod Template:
          Labels:  app=web
          pod-template-hash=…
          Containers:
           nginx:
            Image:        nginx:1.26
            Port:         <none>
            Host Port:    <none>
            Environment:  <none>
            Mounts:       <none>
          Volumes:        <none>
          …
        """,
    )
    web.prints("kubectl rollout undo deployment/web", "deployment.apps/web rolled back")
    web.prints(ROLLED_OUT, 'deployment "web" successfully rolled out')
    web.comes_to(IMAGES, "nginx:1.26")
    web.prints("kubectl rollout history deployment/web", history(2, 3))
    again = "deployment.apps/web skipped rollback (current template already matches revision 3)"
    web.prints("kubectl rollout undo deployment/web --to-revision=3", again)
    web.refuses(
        "kubectl rollout undo deployment/web --to-revision=9", "error: unable to find specified revision 9 in history"
    )


def test_a_paused_deployment_waits_with_what_is_new(web: Terminal) -> None:
    """X-10."""
    web.prints("kubectl rollout pause deployment/web", "deployment.apps/web paused")
    web.refuses("kubectl rollout pause deployment/web", 'error: deployments.apps "web" is already paused')
    web.output("kubectl set image deployment/web nginx=nginx:1.27")
    web.comes_to("kubectl get deployment web --no-headers", "web  3/3  0  3  …")
    web.refuses(
        "kubectl rollout undo deployment/web --to-revision=1",
        "error: you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again",
    )
    web.prints(IMAGES, "nginx:1.26")
    web.prints("kubectl rollout resume deployment/web", "deployment.apps/web resumed")
    web.prints(ROLLED_OUT, 'deployment "web" successfully rolled out')
    web.comes_to(IMAGES, "nginx:1.27")


def test_a_restart_replaces_every_pod(web: Terminal) -> None:
    """X-10."""
    before = set(web.output("kubectl get pods -o name").split())
    web.prints("kubectl rollout restart deployment/web", "deployment.apps/web restarted")
    web.prints(ROLLED_OUT, 'deployment "web" successfully rolled out')
    web.comes_to("kubectl get pods -o name | wc -l", "3")
    assert not before & set(web.output("kubectl get pods -o name").split())


def test_a_rollout_that_cannot_go_on_is_told_so(web: Terminal) -> None:
    """X-10, S0-67: the new pod fits nowhere, the old ones stay."""
    web.output("kubectl set resources deployment/web --requests=cpu=1000")
    progress = 'Waiting for deployment "web" rollout to finish: 1 out of 3 new replicas have been updated...'
    answer = web.run("kubectl rollout status deployment/web --timeout=2s")
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == progress
    assert answer.err.strip() == "error: timed out waiting for the condition"
    web.comes_to("kubectl get deployment web --no-headers", "web  3/3  1  3  …")


def test_a_stateful_set_numbers_its_pods(terminal: Terminal) -> None:
    """X-10."""
    manifest = workload("StatefulSet", replicas=3, serviceName="web")
    terminal.prints("kubectl create -f -", "statefulset.apps/web created", manifest)
    finished = "kubectl rollout status statefulset/web --timeout=30s | tail -n 1"
    terminal.prints(finished, "partitioned roll out complete: 3 new pods have been updated...")
    terminal.prints("kubectl get pods -o name", "pod/web-0\npod/web-1\npod/web-2")
    terminal.prints("kubectl get statefulsets", "NAME READY AGE\nweb 3/3 …")
    terminal.prints("kubectl scale statefulset web --replicas=1", "statefulset.apps/web scaled")
    terminal.comes_to("kubectl get pods -o name", "pod/web-0")


def test_a_daemon_set_runs_on_every_node_even_a_cordoned_one(terminal: Terminal) -> None:
    """X-10, S0-10."""
    terminal.output("kubectl cordon node-1")
    terminal.prints("kubectl create -f -", "daemonset.apps/web created", workload("DaemonSet"))
    finished = "kubectl rollout status daemonset/web --timeout=30s | tail -n 1"
    terminal.prints(finished, 'daemon set "web" successfully rolled out')
    terminal.prints(
        "kubectl get daemonsets",
        """
        NAME   DESIRED   CURRENT   READY   UP-TO-DATE   AVAILABLE   NODE SELECTOR   AGE
        web    1         1         1       1            1           <none>          …
        """,
    )
    terminal.output("kubectl uncordon node-1")


@every_kubectl
def test_what_is_deleted_takes_its_own_along_unless_told_otherwise(web: Terminal) -> None:
    """X-09."""
    web.prints("kubectl delete deployment web --cascade=orphan", 'deployment.apps "web" deleted…')
    web.comes_to("kubectl get replicasets -o jsonpath='{.items[*].metadata.ownerReferences}'", "")
    web.prints("kubectl get replicasets --no-headers", "web-…  3  3  3  …")
    web.prints("kubectl delete replicasets -l app=web", 'replicaset.apps "web-…" deleted…')
    web.comes_to("kubectl get all", "No resources found in … namespace.")


@every_kubectl
def test_pods_are_deleted_by_name_by_label_and_at_once(terminal: Terminal) -> None:
    """X-09."""
    for name in ("a", "b", "c", "d"):
        terminal.prints(f"kubectl run {name} --image=nginx --labels=keep={name}", f"pod/{name} created")
    terminal.output("kubectl wait pods --all --for=condition=Ready --timeout=20s")
    terminal.prints("kubectl delete pod a", 'pod "a" deleted…')
    terminal.refuses("kubectl delete pod a", 'Error from server (NotFound): pods "a" not found')
    terminal.prints("kubectl delete pod a --ignore-not-found", "")
    terminal.prints("kubectl delete pods -l keep=b", 'pod "b" deleted…')
    forced = terminal.run("kubectl delete pod c --force --grace-period=0")
    assert forced.out.startswith('pod "c" force deleted')
    assert forced.err.startswith("Warning: Immediate deletion does not wait for confirmation")
    terminal.prints("kubectl delete pods --all --now", 'pod "d" deleted…')
    terminal.prints("kubectl get pods", "No resources found in … namespace.")


def test_a_pod_takes_its_time_to_stop_and_waiting_for_it_ends_when_it_has(terminal: Terminal) -> None:
    """X-04, X-09."""
    slow = json.loads(pod("slow"))
    slow["metadata"]["annotations"] = {"sim.fairlead.dev/stop-seconds": "4"}
    terminal.output("kubectl create -f -", json.dumps(slow))
    terminal.output("kubectl wait pod/slow --for=condition=Ready --timeout=20s")
    waiting = "kubectl wait pod/slow --for=delete --timeout=30s > ~/waited 2>&1 &"
    terminal.prints(f"{waiting} kubectl delete pod slow --wait=false", 'pod "slow" deleted…')
    terminal.prints("kubectl get pods --no-headers", "slow  1/1  Terminating  0  …")
    terminal.comes_to("cat ~/waited", "pod/slow condition met")
