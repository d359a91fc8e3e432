"""The other things that people do with kubectl: apply, compare, explain, edit, wait, watch, ask for usage."""

from __future__ import annotations

import json

from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal
from tests.e2e.helpers.versions import every_kubectl

APPLY = "kubectl apply -f -"


def config_map(**data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})


@every_kubectl
def test_applying_creates_changes_or_leaves_alone(terminal: Terminal) -> None:
    """SC-01, X-05: `diff` tells beforehand, by its exit code too."""
    terminal.prints(APPLY, "configmap/m created", config_map(colour="red"))
    terminal.prints(APPLY, "configmap/m unchanged", config_map(colour="red"))
    terminal.prints("kubectl diff -f -", "", config_map(colour="red"))
    answer = terminal.run("kubectl diff -f -", config_map(colour="blue"))
    assert answer.code == 1
    assert "-  colour: red\n+  colour: blue\n" in answer.out
    terminal.prints(APPLY, "configmap/m configured", config_map(colour="blue"))
    terminal.prints("kubectl get configmap m -o jsonpath='{.data}'", '{"colour":"blue"}')
    terminal.prints(APPLY, "configmap/m configured", config_map(size="xl"))
    terminal.prints("kubectl get configmap m -o jsonpath='{.data}'", '{"size":"xl"}')


def test_a_dry_run_of_the_server_leaves_no_trace(terminal: Terminal) -> None:
    """X-05."""
    terminal.prints("kubectl create -f - --dry-run=server", "pod/p created (server dry run)", pod("p"))
    terminal.prints("kubectl get pods", "No resources found in … namespace.")


@every_kubectl
def test_server_side_apply_knows_who_owns_which_field(terminal: Terminal) -> None:
    """X-05."""
    mine, theirs = config_map(colour="red"), config_map(colour="blue")
    terminal.prints("kubectl apply --server-side -f -", "configmap/m serverside-applied", mine)
    answer = terminal.run("kubectl apply --server-side --field-manager=other -f -", theirs)
    assert answer.code == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.colour' in answer.err
    forced = "kubectl apply --server-side --field-manager=other --force-conflicts -f -"
    terminal.prints(forced, "configmap/m serverside-applied", theirs)
    terminal.prints("kubectl get configmap m -o jsonpath='{.data.colour}'", "blue")


@every_kubectl
def test_a_field_that_does_not_exist_is_refused_by_name(terminal: Terminal) -> None:
    """SC-01, X-02."""
    terminal.refuses(
        "kubectl create -f -",
        'Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a Pod: '
        'strict decoding error: unknown field "spec.foo"',
        pod("p", foo=1),
    )
    answer = terminal.run("kubectl create --validate=warn -f -", pod("p", foo=1))
    assert answer.out.strip() == "pod/p created"
    assert answer.err.strip() == 'Warning: unknown field "spec.foo"'


@every_kubectl
def test_fields_are_explained(terminal: Terminal) -> None:
    """SC-01, X-01."""
    terminal.prints(
        "kubectl explain limitrange.spec",
        """
        KIND:       LimitRange
        VERSION:    v1

        FIELD: spec <LimitRangeSpec>

        DESCRIPTION:
        …
        FIELDS:
          limits\t<[]LimitRangeItem> -required-
        …
        """,
    )
    answer = terminal.run("kubectl explain pod.spec.nope")
    assert (answer.code, answer.err.strip()) == (1, 'error: field "nope" does not exist')


@every_kubectl
def test_discovery_is_aggregated(terminal: Terminal) -> None:
    """SC-01, X-01: one request for each of /api and /apis tells everything."""
    log = terminal.run("kubectl get pods -v=6").err
    assert "/apis?timeout=" in log or "/apis " in log or '/apis"' in log or "/apis?" in log, log
    assert "/apis/apps/v1" not in log
    listed = terminal.output("kubectl api-resources --no-headers -o name").split()
    assert {"pods", "nodes", "limitranges", "resourcequotas", "deployments.apps"} <= set(listed)
    assert terminal.output("kubectl version -o json | grep -c gitVersion") == "2"


def test_an_object_is_edited_in_an_editor(terminal: Terminal) -> None:
    """X-05: an edit that changes nothing is no change, one that is refused is kept for another try."""
    terminal.output("kubectl create configmap m --from-literal=colour=red")
    edit = "kubectl edit configmap m"
    terminal.prints(f"KUBE_EDITOR='sed -i s/red/blue/' {edit}", "configmap/m edited")
    terminal.prints("kubectl get configmap m -o jsonpath='{.data.colour}'", "blue")
    terminal.prints(f"KUBE_EDITOR=true {edit}", "Edit cancelled, no changes made.")


