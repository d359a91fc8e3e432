"""The Node authorizer (issue 16): a node may what its pods take, and what is its own; and is told why it may not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.builtin import NAMESPACES, PERSISTENT_VOLUMES, PODS, RESOURCE_SLICES, VOLUME_ATTACHMENTS
from fairlead.api.errors import Forbidden
from fairlead.api.objects import Obj
from fairlead.api.users import NODES as NODES_GROUP
from fairlead.api.users import User, authenticated
from fairlead.api.verbs import DeleteOptions, ListQuery
from fairlead.server.access import AccessRequest, Verdict
from fairlead.server.assembly import Server
from fairlead.server.auth.node.graph import Needed, NodeGraph
from fairlead.store.memory import MemoryStore

T = TypeVar("T")
ONE = authenticated(User("system:node:one", (NODES_GROUP,)))
TWO = authenticated(User("system:node:two", (NODES_GROUP,)))

SCRATCH: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
#: What the pod of `ns` that is on node `one` names.
VOLUMES: list[Obj] = [
    {"name": "a", "secret": {"secretName": "mounted"}},
    {"name": "b", "configMap": {"name": "settings"}},
    {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": SCRATCH}}},
    {"name": "d", "projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "piece"}}]}},
    {"name": "e", "csi": {"driver": "d.example.com", "nodePublishSecretRef": {"name": "published"}}},
]
ENVIRONMENT: Obj = {
    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}],
    "envFrom": [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "every"}}],
}
GPU: Obj = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
SPEC: Obj = {
    "nodeName": "one",
    "serviceAccountName": "bot",
    "imagePullSecrets": [{"name": "registry"}],
    "containers": [{"name": "c", "image": "i", "resources": GPU, **ENVIRONMENT}],
    "volumes": VOLUMES,
    "resourceClaims": [
        {"name": "gpu", "resourceClaimName": "shared"},
        {"name": "own", "resourceClaimTemplateName": "template"},
    ],
}
MAPPING: Obj = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
STATUS: Obj = {
    "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "made"}],
    "extendedResourceClaimStatus": {"resourceClaimName": "extended", "requestMappings": [MAPPING]},
}
VOLUME: Obj = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "claimRef": {"namespace": "ns", "name": "data"},
    "csi": {
        "driver": "d.example.com",
        "volumeHandle": "1",
        "nodeStageSecretRef": {"name": "stage", "namespace": "storage"},
        "controllerPublishSecretRef": {"name": "controller", "namespace": "storage"},
    },
}


def within(steps: Callable[[Server], Awaitable[T]]) -> T:
    async def run() -> T:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount", "StorageObjectInUseProtection"])
        await server.api.create(NAMESPACES, {"metadata": {"name": "ns"}})
        return await steps(server)

    return asyncio.run(run())


async def fill(server: Server) -> None:
    """A pod of everything on node `one`, its volume, and an attachment and a slice of that node."""
    api = server.api
    await api.create(PODS, {"metadata": {"name": "p"}, "spec": SPEC}, "ns")
    await api.patch(PODS, "p", "ns", {"status": STATUS}, subresource="status")
    await api.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": VOLUME})
    attached = {"attacher": "d.example.com", "nodeName": "one", "source": {"persistentVolumeName": "disk"}}
    await api.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "at"}, "spec": attached})
    pool = {"name": "one", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"driver": "gpu.example.com", "nodeName": "one", "pool": pool, "devices": []}
    await api.create(RESOURCE_SLICES, {"metadata": {"name": "slice"}, "spec": slice_})


def ask(server: Server, who: User, verb: str, what: str, name: str = "", namespace: str = "", **more: str) -> Verdict:
    """`what` is RESOURCE[/SUBRESOURCE][.GROUP]."""
    resource, _, group = what.partition(".")
    resource, _, subresource = resource.partition("/")
    request = AccessRequest(who, verb, group, "v1", resource, subresource, namespace, name, **more)
    return server.authorizers.decide(request)


NEEDED = [
    *(("get", "secrets", name, "ns") for name in ("mounted", "part", "published", "key", "every", "registry")),
    *(("get", "configmaps", name, "ns") for name in ("settings", "piece", "all")),
    ("list", "secrets", "mounted", "ns"),
    ("watch", "configmaps", "settings", "ns"),
    ("get", "secrets", "stage", "storage"),
    ("get", "persistentvolumeclaims", "data", "ns"),
    ("get", "persistentvolumeclaims", "p-scratch", "ns"),
    ("patch", "persistentvolumeclaims/status", "data", "ns"),
    ("get", "persistentvolumes", "disk", ""),
    ("create", "serviceaccounts/token", "bot", "ns"),
    *(("get", "resourceclaims.resource.k8s.io", name, "ns") for name in ("shared", "made", "extended")),
    ("get", "volumeattachments.storage.k8s.io", "at", ""),
    *((verb, "resourceslices.resource.k8s.io", "slice", "") for verb in ("get", "update", "patch", "delete")),
    ("get", "pods", "p", "ns"),
    ("list", "pods", "p", "ns"),
]


def test_a_node_may_read_what_its_pods_name_and_no_other_node_may() -> None:
    async def steps(server: Server) -> None:
        await fill(server)
        for verb, what, name, namespace in NEEDED:
            assert ask(server, ONE, verb, what, name, namespace).is_allowed, (verb, what, name)
            reason = "no relationship found between node 'two' and this object"
            assert ask(server, TWO, verb, what, name, namespace).reason == reason, (verb, what, name)
        for what, name, namespace in (
            ("secrets", "mounted", "other"),
            ("secrets", "controller", "storage"),
            ("secrets", "settings", "ns"),
            ("configmaps", "template", "ns"),
            ("resourceclaims.resource.k8s.io", "template", "ns"),
        ):
            assert not ask(server, ONE, "get", what, name, namespace).is_allowed, name

    within(steps)


def test_what_nobody_needs_any_more_is_closed_again() -> None:
    async def steps(server: Server) -> None:
        await fill(server)
        await server.api.delete(PERSISTENT_VOLUMES, "disk")
        await server.api.delete(VOLUME_ATTACHMENTS, "at")
        await server.api.delete(RESOURCE_SLICES, "slice")
        await server.api.patch(PODS, "p", "ns", {"status": {"resourceClaimStatuses": None}}, subresource="status")
        gone = {"disk", "stage", "at", "slice", "made"}
        for verb, what, name, namespace in NEEDED:
            assert ask(server, ONE, verb, what, name, namespace).is_allowed is (name not in gone), name
        await server.api.delete(PODS, "p", "ns", DeleteOptions(grace_period_seconds=0))
        for verb, what, name, namespace in NEEDED:
            assert not ask(server, ONE, verb, what, name, namespace).is_allowed, name

    within(steps)


def test_a_mirror_pod_gives_its_node_nothing() -> None:
    """Whoever could make a pod that names a secret could read the secret."""

    async def steps(server: Server) -> None:
        meta = {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}}
        volumes = [{"name": "b", "configMap": {"name": "settings"}}]
        spec = {"nodeName": "one", "containers": [{"name": "c", "image": "i"}]}
        await server.api.create(PODS, {"metadata": meta, "spec": spec | {"volumes": volumes}}, "ns")
        assert ask(server, ONE, "get", "pods", "p", "ns").is_allowed
        assert not ask(server, ONE, "get", "configmaps", "settings", "ns").is_allowed

    within(steps)


OWN = [
    *((verb, "nodes", "one", "") for verb in ("get", "list", "watch", "update", "patch", "create")),
    ("patch", "nodes/status", "one", ""),
    *((verb, "leases.coordination.k8s.io", "one", "kube-node-lease") for verb in ("get", "update", "patch", "delete")),
    ("create", "leases.coordination.k8s.io", "", "kube-node-lease"),
    ("get", "csinodes.storage.k8s.io", "one", ""),
    ("create", "csinodes.storage.k8s.io", "", ""),
    ("create", "resourceslices.resource.k8s.io", "", ""),
    ("create", "pods", "", "ns"),
    ("delete", "pods", "any", "ns"),
    ("patch", "pods/status", "any", "ns"),
    ("create", "pods/eviction", "any", "ns"),
    ("create", "events", "", "ns"),
    ("patch", "events", "e", "ns"),
    ("list", "services", "", ""),
    ("watch", "runtimeclasses.node.k8s.io", "", ""),
    ("create", "tokenreviews.authentication.k8s.io", "", ""),
    ("create", "certificatesigningrequests.certificates.k8s.io", "", ""),
]


def test_a_node_may_what_kubelets_do() -> None:
    async def steps(server: Server) -> None:
        for asked in OWN:
            assert ask(server, ONE, *asked).is_allowed, asked

    within(steps)


READ_ONE = "can only get individual resources of this type"
LEASE_VERBS = "can only get, create, update, patch, or delete a node lease"
OWN_LEASE = "can only access node lease with the same name as the requesting node"
REFUSED = [
    ("create", "secrets", "x", "ns", "can only read resources of this type"),
    ("get", "configmaps/x", "y", "ns", "cannot read subresource"),
    ("list", "secrets", "", "", "can only read namespaced object of this type"),
    ("list", "secrets", "", "ns", "No Object name found"),
    ("list", "persistentvolumeclaims", "", "ns", READ_ONE),
    ("get", "persistentvolumeclaims/x", "y", "ns", "cannot get subresource"),
    ("get", "persistentvolumeclaims/status", "y", "ns", "can only get/update/patch this type"),
    ("list", "persistentvolumes", "", "", READ_ONE),
    ("watch", "resourceclaims.resource.k8s.io", "", "", READ_ONE),
    ("list", "volumeattachments.storage.k8s.io", "", "", READ_ONE),
    ("create", "serviceaccounts/token", "", "ns", "can only create tokens for individual service accounts"),
    ("create", "serviceaccounts", "bot", "ns", "can only create token subresource of serviceaccount"),
    ("list", "leases.coordination.k8s.io", "", "kube-node-lease", LEASE_VERBS),
    (
        "get",
        "leases.coordination.k8s.io",
        "one",
        "ns",
        'can only access leases in the "kube-node-lease" system namespace',
    ),
    ("get", "leases.coordination.k8s.io", "two", "kube-node-lease", OWN_LEASE),
    ("list", "csinodes.storage.k8s.io", "", "", "can only get, create, update, patch, or delete a CSINode"),
    ("get", "csinodes/x.storage.k8s.io", "one", "", "cannot authorize CSINode subresources"),
    ("get", "csinodes.storage.k8s.io", "two", "", "can only access CSINode with the same name as the requesting node"),
    ("get", "resourceslices/x.resource.k8s.io", "s", "", "cannot authorize ResourceSlice subresources"),
    (
        "list",
        "resourceslices.resource.k8s.io",
        "",
        "",
        "can only list/watch/deletecollection resourceslices with nodeName field selector",
    ),
    (
        "proxy",
        "resourceslices.resource.k8s.io",
        "s",
        "",
        "only the following verbs are allowed for a ResourceSlice: "
        "get, watch, list, create, update, patch, delete, deletecollection",
    ),
    ("list", "nodes", "", "", "node 'one' cannot read all nodes, only its own Node object"),
    ("get", "nodes", "two", "", "node 'one' cannot read 'two', only its own Node object"),
    ("delete", "nodes", "one", "", ""),
    ("get", "nodes/proxy", "one", "", ""),
    ("list", "pods", "", "", "can only list/watch pods with spec.nodeName field selector"),
    ("deletecollection", "pods", "", "ns", ""),
    ("update", "pods", "p", "ns", ""),
    ("create", "pods/exec", "p", "ns", ""),
    ("list", "deployments.apps", "", "", ""),
]


def test_what_a_node_may_not_is_told_as_kubernetes_tells_it() -> None:
    async def steps(server: Server) -> None:
        for verb, what, name, namespace, reason in REFUSED:
            verdict = ask(server, ONE, verb, what, name, namespace)
            assert (verdict.is_allowed, verdict.reason) == (False, reason), (verb, what)

    within(steps)


@pytest.mark.parametrize(
    ("what", "fields", "is_allowed"),
    [
        ("pods", "spec.nodeName=one", True),
        ("pods", "status.phase!=Failed,spec.nodeName==one", True),
        ("pods", "spec.nodeName=two", False),
        ("pods", "spec.nodeName!=one", False),
        ("pods", "spec.nodeName", False),
        ("pods", "spec.nodeName=", False),
        ("resourceslices.resource.k8s.io", "spec.nodeName=one", True),
        ("resourceslices.resource.k8s.io", "nodeName=one", False),
    ],
)
def test_lists_and_watches_must_be_about_the_node(what: str, fields: str, is_allowed: bool) -> None:
    async def steps(server: Server) -> None:
        for verb in ("list", "watch"):
            assert ask(server, ONE, verb, what, field_selector=fields).is_allowed is is_allowed

    within(steps)


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (User("system:node:one"), ""),
        (User("one", (NODES_GROUP,)), ""),
        (User("system:node:", (NODES_GROUP,)), 'unknown node for user "system:node:"'),
    ],
)
def test_who_is_no_node_gets_nothing(who: User, reason: str) -> None:
    async def steps(server: Server) -> None:
        verdict = ask(server, who, "get", "nodes", "one")
        assert (verdict.is_allowed, verdict.reason) == (False, reason)

    within(steps)


def test_a_refusal_says_why_and_rules_are_not_enumerated() -> None:
    async def steps(server: Server) -> None:
        api = server.registry.as_user(ONE)
        with pytest.raises(Forbidden) as refused:
            await api.list(PODS, query=ListQuery(fields="status.phase=Running"))
        assert str(refused.value) == (
            'pods is forbidden: User "system:node:one" cannot list resource "pods" in API group "" at the cluster '
            "scope: can only list/watch pods with spec.nodeName field selector"
        )
        assert [
            entry.obj() for entry in (await api.list(PODS, query=ListQuery(fields="spec.nodeName=one"))).items
        ] == []
        rules = server.authorizers.rules_for(ONE, "ns")
        assert (rules.is_complete, rules.error) == (False, "node authorizer does not support user rule resolution")
        assert server.authorizers.rules_for(User("jane"), "ns").is_complete

    within(steps)


# -- the graph, put together step by step, says what one says that is put together anew

_names = st.sampled_from(["a", "b"])
_nodes = st.sampled_from(["one", "two"])


def _pod(node: str, claims: list[str], secrets: list[str], made: str) -> Obj:
    volumes: list[Obj] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [{"name": name, "secret": {"secretName": name}} for name in secrets]
    spec: Obj = {"volumes": volumes, "resourceClaims": [{"name": "own", "resourceClaimTemplateName": "t"}]}
    status = {"resourceClaimStatuses": [{"name": "own", "resourceClaimName": made}]} if made else {}
    return {"spec": spec | ({"nodeName": node} if node else {}), "status": status}


def _volume(claim: str, secrets: list[str]) -> Obj:
    refs = dict(zip(("nodeStageSecretRef", "nodePublishSecretRef"), secrets, strict=False))
    csi = {path: {"name": name, "namespace": "ns"} for path, name in refs.items()}
    return {"spec": {"csi": csi} | ({"claimRef": {"namespace": "ns", "name": claim}} if claim else {})}


_pods = st.builds(_pod, st.just("") | _nodes, st.lists(_names), st.lists(_names), st.sampled_from(["", "a", "b"]))
_volumes = st.builds(_volume, st.just("") | _names, st.lists(_names, max_size=2))
_change = st.tuples(st.just("pod"), _names, _pods | st.none()) | st.tuples(
    st.just("volume"), _names, _volumes | st.none()
)
_changes = st.lists(st.tuples(_change, st.booleans()))


def _tell(graph: NodeGraph, kind: str, name: str, obj: Any) -> None:
    namespace = "ns" if kind == "pod" else ""
    meta = {"name": name, "namespace": namespace}
    raw = None if obj is None else json.dumps({"metadata": meta} | obj, separators=(",", ":")).encode()
    (graph.observe_pod if kind == "pod" else graph.observe_volume)(namespace, name, raw)


def _answers(graph: NodeGraph) -> Iterator[bool]:
    for node in ("one", "two"):
        for name in ("a", "b"):
            yield graph.has_pod(node, "ns", name)
            yield graph.needs_volume(node, name)
            for kind in (Needed.SECRET, Needed.CLAIM, Needed.RESOURCE_CLAIM):
                yield graph.needs(node, kind, "ns", name)


@given(_changes)
def test_the_graph_is_the_same_whatever_was_there_or_asked_before(
    changes: list[tuple[tuple[str, str, Obj | None], bool]],
) -> None:
    followed, fresh, last = NodeGraph(), NodeGraph(), dict[tuple[str, str], Obj | None]()
    for (kind, name, obj), is_asked in changes:
        if kind == "pod" and obj is not None:  # a pod stays on its node, and names what it named
            known = last.get((kind, name))
            if known is not None and known["spec"].get("nodeName"):
                obj = known | {"status": obj["status"]}
        last[kind, name] = obj
        _tell(followed, kind, name, obj)
        if is_asked:
            list(_answers(followed))
    for (kind, name), obj in last.items():
        _tell(fresh, kind, name, obj)
    assert list(_answers(followed)) == list(_answers(fresh))
    for kind, name in last:
        _tell(followed, kind, name, None)
    assert not any(_answers(followed))


def test_what_many_or_large_pods_name_is_known_before_their_node_asks() -> None:
    """Else its first question would take as long as it takes to read them all."""
    graph = NodeGraph()
    for number in range(2000):
        _tell(graph, "pod", f"p{number}", _pod("one", [], ["a"], ""))
    large = _pod("two", [], ["b"], "")
    large["spec"]["volumes"] += [{"name": f"v{number}", "emptyDir": {}} for number in range(1000)]
    _tell(graph, "pod", "large", large)
    assert graph.needs("one", Needed.SECRET, "ns", "a")
    assert graph.needs("two", Needed.SECRET, "ns", "b")
    for number in range(2000):
        assert graph.has_pod("one", "ns", f"p{number}")
        _tell(graph, "pod", f"p{number}", None)
    assert not graph.needs("one", Needed.SECRET, "ns", "a")
