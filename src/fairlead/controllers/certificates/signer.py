"""Approved requests for Kubernetes' own signers are signed (pkg/controller/certificates/signer, 1.36)."""

from __future__ import annotations

import base64
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from fairlead.api.certificates import (
    APPROVED,
    CLIENT,
    FAILED,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    CertificateSigningRequest,
)
from fairlead.api.objects import Obj
from fairlead.controllers.actions import Actions, Patch
from fairlead.controllers.base import Controller, World
from fairlead.controllers.certificates.subjects import (
    alternative_names,
    client_fault,
    kubelet_client_fault,
    kubelet_serving_fault,
)
from fairlead.controllers.kinds import CERTIFICATE_REQUESTS
from fairlead.runtime.authority import BACKDATE_SECONDS, Authority

#: --cluster-signing-duration of kube-controller-manager.
LONGEST_SECONDS: Final = 365 * 86_400.0
_SHORTEST_SECONDS: Final = 600.0
#: From here on the time before now that a certificate covers counts as a part of what was asked for.
_SHORT_SECONDS: Final = 8 * 3_600.0
_SIGNERS: Final = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN)


class CertificateSigner(Controller[CertificateSigningRequest]):
    name = "certificatesigningrequest-signing-controller"
    queue_name = "certificate_signing"
    account = "certificate-controller"
    kind = CERTIFICATE_REQUESTS

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    def concerns(
        self, old: CertificateSigningRequest | None, new: CertificateSigningRequest | None, world: World
    ) -> bool:
        return new is not None and new.spec.signer_name in _SIGNERS and new.condition(APPROVED) is not None

    def reconcile(self, obj: CertificateSigningRequest, world: World) -> Actions:
        if obj.condition(APPROVED) is None or obj.condition(FAILED) or obj.status.certificate:
            return
        try:
            status: Obj = {"certificate": base64.b64encode(self._signed(obj)).decode()}
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # also of a key or name that X.509 cannot hold
            status = {"conditions": obj.conditions_with(FAILED, "SignerValidationFailure", str(error))}
        yield Patch(CERTIFICATE_REQUESTS, obj, {"status": status}, subresource="status", unchanged=True)

    def _signed(self, obj: CertificateSigningRequest) -> bytes:
        """The certificate (PEM); ValueError says why there is none."""
        request = obj.parsed
        if fault := _fault(obj, request):
            raise ValueError(fault)
        return self._authority.sign(
            request.subject,
            request.public_key(),
            obj.spec.usages,
            _seconds(obj.spec.expiration_seconds),
            alternative_names(request),
        )


def _fault(obj: CertificateSigningRequest, request: x509.CertificateSigningRequest) -> str:
    """Why the signer does not sign this; "" if it does."""
    usages = obj.spec.usages
    match obj.spec.signer_name:
        case signer if signer == KUBELET_SERVING:
            return kubelet_serving_fault(request, usages)
        case signer if signer == KUBELET_CLIENT:
            return kubelet_client_fault(request, usages)
        case signer if signer == CLIENT:
            return client_fault(usages)
    return ""


def _seconds(asked: int | None) -> float:
    """How long from now on a certificate is good."""
    if asked is None:
        wanted = LONGEST_SECONDS
    else:
        wanted = min(max(float(asked), _SHORTEST_SECONDS), LONGEST_SECONDS)
    return wanted if wanted < _SHORT_SECONDS else wanted - BACKDATE_SECONDS