def test_waiting_ends_with_the_condition_or_with_the_time(terminal: Terminal) -> None:
    """X-04."""
    terminal.output("kubectl create -f -", pod("p"))
    terminal.prints("kubectl wait pod/p --for=condition=Ready --timeout=20s", "pod/p condition met")
    terminal.prints("kubectl wait pod/p --for=jsonpath='{.status.phase}'=Running", "pod/p condition met")
    terminal.output("kubectl create -f -", pod("never", nodeSelector={"no": "such"}))
    terminal.refuses(
        "kubectl wait pod/never --for=condition=Ready --timeout=1s",
        "error: timed out waiting for the condition on pods/never",
    )
    terminal.refuses(
        "kubectl wait pod/nope --for=condition=Ready --timeout=1s",
        'Error from server (NotFound): pods "nope" not found',
    )


def test_a_watch_tells_what_happens(terminal: Terminal) -> None:
    """X-04."""
    terminal.output("kubectl create -f -", pod("p", container("c")))
    terminal.output("kubectl wait pod/p --for=condition=Ready --timeout=20s")
    terminal.prints(
        "timeout 10 kubectl get pod p --watch --output-watch-events --no-headers > ~/watched & "
        "until grep -qs ADDED ~/watched; do sleep 0.1; done; kubectl label pod p a=b; "
        "until grep -qs MODIFIED ~/watched; do sleep 0.1; done; kill $!; cut -c1-12 ~/watched",
        "pod/p labeled\nADDED  p\nMODIFIED  p",
    )


@every_kubectl
def test_usage_of_nodes_is_shown(terminal: Terminal) -> None:
    """S0-66. In its first seconds a node has no metrics yet."""
    shown = terminal.output("until kubectl top nodes 2>/dev/null; do sleep 0.2; done")
    heading, *nodes = shown.splitlines()
    assert heading.split()[:2] == ["NAME", "CPU(cores)"]
    assert [node.split()[0] for node in nodes] == ["node-1"]


def test_lists_are_filtered_by_field_and_label(terminal: Terminal) -> None:
    """X-07."""
    terminal.output("kubectl run a --image=nginx --labels=app=a")
    terminal.output("kubectl run b --image=nginx --labels=app=b")
    terminal.output("kubectl wait pods --all --for=condition=Ready --timeout=20s")
    for selector in (
        "--field-selector metadata.name=a",
        "--field-selector spec.nodeName=node-1,status.phase=Running,metadata.name!=b",
        "-l app=a",
        "-l 'app in (a,z)'",
        "-l 'app,app!=b'",
    ):
        terminal.prints(f"kubectl get pods {selector} -o name", "pod/a")
    terminal.refuses(
        "kubectl get pods --field-selector spec.nope=a",
        'Error from server (BadRequest): Unable to find "/v1, Resource=pods" that match label selector "", '
        'field selector "spec.nope=a": field label not supported: spec.nope',
    )


def test_a_request_may_be_changed_in_place(terminal: Terminal) -> None:
    """X-06: the resize subresource."""
    terminal.output("kubectl create -f -", pod("p", container("c", requests={"cpu": "100m"})))
    patch = '{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}]}}'
    terminal.output("kubectl wait pod/p --for=condition=Ready --timeout=20s")
    terminal.prints(f"kubectl patch pod p --subresource resize -p '{patch}'", "pod/p patched")
    terminal.prints("kubectl get pod p -o jsonpath='{.spec.containers[0].resources.requests.cpu}'", "200m")
    terminal.comes_to("kubectl get pod p -o jsonpath='{.status.containerStatuses[0].resources.requests.cpu}'", "200m")


CERTIFICATE = """apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web}
"""
CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.client.example.com}
spec:
  group: client.example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: client.example.com/v1
kind: Gadget
metadata: {name: first}
"""


@every_kubectl
def test_a_kind_that_is_not_served_is_refused_in_kubectls_own_words(terminal: Terminal) -> None:
    """kubectl asks for the v2 document before it says so, and takes it as protobuf alone."""
    answer = terminal.run(APPLY, CERTIFICATE)
    assert answer.code == 1
    assert 'no matches for kind "Certificate" in version "cert-manager.io/v1"' in answer.err
    assert "ensure CRDs are installed first" in answer.err


@every_kubectl
def test_lists_are_applied_and_so_is_a_definition_with_its_objects(terminal: Terminal) -> None:
    listed = """{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}]}"""
    terminal.prints(APPLY, "configmap/a created\nconfigmap/b created", listed)
    first = terminal.run(APPLY, CRD)
    assert "customresourcedefinition.apiextensions.k8s.io/gadgets.client.example.com created" in first.out
    terminal.output("kubectl wait --for=condition=Established crd/gadgets.client.example.com")
    assert "gadget.client.example.com/first " in terminal.output(APPLY, CRD)
    terminal.output("kubectl delete crd gadgets.client.example.com")
