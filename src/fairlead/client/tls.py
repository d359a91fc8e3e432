"""How a client speaks TLS: with the server of a kubeconfig, and with others whose authority is known."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from fairlead.client.kubeconfig import Access
from fairlead.client.unreachable import UnusableKubeconfig
from fairlead.runtime.clock import now

if TYPE_CHECKING:
    from cryptography import x509


#: Of one context, which keeps them: who signs for a service may renew its certificate as often as he likes.
MOST_ADOPTED: Final = 1000


def tls_of(access: Access) -> ssl.SSLContext:
    """Trust the cluster's own authority, and show the client certificate if there is one."""
    try:
        context = trusting(access.ca or b"")
        if access.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if access.client_certificate and access.client_key:
            show(context, access.client_certificate, access.client_key)
    except (ssl.SSLError, ValueError) as error:
        raise UnusableKubeconfig(f"the certificates of the kubeconfig cannot be used: {error}") from None
    return context


def trusting(authorities: bytes) -> ssl.SSLContext:
    """Trust these authorities (PEM), or those of the system if there are none, as Go does. ValueError: it is no PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # create_default_context is stricter than Go, since Python 3.13
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Go trusts any certificate of a bundle, no roots alone
    if not authorities:
        context.load_default_certs()
        return context
    try:
        # What is written between certificates may be in any language; ssl takes ASCII alone.
        context.load_verify_locations(cadata=authorities.decode("ascii", "ignore").strip())
    except (ssl.SSLError, ValueError):
        raise ValueError("unable to load root certificates: unable to parse bytes as PEM block") from None
    return context


def adopt(context: ssl.SSLContext, certificate: bytes) -> bool:
    """Trust a certificate (DER) that an authority of this context has signed, whatever its subject; False: none has.

    OpenSSL takes a certificate with the subject of its issuer for one that has signed itself, and looks no further; Go
    looks at the signature. Webhooks of Knative and Tekton show such ones.
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    shown, at = x509.load_der_x509_certificate(certificate), datetime.fromtimestamp(now(), UTC)
    authorities = context.get_ca_certs(binary_form=True)
    if context.cert_store_stats()["x509"] - len(authorities) >= MOST_ADOPTED:
        return False
    for der in authorities:
        authority = x509.load_der_x509_certificate(der)
        if authority.subject != shown.issuer or not _may_sign(authority, at):
            continue
        try:
            shown.verify_directly_issued_by(authority)
        except (InvalidSignature, TypeError, ValueError):
            continue
        context.load_verify_locations(cadata=certificate)
        return True
    return False


def _may_sign(authority: x509.Certificate, at: datetime) -> bool:
    """Whether it is an authority for every name now: nobody here looks at constraints of names."""
    from cryptography import x509

    if not authority.not_valid_before_utc <= at <= authority.not_valid_after_utc:
        return False
    for extension in authority.extensions:
        match extension.value:
            case x509.KeyUsage(key_cert_sign=False) | x509.NameConstraints():
                return False
    return True


def trusting_anybody() -> ssl.SSLContext:
    """Whoever answers is believed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show this client certificate (PEM) to whoever asks for one."""
    with tempfile.NamedTemporaryFile("wb", suffix=".pem") as pem:  # ssl reads certificates from files only
        pem.write(certificate + b"\n" + key)
        pem.flush()
        context.load_cert_chain(pem.name)
