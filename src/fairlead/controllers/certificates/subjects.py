"""What kubelets may ask for in a certificate (pkg/apis/certificates/helpers.go, 1.36)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

_NODE_PREFIX: Final = "system:node:"
_NODES: Final = ["system:nodes"]
_KEY_ENCIPHERMENT: Final = "key encipherment"  # of RSA keys alone
_CLIENT_USAGES: Final = frozenset({"client auth", "digital signature"})
_SERVING_USAGES: Final = frozenset({"digital signature", "server auth"})


def kubelet_client_fault(request: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    """Why this is no request of a kubelet for its client certificate; "" if it is one."""
    if _texts(request, NameOID.ORGANIZATION_NAME) != _NODES:
        return "subject organization is not system:nodes"
    for kind, title in _NAME_TITLES.items():
        if any(isinstance(name, kind) for name in alternative_names(request)):
            return f"{title} subjectAltNames are not allowed"
    if not common_name(request).startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return _usages_fault(usages, _CLIENT_USAGES)


def kubelet_serving_fault(request: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    """Why this is no request of a kubelet for its serving certificate; "" if it is one."""
    if _texts(request, NameOID.ORGANIZATION_NAME) != _NODES:
        return "subject organization is not system:nodes"
    names = alternative_names(request)
    if not any(isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
        return "DNS or IP subjectAltName is required"
    for kind in (x509.RFC822Name, x509.UniformResourceIdentifier):
        if any(isinstance(name, kind) for name in names):
            return f"{_NAME_TITLES[kind]} subjectAltNames are not allowed"
    if fault := _usages_fault(usages, _SERVING_USAGES):
        return fault
    if not common_name(request).startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return ""


def client_fault(usages: Sequence[str]) -> str:
    """Why these are no usages of a client certificate; "" if they are."""
    for usage in usages:
        if usage not in ("digital signature", _KEY_ENCIPHERMENT, "client auth"):
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def common_name(request: x509.CertificateSigningRequest) -> str:
    """The common name; the last if there are several, as Go reads them."""
    return (_texts(request, NameOID.COMMON_NAME) or [""])[-1]


def alternative_names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    """The names besides the subject's that Go knows: of hosts, addresses, mailboxes and URIs."""
    try:
        extension = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    found: Iterable[x509.GeneralName] = extension.value
    return [name for name in found if isinstance(name, tuple(_NAME_TITLES))]


#: Each kind of name, in the order in which it is looked at.
_NAME_TITLES: Final[dict[type[x509.GeneralName], str]] = {
    x509.DNSName: "DNS",
    x509.RFC822Name: "Email",
    x509.IPAddress: "IP",
    x509.UniformResourceIdentifier: "URI",
}


def _usages_fault(usages: Sequence[str], required: frozenset[str]) -> str:
    if set(usages) - {_KEY_ENCIPHERMENT} == required:
        return ""
    return f"usages did not match [{' '.join(sorted(required | {_KEY_ENCIPHERMENT}))}]"


def _texts(request: x509.CertificateSigningRequest, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in request.subject.get_attributes_for_oid(oid)]
