"""Who may approve and sign certificate requests, and which may not even be asked for.

The right to write a request's status is not enough: a signer's name must be allowed too, or a controller for one signer
could sign for all (`approve` and `sign` on the resource `signers`, by name or as `example.com/*`).
Sources: plugin/pkg/admission/certificates/{approval,signing,subjectrestriction}, pkg/certauthorization.
"""

from __future__ import annotations

from typing import ClassVar

from fairlead.api.objects import Obj
from fairlead.api.users import MASTERS
from fairlead.golang.quoting import go_quote
from fairlead.kinds.certificates import organizations
from fairlead.server.access import AccessRequest
from fairlead.server.admission.base import CREATE_ONLY, UPDATE_ONLY, AdmissionPlugin, Attributes, Dependencies

_GROUP = "certificates.k8s.io"
_REQUESTS = frozenset({f"certificatesigningrequests.{_GROUP}"})
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


class _SignerPlugin(AdmissionPlugin):
    """Asks whether the user may do something on behalf of the signer that the stored request names."""

    resources = _REQUESTS
    operations = UPDATE_ONLY
    verb: ClassVar[str]

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._authorizer = dependencies.authorizer

    async def validate(self, attributes: Attributes) -> None:
        signer = ((attributes.old or {}).get("spec") or {}).get("signerName", "")
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            asked = AccessRequest(attributes.user, self.verb, _GROUP, "*", "signers", name=name)
            if (await self._authorizer.authorize(asked)).is_allowed:
                return
        raise attributes.forbidden(f"user not permitted to {self.verb} requests with signerName {go_quote(signer)}")


class CertificateApproval(_SignerPlugin):
    """Who approves or denies a request."""

    name = "CertificateApproval"
    subresources = frozenset({"approval"})
    verb = "approve"


class CertificateSigning(_SignerPlugin):
    """Who puts the certificate, or a condition like `Failed`, into a request's status."""

    name = "CertificateSigning"
    subresources = frozenset({"status"})
    verb = "sign"

    async def validate(self, attributes: Attributes) -> None:
        if _signed(attributes.obj) != _signed(attributes.old or {}):
            await super().validate(attributes)


class CertificateSubjectRestriction(AdmissionPlugin):
    """Nobody becomes a member of system:masters by a client certificate that the cluster signs."""

    name = "CertificateSubjectRestriction"
    resources = _REQUESTS
    operations = CREATE_ONLY

    async def validate(self, attributes: Attributes) -> None:
        if attributes.spec.get("signerName") == _CLIENT_SIGNER and MASTERS in organizations(attributes.obj):
            raise attributes.forbidden(f"use of {_CLIENT_SIGNER} signer with {MASTERS} group is not allowed")


def _signed(request: Obj) -> tuple[str, list[Obj]]:
    status = request.get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []
