"""NodeRestriction (issue 16): what of its own objects and of its pods a node may write, and why it may not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from fairlead.api import builtin
from fairlead.api.errors import ApiError, Forbidden, NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.users import NODES as NODES_GROUP
from fairlead.api.users import User, node_user
from fairlead.api.verbs import Api, DeleteOptions, ListQuery
from fairlead.runtime.authority import new_key
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore

T = TypeVar("T")
NODES, PODS, CLAIMS, ACCOUNTS = builtin.NODES, builtin.PODS, builtin.PERSISTENT_VOLUME_CLAIMS, builtin.SERVICE_ACCOUNTS
LEASES, SLICES, CSI_NODES = builtin.LEASES, builtin.RESOURCE_SLICES, builtin.CSI_NODES
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
CONTAINER: Obj = {"name": "c", "image": "i"}
NOW = DeleteOptions(grace_period_seconds=0)


class World:
    """A cluster with two nodes, each with a pod of its name; what node `one` does there."""

    def __init__(self, server: Server) -> None:
        self.server, self.admin = server, server.api
        self.one: Api = server.registry.as_user(node_user("one"))

    async def fill(self) -> None:
        await self.admin.create(builtin.NAMESPACES, {"metadata": {"name": "ns"}})
        await self.admin.create(ACCOUNTS, {"metadata": {"name": "bot"}}, "ns")
        for name in ("one", "two"):
            await self.admin.create(NODES, {"metadata": {"name": name}})
            await self.pod(name, nodeName=name)

    async def pod(self, name: str, **spec: Any) -> Obj:
        made = {"metadata": {"name": name}, "spec": {"containers": [CONTAINER], "serviceAccountName": "bot", **spec}}
        return (await self.admin.create(PODS, made, "ns")).obj()

    async def uid(self, resource: Resource, name: str, namespace: str = "") -> str:
        found: str = metadata((await self.admin.get(resource, name, namespace)).obj())["uid"]
        return found

    async def mirror(self, owner: Obj | None = None, **spec: Any) -> Obj:
        """A pod of a file of node `one`, as its kubelet shows it."""
        uid = await self.uid(NODES, "one")
        owners = [{"apiVersion": "v1", "kind": "Node", "name": "one", "uid": uid, "controller": True} | (owner or {})]
        meta = {"name": "static", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": owners}
        return {"metadata": meta, "spec": {"containers": [CONTAINER], "nodeName": "one", **spec}}

    async def token(self, audiences: tuple[str, ...] = (), **bound: str) -> Obj:
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "one", **bound}
        reference.setdefault("uid", await self.uid(PODS, "one", "ns"))
        request: Obj = {"spec": {"audiences": list(audiences), "boundObjectRef": reference}}
        return (await self.one.create(ACCOUNTS, request, "ns", name="bot", subresource="token")).obj()


def within(steps: Callable[[World], Awaitable[T]]) -> T:
    async def run() -> T:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection"])
        world = World(server)
        await world.fill()
        return await steps(world)

    return asyncio.run(run())


async def refused(work: Awaitable[Any], error: type[ApiError] = Forbidden) -> str:
    with pytest.raises(error) as raised:
        await work
    return str(raised.value).partition(" is forbidden: ")[2] or str(raised.value)


def test_a_node_shows_its_own_static_pods_and_no_others() -> None:
    async def steps(world: World) -> None:
        one = world.one

        async def told(pod: Obj) -> str:
            return await refused(one.create(PODS, pod, "ns"))

        plain = {"metadata": {"name": "x"}, "spec": {"containers": [CONTAINER], "nodeName": "one"}}
        assert await told(plain) == (
            'pod does not have "kubernetes.io/config.mirror" annotation, node "one" can only create mirror pods'
        )
        assert await told(await world.mirror(nodeName="two")) == (
            'node "one" can only create pods with spec.nodeName set to itself'
        )
        several = await world.mirror()
        several["metadata"]["ownerReferences"] += [{"apiVersion": "v1", "kind": "Node", "name": "two", "uid": "2"}]
        assert await told(several) == 'node "one" can only create pods with a single owner reference set to itself'
        none = await world.mirror()
        del none["metadata"]["ownerReferences"]
        own = 'node "one" can only create pods with an owner reference set to itself'
        assert [await told(none), await told(await world.mirror({"name": "two"}))] == [own, own]
        assert await told(await world.mirror({"controller": False})) == (
            'node "one" can only create pods with a controller owner reference set to itself'
        )
        assert await told(await world.mirror({"blockOwnerDeletion": True})) == (
            'node "one" must not set blockOwnerDeletion on an owner reference'
        )
        uid = await world.uid(NODES, "one")
        assert await told(await world.mirror({"uid": "other"})) == f"node one UID mismatch: expected {uid} got other"
        assert (await one.create(PODS, await world.mirror(), "ns")).obj()["spec"]["nodeName"] == "one"

    within(steps)


def volume(**source: Any) -> Obj:
    return {"volumes": [{"name": "v", **source}]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"serviceAccountName": "bot"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
        (volume(secret={"secretName": "s"}), "secrets"),
        (volume(configMap={"name": "c"}), "configmaps"),
        ({"containers": [CONTAINER | {"envFrom": [{"configMapRef": {"name": "c"}}]}]}, "configmaps"),
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "r"}]}, "resourceclaims"),
        (volume(persistentVolumeClaim={"claimName": "c"}), "persistentvolumeclaims"),
        (volume(csi={"driver": "d.example.com"}), "csidrivers (via CSI volumes)"),
        (
            volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
            "serviceaccounts (via projected volumes)",
        ),
        (
            volume(projected={"sources": [{"clusterTrustBundle": {"name": "b", "path": "t"}}]}),
            "clustertrustbundles",
        ),
    ],
)
def test_a_static_pod_leads_to_nothing_else(spec: Obj, told: str) -> None:
    async def steps(world: World) -> None:
        refusal = await refused(world.one.create(PODS, await world.mirror(**spec), "ns"))
        assert refusal == f'node "one" can not create pods that reference {told}'

    within(steps)


def test_a_node_reports_and_removes_its_own_pods() -> None:
    async def steps(world: World) -> None:
        one = world.one

        async def report(pod: str, patch: Obj) -> Obj:
            return (await one.patch(PODS, pod, "ns", patch, subresource="status")).obj()

        assert (await report("one", {"status": {"phase": "Running"}}))["status"]["phase"] == "Running"
        assert await refused(report("two", {"status": {"phase": "Running"}})) == (
            'node "one" can only update pod status for pods with spec.nodeName set to itself'
        )
        assert await refused(report("one", {"metadata": {"labels": {"a": "b"}}})) == (
            'node "one" cannot update labels through pod status'
        )
        claims = {"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "x"}]}}
        assert await refused(report("one", claims)) == 'node "one" cannot update resource claim statues'
        extended = {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": []}}}
        assert await refused(report("one", extended)) == 'node "one" cannot update extended resource claim status'
        assert await refused(one.delete(PODS, "two", "ns")) == (
            'node "one" can only delete pods with spec.nodeName set to itself'
        )
        await one.delete(PODS, "one", "ns", NOW)

    within(steps)


def test_a_node_evicts_its_own_pods() -> None:
    async def steps(world: World) -> None:
        def evict(pod: str) -> Awaitable[Any]:
            eviction = {"metadata": {"name": pod}}
            return world.one.create(PODS, eviction, "ns", name=pod, subresource="eviction")

        assert await refused(evict("two")) == "node one can only evict pods with spec.nodeName set to itself"
        assert await refused(evict("gone"), NotFound) == 'pod "gone" not found'
        await evict("one")

    within(steps)


def test_more_than_a_kubelet_needs_is_refused_even_where_a_role_allows_it() -> None:
    """Whoever binds system:nodes to a role gives it to every node, for its own objects alone."""

    async def steps(world: World) -> None:
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        await world.admin.create(ROLES, {"metadata": {"name": "all"}, "rules": rules})
        subjects = [{"kind": "Group", "name": NODES_GROUP, "apiGroup": "rbac.authorization.k8s.io"}]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"}
        await world.admin.create(BINDINGS, {"metadata": {"name": "all"}, "roleRef": role, "subjects": subjects})
        one, labels = world.one, {"metadata": {"labels": {"a": "b"}}}
        assert await refused(one.patch(PODS, "one", "ns", labels)) == (
            'unexpected operation "UPDATE", node "one" can only create and delete mirror pods'
        )
        resize = one.patch(PODS, "one", "ns", {"spec": {}}, subresource="resize")
        assert await refused(resize) == (
            "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed"
        )
        claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        data = {"metadata": {"name": "data"}} | claim
        assert await refused(one.create(CLAIMS, data, "ns")) == "may only update PVC status"
        assert await refused(one.delete(NODES, "two")) == 'node "one" is not allowed to modify node "two"'
        lease = {"metadata": {"name": "one"}, "spec": {}}
        assert await refused(one.create(LEASES, lease, "ns")) == (
            'can only access leases in the "kube-node-lease" system namespace'
        )
        nameless: Api = world.server.registry.as_user(User("system:node:", (NODES_GROUP,)))
        assert await refused(nameless.delete(NODES, "one")) == 'could not determine node from user "system:node:"'

    within(steps)


def test_a_node_says_of_itself_what_a_kubelet_says() -> None:
    async def steps(world: World) -> None:
        one = world.one

        async def change(patch: Obj, name: str = "one", subresource: str = "") -> Obj:
            return (await one.patch(NODES, name, "", patch, subresource=subresource)).obj()

        def labelled(*keys: str) -> Obj:
            return {"metadata": {"labels": dict.fromkeys(keys, "x")}}

        own = labelled("a", "example.com/a", "kubernetes.io/os", "x.node.kubernetes.io/y", "kubelet.kubernetes.io/z")
        await change(own | {"spec": {"podCIDR": "10.0.0.0/24"}})
        await change({"status": {"capacity": {"cpu": "1"}}}, subresource="status")
        assert await refused(change({}, "two")) == 'node "one" is not allowed to modify node "two"'
        roles = labelled("node-role.kubernetes.io/master", "a.k8s.io/b", "node-restriction.kubernetes.io/c", "ok")
        assert await refused(change(roles)) == (
            "is not allowed to modify labels: "
            "a.k8s.io/b, node-restriction.kubernetes.io/c, node-role.kubernetes.io/master"
        )
        taint = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
        assert await refused(change(taint)) == 'node "one" is not allowed to modify taints'
        owner = {"apiVersion": "v1", "kind": "Node", "name": "two", "uid": "x"}
        assert await refused(change({"metadata": {"ownerReferences": [owner]}})) == (
            'node "one" is not allowed to modify ownerReferences'
        )
        await world.admin.patch(NODES, "one", "", labelled("node-role.kubernetes.io/master"))
        await change({"metadata": {"labels": {"a": None}}})
        taken_off = {"metadata": {"labels": {"node-role.kubernetes.io/master": None}}}
        assert "is not allowed to modify labels" in await refused(change(taken_off))

    within(steps)


def test_a_node_registers_itself_with_its_taints_and_without_the_labels_of_others() -> None:
    async def steps(world: World) -> None:
        three: Api = world.server.registry.as_user(node_user("three"))
        labels = {"node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "a"}
        node: Obj = {"metadata": {"name": "three", "labels": labels}, "spec": {}}
        assert await refused(three.create(NODES, node)) == (
            'node "three" is not allowed to set the following labels: node-role.kubernetes.io/worker'
        )
        del labels["node-role.kubernetes.io/worker"]
        assert await refused(world.one.create(NODES, node)) == 'node "one" is not allowed to modify node "three"'
        taints = [{"key": "k", "effect": "NoSchedule"}]
        made = (await three.create(NODES, node | {"spec": {"taints": taints}})).obj()
        assert [taint["key"] for taint in made["spec"]["taints"]] == ["k"]

    within(steps)


def test_tokens_end_with_a_pod_of_the_node_and_are_for_whom_the_pod_wants_one() -> None:
    async def steps(world: World) -> None:
        one = world.one
        unbound = one.create(ACCOUNTS, {"spec": {"audiences": []}}, "ns", name="bot", subresource="token")
        assert await refused(unbound) == "node requested token not bound to a pod"
        assert await refused(world.token(kind="Node")) == "node requested token not bound to a pod"
        assert await refused(world.token(uid="")) == "node requested token with a pod binding without a uid"
        assert await refused(world.token(uid="x")) == (
            "the UID in the bound object reference (x) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        assert await refused(world.token(name="gone"), NotFound) == 'pod "gone" not found'
        other = await world.uid(PODS, "two", "ns")
        assert await refused(world.token(name="two", uid=other)) == (
            "node requested token bound to a pod scheduled on a different node"
        )
        absent = 'audience "" not found in pod spec volume, '
        assert await refused(world.token()) == (
            f"{absent}system:node:one is not authorized to request tokens for this audience"
        )
        assert await refused(world.token(("a", "b"))) == "node may only request 0 or 1 audiences"

    within(steps)


def test_audiences_come_from_volumes_of_the_pod_or_from_a_role() -> None:
    async def steps(world: World) -> None:
        sources = [{"serviceAccountToken": {"path": "t"}}, {"serviceAccountToken": {"path": "v", "audience": "vault"}}]
        volumes = [
            {"name": "tokens", "projected": {"sources": sources}},
            {"name": "inline", "csi": {"driver": "d.example.com"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ]
        pod = await world.pod("full", nodeName="one", volumes=volumes)

        async def ask(audience: str) -> Obj:
            return await world.token((audience,) if audience else (), name="full", uid=pod["metadata"]["uid"])

        assert (await ask("vault"))["spec"]["audiences"] == ["vault"]
        assert (await ask(""))["status"]["token"]
        assert await refused(ask("csi")) == (
            'error validating audience "csi": '
            '[csidriver.storage.k8s.io "d.example.com" not found, persistentvolumeclaim "data" not found]'
        )
        resources = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, "volumeName": "disk"}
        await world.admin.create(CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, "ns")
        disk = {"driver": "e.example.com", "volumeHandle": "1"}
        capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": disk}
        await world.admin.create(builtin.PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": capacity})
        for driver, audience in (("d.example.com", "inline"), ("e.example.com", "mounted")):
            wanted = {"tokenRequests": [{"audience": audience}]}
            await world.admin.create(builtin.CSI_DRIVERS, {"metadata": {"name": driver}, "spec": wanted})
            assert (await ask(audience))["spec"]["audiences"] == [audience]
        assert "not authorized to request tokens" in await refused(ask("registry"))
        verb = {"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["registry"]}
        await world.admin.create(ROLES, {"metadata": {"name": "pull"}, "rules": [verb]})
        subjects = [{"kind": "Group", "name": NODES_GROUP, "apiGroup": "rbac.authorization.k8s.io"}]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pull"}
        await world.admin.create(BINDINGS, {"metadata": {"name": "pull"}, "roleRef": role, "subjects": subjects})
        assert (await ask("registry"))["spec"]["audiences"] == ["registry"]

    within(steps)


def test_a_node_says_how_large_a_mounted_claim_is_and_no_more_of_it() -> None:
    async def steps(world: World) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await world.admin.create(CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, "ns")
        await world.pod("user", nodeName="one", **volume(persistentVolumeClaim={"claimName": "data"}))

        async def report(patch: Obj) -> Obj:
            return (await world.one.patch(CLAIMS, "data", "ns", patch, subresource="status")).obj()

        assert (await report({"status": {"capacity": {"storage": "2Gi"}}}))["status"]["capacity"] == {"storage": "2Gi"}
        text = 'node "one" is not allowed to update fields other than status.quantity and status.conditions: '
        for patch in ({"metadata": {"labels": {"a": "b"}}}, {"status": {"phase": "Lost"}}):
            assert (await refused(report(patch))).startswith(text)

    within(steps)


def test_leases_storage_nodes_and_slices_are_named_after_their_node() -> None:
    async def steps(world: World) -> None:
        one = world.one

        def named(name: str, **spec: Any) -> Obj:
            return {"metadata": {"name": name}, "spec": spec}

        await one.create(LEASES, named("one"), "kube-node-lease")
        assert await refused(one.create(LEASES, named("two"), "kube-node-lease")) == (
            "can only access node lease with the same name as the requesting node"
        )
        await one.create(CSI_NODES, named("one", drivers=[]))
        assert await refused(one.create(CSI_NODES, named("two", drivers=[]))) == (
            "can only access CSINode with the same name as the requesting node"
        )

        def slice_(name: str, node: str) -> Obj:
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            return named(name, driver="gpu.example.com", nodeName=node, pool=pool, devices=[])

        await one.create(SLICES, slice_("a", "one"))
        assert await refused(one.create(SLICES, slice_("b", "two"))) == (
            "can only create ResourceSlice with the same NodeName as the requesting node"
        )
        await world.admin.create(SLICES, slice_("b", "two"))
        await one.delete_collection(SLICES, query=ListQuery(fields="spec.nodeName=one"))
        left = (await world.admin.list(SLICES)).items
        assert [metadata(entry.obj())["name"] for entry in left] == ["b"]

    within(steps)


def csr(name: str, signer: str) -> Obj:
    parts = [x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]
    parts.append(x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, NODES_GROUP))
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts)).sign(new_key(), hashes.SHA256())
    pem = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    usages = ["digital signature", "client auth"]
    return {"metadata": {"generateName": "c"}, "spec": {"request": pem, "signerName": signer, "usages": usages}}


def test_a_node_asks_for_certificates_in_its_own_name() -> None:
    async def steps(world: World) -> None:
        signer = "kubernetes.io/kube-apiserver-client-kubelet"
        requests = builtin.CERTIFICATE_SIGNING_REQUESTS
        await world.one.create(requests, csr("system:node:one", signer))
        assert await refused(world.one.create(requests, csr("system:node:two", signer))) == (
            "can only create a node CSR with CN=system:node:one"
        )
        broken = csr("system:node:one", signer)
        broken["spec"]["request"] = base64.b64encode(b"x").decode()
        assert await refused(world.one.create(requests, broken)) == (
            "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
        )
        await world.one.create(requests, csr("jane", "kubernetes.io/kube-apiserver-client"))

    within(steps)
