"""The arbitrator's admission webhooks (admission.k8s.io/v1): one validates objects of its kinds, the other adds the
scheduling gate to new pods where the scheduler does not ask the arbitrator.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Container, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.errors import ApiError, Forbidden
from fairlead.api.fields import invalid
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.arbitrator.objects import ALLOCATIONS, GATE, SYSTEM_NAMESPACE
from fairlead.arbitrator.review import NOT_THE_ARBITRATOR, ReviewContext, review

#: The users that delete the contents of a terminating namespace.
_NAMESPACE_CONTROLLERS: Final = frozenset(
    {"system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager"}
)


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an `AdmissionRequest` that is read."""

    uid: str
    operation: str
    kind: _Kind
    resource: _Resource = _Resource()
    sub_resource: str = ""
    namespace: str = ""
    user_info: _User = _User()
    object: Obj | None = None
    old_object: Obj | None = None


class _Gate(msgspec.Struct, frozen=True):
    name: str = ""


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduling_gates: tuple[_Gate, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    request: _Request


_review_of = msgspec.json.Decoder(_Review).decode


def validated(body: bytes, context: ReviewContext, arbitrators: Container[str]) -> bytes:
    """The answer to an `AdmissionReview` of one of our kinds. Raises `UNREADABLE` for an invalid body.

    `arbitrators` are the users that arbitrators write as.
    """
    request = _review_of(body).request
    if request.kind.kind == ALLOCATIONS.kind and not _may_write(request, arbitrators):
        where = request.resource
        name = name_of(request.object or request.old_object or {})
        return _denied(request, Forbidden.of(where.resource, name, NOT_THE_ARBITRATOR, where.group))
    if request.sub_resource or request.object is None:
        return _allowed(request)
    metadata(request.object).setdefault("namespace", request.namespace)
    found = review(request.object, request.old_object, context)
    if found.errors:
        kind = request.kind
        refusal = invalid(kind.kind, name_of(request.object), found.errors, kind.group)
        return _denied(request, refusal, found.warnings)
    return _allowed(request, warnings=found.warnings)


def _may_write(request: _Request, arbitrators: Container[str]) -> bool:
    """Only the arbitrator writes Allocations (S2-18, S2-22); namespace deletion may delete them."""
    user = request.user_info.username
    return user in arbitrators or (request.operation == "DELETE" and user in _NAMESPACE_CONTROLLERS)


def gated(body: bytes) -> bytes:
    """The answer to an `AdmissionReview` of a pod: adds our gate if the pod is still to be scheduled.

    Raises `UNREADABLE` for an invalid body.
    """
    request = _review_of(body).request
    patch = _gating(request)
    if not patch:
        return _allowed(request)
    return _allowed(request, patchType="JSONPatch", patch=b64encode(encode(patch)).decode())


def _gating(request: _Request) -> list[Obj]:
    """The JSON patch that adds our gate. Pods of kube-system are never held back (S2-28)."""
    if (request.kind.kind, request.operation) != ("Pod", "CREATE") or request.sub_resource:
        return []
    spec = msgspec.convert(request.object or {}, _Pod).spec
    is_known = any(gate.name == GATE for gate in spec.scheduling_gates or ())
    if request.namespace == SYSTEM_NAMESPACE or spec.node_name or is_known:
        return []
    gate = {"name": GATE}
    if spec.scheduling_gates:
        return [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]
    return [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]


def _denied(request: _Request, refusal: ApiError, warnings: Sequence[str] = ()) -> bytes:
    return _response(request, False, status=refusal.status(), warnings=warnings)


def _allowed(request: _Request, **more: Any) -> bytes:
    return _response(request, True, **more)


def _response(request: _Request, allowed: bool, **more: Any) -> bytes:
    fields = {key: value for key, value in more.items() if value}
    return encode(
        {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": request.uid, "allowed": allowed, **fields},
        }
    )
