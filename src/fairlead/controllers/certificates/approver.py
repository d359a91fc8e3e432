"""Kubelets' requests for client certificates are approved if who asks may have one (approver/sarapprove.go)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from fairlead.api.certificates import APPROVED, DENIED, KUBELET_CLIENT, CertificateSigningRequest
from fairlead.controllers.actions import Action, Actions, Create, Patch
from fairlead.controllers.base import Controller, World
from fairlead.controllers.certificates.subjects import common_name, kubelet_client_fault
from fairlead.controllers.kinds import ACCESS_REVIEWS, CERTIFICATE_REQUESTS

_GROUP: Final = "certificates.k8s.io"
_TEXT: Final = "Auto approving {}kubelet client certificate after SubjectAccessReview."


class KubeletApprover(Controller[CertificateSigningRequest]):
    name = "certificatesigningrequest-approving-controller"
    queue_name = "certificate"
    account = "certificate-controller"
    kind = CERTIFICATE_REQUESTS

    def concerns(
        self, old: CertificateSigningRequest | None, new: CertificateSigningRequest | None, world: World
    ) -> bool:
        return new is not None and new.spec.signer_name == KUBELET_CLIENT

    def reconcile(self, obj: CertificateSigningRequest, world: World) -> Actions:
        if obj.status.certificate or obj.condition(APPROVED) or obj.condition(DENIED):
            return
        request = obj.parsed
        if kubelet_client_fault(request, obj.spec.usages):
            return
        kinds = [("nodeclient", _TEXT.format(""))]
        if obj.spec.username == common_name(request):
            kinds.insert(0, ("selfnodeclient", _TEXT.format("self ")))
        for subresource, text in kinds:
            if (yield from _may(obj, subresource)):
                status = {"conditions": obj.conditions_with(APPROVED, "AutoApproved", text)}
                yield Patch(CERTIFICATE_REQUESTS, obj, {"status": status}, subresource="approval", unchanged=True)
                return


def _may(obj: CertificateSigningRequest, subresource: str) -> Generator[Action, Any, bool]:
    """Whether the requester may ask for such a certificate."""
    spec = obj.spec
    attributes = {
        "group": _GROUP,
        "resource": "certificatesigningrequests",
        "verb": "create",
        "subresource": subresource,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": spec.username,
            "uid": spec.uid,
            "groups": list(spec.groups),
            "extra": spec.extra,
            "resourceAttributes": attributes,
        },
    }
    answer = yield Create(ACCESS_REVIEWS, review)
    return bool(answer.obj()["status"].get("allowed"))
