"""A certificate authority of our own, made at first start, so that nothing ever travels in the clear by default.

The authority signs one server certificate for the loopback names. Keys are P-256: making them takes a millisecond
(RSA would eat most of the start-up budget) and every client understands them.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.runtime.clock import now
from fairlead.runtime.tls import server_context

LIFETIME_DAYS = 3650
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Pki:
    """Where the files of the authority and the server lie."""

    folder: Path

    @property
    def ca_certificate(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        return self.folder / "apiserver.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "apiserver.key"

    def context(self) -> ssl.SSLContext:
        """How the server speaks TLS."""
        context = server_context()
        context.load_cert_chain(self.server_certificate, self.server_key)
        return context


def ensure(folder: Path) -> Pki:
    """The authority and server certificate in that folder, made now if they are not there."""
    pki = Pki(folder)
    if not pki.server_key.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ca_key, ca = _authority()
        key, certificate = _server(ca_key, ca)
        write_private(folder / "ca.key", pem(ca_key))
        write_private(pki.ca_certificate, ca.public_bytes(serialization.Encoding.PEM))
        write_private(pki.server_certificate, certificate.public_bytes(serialization.Encoding.PEM))
        write_private(pki.server_key, pem(key))  # last: its presence means that all of it is there
    return pki


def write_private(path: Path, data: bytes) -> None:
    """Write a file that nobody else may ever read, whole or not at all."""
    scratch = path.with_suffix(f"{path.suffix}.new")
    try:
        scratch.unlink(missing_ok=True)
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:  # of a file that whoever asked knows
        raise OSError(error.errno, error.strerror, str(path)) from None


def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("fairlead-ca")
    builder = (
        _begin(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return key, builder.sign(key, hashes.SHA256())


def _server(
    ca_key: ec.EllipticCurvePrivateKey, ca: x509.Certificate
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    names: Iterable[x509.GeneralName] = [
        *(x509.DNSName(name) for name in SERVER_NAMES),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES),
    ]
    builder = (
        _begin(_name("kube-apiserver"), ca.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return key, builder.sign(ca_key, hashes.SHA256())


def _begin(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    moment = datetime.datetime.fromtimestamp(now(), datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - datetime.timedelta(minutes=5))
        .not_valid_after(moment + datetime.timedelta(days=LIFETIME_DAYS))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as it is kept in a file."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
