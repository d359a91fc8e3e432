"""Certificate signing requests, as controllers read them (certificates.k8s.io/v1)."""

from __future__ import annotations

import base64
from typing import Final

import msgspec
from cryptography import x509

from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN: Final = "kubernetes.io/legacy-unknown"

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"


class Condition(View):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class Spec(View):
    request: str = ""
    signer_name: str = ""
    usages: tuple[str, ...] = ()
    expiration_seconds: int | None = None
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class Status(View):
    conditions: tuple[Condition, ...] = ()
    certificate: str = ""


class CertificateSigningRequest(Object):
    """A request for a certificate."""

    spec: Spec = Spec()
    status: Status = Status()

    def condition(self, type_: str) -> Condition | None:
        """The first condition of that type, true or not."""
        return next((condition for condition in self.status.conditions if condition.type == type_), None)

    def conditions_with(self, type_: str, reason: str, message: str) -> list[Obj]:
        """Its conditions and one more that is true."""
        added = Condition(type=type_, status="True", reason=reason, message=message)
        found: list[Obj] = msgspec.to_builtins([*self.status.conditions, added])
        return found

    @property
    def parsed(self) -> x509.CertificateSigningRequest:
        """What was asked for. ValueError: nothing that can be read."""
        return x509.load_pem_x509_csr(base64.b64decode(self.spec.request))
