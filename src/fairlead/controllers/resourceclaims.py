"""Claims on devices: made for pods by their templates, kept while pods use them, given back and removed afterwards.

Who is to have which devices the scheduler decides; it reserves claims for the pods that it binds. Here are the others:
pods that were bound without it reserve what is allocated already, pods that are over let go of theirs, and a claim
that nobody uses any more is given back. Source: pkg/controller/resourceclaim (1.36; workloads' claims are alpha).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

import msgspec

from fairlead.api.devices import EXTENDED_RESOURCE_CLAIM, FINALIZER, ClaimConsumer, ResourceClaim
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.event_types import WARNING
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.resource_claims import (
    POD_CLAIM_ANNOTATION,
    ClaimTemplate,
    NotMadeYet,
    PodClaim,
    PodClaimNames,
    all_claim_keys,
    claim_keys,
    keyed_claims,
    pod_claims,
)
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Action, Actions, Create, Delete, Emit, Patch, Read, without_finalizer
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from fairlead.runtime.metrics import Counter, Gauge

_ACCOUNT: Final = "resource-claim-controller"
#: A generated name has 63 bytes at most: a hyphen and five random letters follow this.
_LONGEST_BASE: Final = 57

_decode = msgspec.json.Decoder(dict).decode


def is_done(pod: Pod) -> bool:
    """None of its containers runs, and none ever will."""
    return pod.is_finished or (pod.metadata.is_terminating and not pod.spec.node_name)


# --- the claims of a pod ----------------------------------------------------------------------------------------------


def _templates(pod: Pod) -> set[str]:
    if not pod.spec.raw_resource_claims:
        return set()
    names = (claim.resource_claim_template_name for claim in pod_claims(pod))
    return {f"{pod.metadata.namespace}/{name}" for name in names if name}


def _pods_of_template(world: World, old: ClaimTemplate | None, new: ClaimTemplate | None) -> Iterator[str]:
    if new is not None:
        for pod in world.of(PODS).index("resource claim template", _templates)[new.metadata.key]:
            yield pod.metadata.key


def _pods_of_claim(world: World, old: ResourceClaim | None, new: ResourceClaim | None) -> Iterator[str]:
    """The pods that have something to do about a claim that came, went, was allocated or lost a pod that has it."""
    either = new or old
    assert either is not None
    if old is not None and new is not None and (old.status.allocation is not None or new.status.allocation is None):
        kept = {consumer.uid for consumer in new.consumers}
        lost = (consumer for consumer in old.consumers if consumer.is_pod and consumer.uid not in kept)
        yield from (f"{new.metadata.namespace}/{consumer.name}" for consumer in lost)
        return
    for pod in world.of(PODS).index("resource claim", claim_keys)[either.metadata.key]:
        if old is None or new is None or pod.spec.node_name:  # the others are the scheduler's
            yield pod.metadata.key


def _own_claims(claim: ResourceClaim) -> tuple[str, ...]:
    """The uid of the pod that a claim was made for, together with what the pod calls it."""
    owner, name = claim.metadata.controller, claim.metadata.annotations.get(POD_CLAIM_ANNOTATION)
    return (f"{owner.uid}/{name}",) if owner is not None and name is not None else ()


class PodResourceClaims(Controller[Pod]):
    """Makes the claims of a pod that come from templates, and reserves claims for pods that have a node already."""

    name = "resource_claim"
    account = _ACCOUNT
    kind = PODS
    watches = (Watch(RESOURCE_CLAIM_TEMPLATES, _pods_of_template), Watch(RESOURCE_CLAIMS, _pods_of_claim))

    def __init__(self) -> None:
        self._made = Counter(
            "resourceclaim_controller_creates_total",
            "[ALPHA] ResourceClaims that were made for pods, or should have been.",
            "status",
            "admin_access",
        )
        self.families = (self._made,)

    def concerns(self, old: Pod | None, new: Pod | None, world: World) -> bool:
        if new is None or not new.spec.raw_resource_claims:
            return False
        return old is None or (
            (old.spec.node_name, old.status.raw_resource_claim_statuses)
            != (new.spec.node_name, new.status.raw_resource_claim_statuses)
        )

    def reconcile(self, obj: Pod, world: World) -> Actions:
        if not obj.spec.raw_resource_claims or obj.metadata.is_terminating or obj.is_finished:
            return
        names, made = PodClaimNames(obj), []
        for claim in pod_claims(obj):
            name = yield from self._make(obj, claim, names, world)
            if name:
                made.append({"name": claim.name, "resourceClaimName": name})
        if made:
            status = {"resourceClaimStatuses": made}
            yield Patch(PODS, obj, {"status": status}, PatchType.STRATEGIC, subresource="status")
        if obj.spec.node_name:
            yield from _reserve(obj, world)

    def _make(
        self, pod: Pod, claim: PodClaim, names: PodClaimNames, world: World
    ) -> Generator[Action, Any, str | None]:
        """The name of the claim if the pod's status does not tell it yet."""
        template_name = claim.resource_claim_template_name
        if template_name is None:
            return None
        try:
            name = names.of(claim)
        except NotMadeYet:
            pass
        else:
            known = world.get(RESOURCE_CLAIMS, f"{pod.metadata.namespace}/{name}") if name else None
            if not name or (known is not None and not known.foreign_owner(pod.metadata.key, pod.metadata.uid)):
                return None
        orphan = world.of(RESOURCE_CLAIMS).index("pod claim", _own_claims).first(f"{pod.metadata.uid}/{claim.name}")
        if orphan is not None:  # its name did not get into the status of the pod
            return orphan.metadata.name
        template = world.get(RESOURCE_CLAIM_TEMPLATES, f"{pod.metadata.namespace}/{template_name}")
        if template is None:  # when it comes, this is tried again
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            yield _failed(claim, f'resource claim template "{template_name}": {missing}')
            return None
        new = _new_claim(pod, claim, template)
        labels = _wants_admin(new)
        try:
            stored = yield Create(RESOURCE_CLAIMS, new)
        except ApiError as error:
            self._made.add(("failure", labels))
            yield _failed(claim, f"create ResourceClaim : {error}")  # of a name that it has not got yet, as upstream
            raise
        self._made.add(("success", labels))
        found: ResourceClaim = stored.view(ResourceClaim)
        return found.metadata.name


def _failed(claim: PodClaim, why: str) -> Emit:
    return Emit("FailedResourceClaimCreation", f"PodResourceClaim {claim.name}: {why}", WARNING)


def _new_claim(pod: Pod, claim: PodClaim, template: ClaimTemplate) -> Obj:
    spec: Obj = _decode(template.spec)
    given = spec.get("metadata") or {}
    meta: Obj = {
        "generateName": _base_name(pod.metadata.name, claim.name),
        "namespace": pod.metadata.namespace,
        "ownerReferences": [controller_reference(PODS, pod)],
        "annotations": {**(given.get("annotations") or {}), POD_CLAIM_ANNOTATION: claim.name},
    }
    if labels := given.get("labels"):
        meta["labels"] = labels
    row = RESOURCE_CLAIMS.resource
    return {"apiVersion": row.api_version, "kind": row.kind, "metadata": meta, "spec": spec.get("spec") or {}}


def _base_name(pod: str, claim: str) -> str:
    """Both, cut in proportion where they are too long: else nothing would be left of the second."""
    base = f"{pod}-{claim}-"
    if len(base) <= _LONGEST_BASE:
        return base
    kept = (name[: len(name) * _LONGEST_BASE // len(base)] for name in (pod, claim))
    return "-".join(kept)


def _wants_admin(claim: Obj) -> str:
    requests = (claim["spec"].get("devices") or {}).get("requests") or ()
    return _label(any((request.get("exactly") or {}).get("adminAccess") for request in requests))


def _label(is_so: bool) -> str:
    return "true" if is_so else "false"


def _reserve(pod: Pod, world: World) -> Actions:
    """Nobody else reserves claims for a pod that was bound without our scheduler."""
    consumer = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
    for claim, key in keyed_claims(pod):
        known = world.get(RESOURCE_CLAIMS, key)
        if known is None or known.status.allocation is None or known.is_reserved_for(pod.metadata.uid):
            continue
        if claim.is_from_template and known.foreign_owner(pod.metadata.key, pod.metadata.uid):
            continue
        consumers = [*msgspec.to_builtins(known.consumers), consumer]
        yield Patch(
            RESOURCE_CLAIMS, known, {"status": {"reservedFor": consumers}}, subresource="status", unchanged=True
        )


# --- the users of a claim ---------------------------------------------------------------------------------------------


def _let_go(world: World, old: Pod | None, new: Pod | None) -> Iterable[str]:
    """The claims of a pod that is over."""
    if new is not None and not is_done(new):
        return ()
    if new is not None and old is not None and is_done(old):
        return ()
    either = new or old
    assert either is not None
    return all_claim_keys(either)


class ResourceClaims(Controller[ResourceClaim]):
    """Takes pods that are over from the claims that they had; gives back what nobody uses, removes what was made."""

    name = "resourceclaim-controller"
    queue_name = "resource_claim_users"
    account = _ACCOUNT
    kind = RESOURCE_CLAIMS
    watches = (Watch(PODS, _let_go, wakes_known=True),)

    def __init__(self) -> None:
        self._claims = Gauge(
            "resourceclaim_controller_resource_claims",
            "[ALPHA] ResourceClaims that there are.",
            "allocated",
            "admin_access",
            "source",
        )
        self.families = (self._claims,)

    def concerns(self, old: ResourceClaim | None, new: ResourceClaim | None, world: World) -> bool:
        for claim, change in ((old, -1), (new, 1)):
            if claim is not None:
                self._claims.add(_counted_as(claim), change)
        return new is not None

    def reconcile(self, obj: ResourceClaim, world: World) -> Actions:
        remaining = yield from _remaining(obj, world)
        has_finalizer = FINALIZER in obj.metadata.finalizers
        if len(remaining) < len(obj.consumers):
            yield from _release(obj, remaining, is_given_back=has_finalizer and not remaining)
        elif has_finalizer and obj.metadata.is_terminating and not remaining:
            yield from _give_back(obj)
        if not remaining and not obj.metadata.is_terminating and _was_made_for_one_that_is_over(obj, world):
            yield Delete(RESOURCE_CLAIMS, obj)


def _remaining(claim: ResourceClaim, world: World) -> Generator[Action, Any, list[ClaimConsumer]]:
    """Those who may use the claim still. Of others than pods nothing is known here."""
    remaining = []
    for consumer in claim.consumers:
        if consumer.is_pod:
            pod = world.get(PODS, f"{claim.metadata.namespace}/{consumer.name}")
            if pod is None:  # the scheduler may know of it before we do
                try:
                    pod = yield Read(PODS, consumer.name, claim.metadata.namespace)
                except NotFound:
                    continue
            if pod.metadata.uid != consumer.uid or is_done(pod):
                continue
        remaining.append(consumer)
    return remaining


def _release(claim: ResourceClaim, remaining: list[ClaimConsumer], *, is_given_back: bool) -> Actions:
    status: Obj = {"reservedFor": msgspec.to_builtins(remaining) or None}
    if is_given_back:
        status["allocation"] = None
    stored = yield Patch(RESOURCE_CLAIMS, claim, {"status": status}, subresource="status", unchanged=True)
    fresh: ResourceClaim = stored.view(ResourceClaim)
    if fresh.status.allocation is None and FINALIZER in fresh.metadata.finalizers:
        yield without_finalizer(RESOURCE_CLAIMS, fresh, FINALIZER)


def _give_back(claim: ResourceClaim) -> Actions:
    """Of a claim that was deleted while nobody used it."""
    fresh = claim
    if claim.status.allocation is not None:
        gone = {"status": {"allocation": None}}
        fresh = (yield Patch(RESOURCE_CLAIMS, claim, gone, subresource="status", unchanged=True)).view(ResourceClaim)
    yield without_finalizer(RESOURCE_CLAIMS, fresh, FINALIZER)


def _was_made_for_one_that_is_over(claim: ResourceClaim, world: World) -> bool:
    """The garbage collector removes it only with its pod, and that may stay for long."""
    owner = claim.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return False
    pod = world.get(PODS, f"{claim.metadata.namespace}/{owner.name}")
    return pod is not None and (pod.metadata.uid != owner.uid or is_done(pod))


def _counted_as(claim: ResourceClaim) -> tuple[str, str, str]:
    annotations = claim.metadata.annotations
    source = "resource_claim_template" if annotations.get(POD_CLAIM_ANNOTATION) else ""
    if annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
        source = "extended_resource"
    return _label(claim.status.allocation is not None), _label(claim.wants_admin_access), source
