"""NodeRestriction: a node writes its own objects and those of its pods, and of these what a kubelet may say.

The Node authorizer knows who asks for which name; what is written is looked at here. kube-apiserver has this plugin off
by default, kubeadm and kind switch it on, and so does Fairlead. Source: plugin/pkg/admission/noderestriction (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead.api.certificates import KUBELET_CLIENT, KUBELET_SERVING
from fairlead.api.errors import NotFound
from fairlead.api.node_labels import restricted_labels
from fairlead.api.nodes import LEASE_NAMESPACE
from fairlead.api.objects import Obj, metadata
from fairlead.api.pods import MIRROR
from fairlead.api.users import node_identity, node_user
from fairlead.golang.quoting import go_quote
from fairlead.kinds.certificates import requested_name
from fairlead.kinds.object_references import api_reference
from fairlead.kinds.podspec.differences import difference, is_same
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Dependencies, Operation
from fairlead.server.admission.token_audiences import check_audience

#: Whose certificates make a node of their owner, or show it to be one.
_SIGNERS: Final = (KUBELET_CLIENT, KUBELET_SERVING)
#: What of the status of a claim its node may say.
_CLAIM_STATUS: Final = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")


class NodeRestriction(AdmissionPlugin):
    name = "NodeRestriction"
    subresources = None
    operations = frozenset({Operation.CREATE, Operation.UPDATE, Operation.DELETE})
    resources = frozenset(
        [
            "pods",
            "nodes",
            "persistentvolumeclaims",
            "serviceaccounts",
            "leases.coordination.k8s.io",
            "csinodes.storage.k8s.io",
            "resourceslices.resource.k8s.io",
            "certificatesigningrequests.certificates.k8s.io",
        ]
    )

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._authorizer = dependencies.authorizer

    async def admit(self, attributes: Attributes) -> None:
        node = node_identity(attributes.user)
        if node is None:
            return
        if not node:
            raise attributes.forbidden(f"could not determine node from user {go_quote(attributes.user.name)}")
        match attributes.resource.plural:
            case "pods":
                self._admit_pod(node, attributes)
            case "nodes":
                _admit_node(node, attributes)
            case "persistentvolumeclaims":
                _admit_claim(node, attributes)
            case "serviceaccounts":
                await self._admit_token(node, attributes)
            case "leases":
                _admit_lease(node, attributes)
            case "csinodes":
                if attributes.name != node:
                    raise attributes.forbidden("can only access CSINode with the same name as the requesting node")
            case "resourceslices":
                _admit_slice(node, attributes)
            case "certificatesigningrequests":
                _admit_certificate_request(node, attributes)

    def _admit_pod(self, node: str, attributes: Attributes) -> None:
        match attributes.subresource:
            case "":
                self._admit_whole_pod(node, attributes)
            case "status":
                _admit_pod_status(node, attributes)
            case "eviction":
                pod = self._pod(attributes.name, attributes.namespace)
                if pod["spec"].get("nodeName") != node:
                    why = "can only evict pods with spec.nodeName set to itself"
                    raise attributes.forbidden(f"node {node} {why}")
            case other:
                why = f"unexpected pod subresource {go_quote(other)}, only 'status' and 'eviction' are allowed"
                raise attributes.forbidden(why)

    def _admit_whole_pod(self, node: str, attributes: Attributes) -> None:
        who = f"node {go_quote(node)}"
        match attributes.operation:
            case Operation.CREATE:
                self._admit_mirror_pod(node, attributes)
            case Operation.DELETE:
                if attributes.obj["spec"].get("nodeName") != node:
                    raise attributes.forbidden(f"{who} can only delete pods with spec.nodeName set to itself")
            case other:
                why = f"unexpected operation {go_quote(other)}, {who} can only create and delete mirror pods"
                raise attributes.forbidden(why)

    def _admit_mirror_pod(self, node: str, attributes: Attributes) -> None:
        """What a kubelet runs from a file it shows as a pod; that must not lead it to anything in the cluster."""
        pod, meta, who = attributes.obj, metadata(attributes.obj), f"node {go_quote(node)}"
        if MIRROR not in (meta.get("annotations") or {}):
            why = f"pod does not have {go_quote(MIRROR)} annotation, {who} can only create mirror pods"
            raise attributes.forbidden(why)
        if attributes.spec.get("nodeName") != node:
            raise attributes.forbidden(f"{who} can only create pods with spec.nodeName set to itself")
        if problem := _problem_of_owners(node, meta.get("ownerReferences") or []):
            raise attributes.forbidden(f"{who} {problem}")
        found = self._reader.find("nodes", node)
        if found is None:
            raise NotFound.of("node", node)
        expected, given = metadata(found.obj()).get("uid", ""), meta["ownerReferences"][0].get("uid", "")
        if given != expected:
            raise attributes.forbidden(f"node {node} UID mismatch: expected {expected} got {given}")
        if resource := api_reference(pod["spec"]):
            raise attributes.forbidden(f"{who} can not create pods that reference {resource}")

    async def _admit_token(self, node: str, attributes: Attributes) -> None:
        """A token for a pod of the node, which ends with the pod, and for whom the pod wants one."""
        if attributes.operation is not Operation.CREATE or attributes.subresource != "token":
            return
        reference = attributes.spec.get("boundObjectRef") or {}
        kind = (reference.get("apiVersion"), reference.get("kind"))
        if kind != ("v1", "Pod") or not reference.get("name"):
            raise attributes.forbidden("node requested token not bound to a pod")
        if not (uid := reference.get("uid")):
            raise attributes.forbidden("node requested token with a pod binding without a uid")
        pod = self._pod(reference["name"], attributes.namespace)
        if uid != metadata(pod).get("uid"):
            why = f"the UID in the bound object reference ({uid}) does not match the UID in record."
            raise attributes.forbidden(f"{why} The object might have been deleted and then recreated")
        if pod["spec"].get("nodeName") != node:
            raise attributes.forbidden("node requested token bound to a pod scheduled on a different node")
        await check_audience(self._reader, self._authorizer, attributes, pod)

    def _pod(self, name: str, namespace: str) -> Obj:
        found = self._reader.find("pods", name, namespace)
        if found is None:
            raise NotFound.of("pod", name)
        return found.obj()


def _problem_of_owners(node: str, owners: list[Obj]) -> str:
    """Why a pod with these owners is not that of the node."""
    if len(owners) > 1:
        return "can only create pods with a single owner reference set to itself"
    if not owners:
        return "can only create pods with an owner reference set to itself"
    owner = owners[0]
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        return "can only create pods with an owner reference set to itself"
    if not owner.get("controller"):
        return "can only create pods with a controller owner reference set to itself"
    return "must not set blockOwnerDeletion on an owner reference" if owner.get("blockOwnerDeletion") else ""


def _admit_pod_status(node: str, attributes: Attributes) -> None:
    old, new, who = attributes.old, attributes.obj, f"node {go_quote(node)}"
    if attributes.operation is not Operation.UPDATE or old is None:
        raise attributes.forbidden(f"unexpected operation {go_quote(attributes.operation)}")
    if old["spec"].get("nodeName") != node:
        raise attributes.forbidden(f"{who} can only update pod status for pods with spec.nodeName set to itself")
    if _differs(metadata(old), metadata(new), "labels"):
        raise attributes.forbidden(f"{who} cannot update labels through pod status")
    before, after = old.get("status") or {}, new.get("status") or {}
    if _differs(before, after, "resourceClaimStatuses"):
        raise attributes.forbidden(f"{who} cannot update resource claim statues")
    if _differs(before, after, "extendedResourceClaimStatus"):
        raise attributes.forbidden(f"{who} cannot update extended resource claim status")


def _admit_node(node: str, attributes: Attributes) -> None:
    """Its own; taints and most labels are for others to say, or it could draw pods to itself."""
    who = f"node {go_quote(node)}"
    if attributes.name != node:
        raise attributes.forbidden(f"{who} is not allowed to modify node {go_quote(attributes.name)}")
    new, old = attributes.obj, attributes.old
    labels: Mapping[str, str] = metadata(new).get("labels") or {}
    if attributes.operation is Operation.CREATE:
        if attributes.spec.get("configSource") is not None:
            raise attributes.forbidden(f"{who} is not allowed to create pods with a non-nil configSource")
        if forbidden := restricted_labels(labels):
            why = f"is not allowed to set the following labels: {', '.join(forbidden)}"
            raise attributes.forbidden(f"{who} {why}")
    elif attributes.operation is Operation.UPDATE and old is not None:
        before = old.get("spec") or {}
        if attributes.spec.get("configSource") is not None and _differs(before, attributes.spec, "configSource"):
            raise attributes.forbidden(f"{who} is not allowed to update configSource to a new non-nil configSource")
        if _differs(before, attributes.spec, "taints"):
            raise attributes.forbidden(f"{who} is not allowed to modify taints")
        if _differs(metadata(old), metadata(new), "ownerReferences"):
            raise attributes.forbidden(f"{who} is not allowed to modify ownerReferences")
        if forbidden := restricted_labels(_changed(metadata(old).get("labels") or {}, labels)):
            raise attributes.forbidden(f"is not allowed to modify labels: {', '.join(forbidden)}")


def _admit_claim(node: str, attributes: Attributes) -> None:
    """The size of a mounted volume is for its node to say."""
    if attributes.subresource != "status":
        raise attributes.forbidden("may only update PVC status")
    if attributes.operation is not Operation.UPDATE or attributes.old is None:
        raise attributes.forbidden(f"unexpected operation {go_quote(attributes.operation)}")
    old, new = _without_size(attributes.old), _without_size(attributes.obj)
    if not is_same(old, new):
        who = f"node {go_quote(node)} is not allowed to update fields other than status.quantity and status.conditions"
        raise attributes.forbidden(f"{who}: {difference(_sorted(old), _sorted(new))}")


def _without_size(claim: Obj) -> Obj:
    """What of a claim its node must leave as it is."""
    meta = {key: value for key, value in metadata(claim).items() if key not in ("resourceVersion", "managedFields")}
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in _CLAIM_STATUS}
    return claim | {"metadata": meta, "status": status}


def _sorted(claim: Obj) -> Any:
    """With its fields in an order that does not depend on who wrote it."""
    return msgspec.json.decode(msgspec.json.encode(claim, order="sorted"))


def _admit_lease(node: str, attributes: Attributes) -> None:
    if attributes.namespace != LEASE_NAMESPACE:
        raise attributes.forbidden(f"can only access leases in the {go_quote(LEASE_NAMESPACE)} system namespace")
    if attributes.name != node:
        raise attributes.forbidden("can only access node lease with the same name as the requesting node")


def _admit_slice(node: str, attributes: Attributes) -> None:
    verbs = {Operation.CREATE: "create", Operation.DELETE: "delete"}
    verb = verbs.get(attributes.operation)
    if verb is not None and attributes.spec.get("nodeName") != node:
        raise attributes.forbidden(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


def _admit_certificate_request(node: str, attributes: Attributes) -> None:
    """A certificate that makes its owner a node, or shows it to be one: for this node alone."""
    if attributes.operation is not Operation.CREATE or attributes.spec.get("signerName") not in _SIGNERS:
        return
    try:
        name = requested_name(attributes.obj)
    except ValueError as error:
        raise attributes.forbidden(f"unable to parse csr: {error}") from None
    own = node_user(node).name
    if name != own:
        raise attributes.forbidden(f"can only create a node CSR with CN={own}")


def _differs(old: Obj, new: Obj, field: str) -> bool:
    """Whether something else is in the field; what is empty is not there."""
    return bool((old.get(field) or None) != (new.get(field) or None))


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [key for key in {**old, **new} if old.get(key) != new.get(key)]
