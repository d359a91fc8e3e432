"""A certificate authority: makes keys, and signs certificates for servers and for users.

A client certificate is read as kube-apiserver reads it: the common name is the user's, each organization is a group
(staging/src/k8s.io/apiserver/pkg/authentication/request/x509). Keys are P-256: making them takes a millisecond (RSA
would eat most of the start-up budget) and every client understands them.
"""

from __future__ import annotations

import datetime
import ipaddress
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from fairlead.api.users import User, authenticated
from fairlead.runtime.clock import now
from fairlead.runtime.identity import Identity

#: X.509 has room for 64 characters (`ub-common-name`). Names of nodes and users may be longer, and Go, by which
#: Kubernetes makes and reads certificates, does not count them: cryptography warns of each.
warnings.filterwarnings("ignore", "Attribute's length must be", UserWarning)

LIFETIME_SECONDS: Final = 3650 * 86_400.0
#: How long before now a certificate begins, for clocks that differ.
BACKDATE_SECONDS: Final = 300.0
#: The unique id of a user in the subject (KEP-4193; read since 1.33).
_UID: Final = ObjectIdentifier("1.3.6.1.4.1.57683.2")

SERVER_USAGES: Final = ("digital signature", "server auth")
CLIENT_USAGES: Final = ("digital signature", "client auth")

#: What a key may be used for, as CertificateSigningRequests spell it, and the argument of `x509.KeyUsage`.
_KEY_USAGES: Final = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
#: And for what purpose, in the order in which Go writes them.
_PURPOSES: Final = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class Authority(msgspec.Struct, frozen=True):
    """A certificate authority with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, common_name: str) -> Authority:
        """A new one, which signs no further authorities."""
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        begin, end = _lifetime(LIFETIME_SECONDS)
        builder = (
            _begin(name, name, key.public_key(), begin, end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(["digital signature", "cert sign", "crl sign"]), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Authority:
        """One that was made before, from PEM; ValueError if it is none of ours."""
        found = serialization.load_pem_private_key(key, None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise ValueError("the key of the certificate authority must be an ECDSA key")
        return cls(x509.load_pem_x509_certificate(certificate), found)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def sign(
        self,
        subject: x509.Name,
        key: CertificatePublicKeyTypes,
        usages: Collection[str],
        seconds: float,
        names: Sequence[x509.GeneralName] = (),
    ) -> bytes:
        """A certificate (PEM) that ends in so many seconds, or with the authority. Usages are spelled as
        CertificateSigningRequests do."""
        begin, end = _lifetime(seconds)
        end = min(end, self.certificate.not_valid_after_utc)
        builder = _begin(subject, self.certificate.subject, key, begin, end)
        if any(usage in _KEY_USAGES for usage in usages):
            builder = builder.add_extension(_usage(usages), critical=True)
        purposes = dict.fromkeys(oid for usage, oid in _PURPOSES.items() if usage in usages)
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=len(subject) == 0)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def identify(self, user: User, seconds: float = LIFETIME_SECONDS) -> Identity:
        """A new key, and a client certificate by which this user is known."""
        key = new_key()
        usages = ("digital signature", "key encipherment", "client auth")
        return Identity(self.sign(_subject_of(user), key.public_key(), usages, seconds), key_pem(key))

    def certify_server(self, user: User, hosts: Iterable[str], seconds: float = LIFETIME_SECONDS) -> Identity:
        """A new key, and a certificate for who serves at these names and addresses."""
        key = new_key()
        names = [_host(host) for host in hosts]
        return Identity(self.sign(_subject_of(user), key.public_key(), SERVER_USAGES, seconds, names), key_pem(key))


def signing_request(user: User, key: ec.EllipticCurvePrivateKey, hosts: Sequence[str] = ()) -> bytes:
    """What is asked of an authority (PEM) for a certificate of this user, or of who serves at these hosts."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject_of(user))
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as it is kept in a file."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def user_of(subject: x509.Name) -> User | None:
    """Whose client certificate has this subject; None: nobody's."""
    names, groups, uids = (_texts(subject, oid) for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, _UID))
    if not names or not names[-1] or len(uids) > 1:
        return None
    return authenticated(User(names[-1], tuple(groups), "".join(uids)))


def _texts(subject: x509.Name, oid: ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in subject.get_attributes_for_oid(oid)]


def _subject_of(user: User) -> x509.Name:
    attributes = [_attribute(NameOID.ORGANIZATION_NAME, group) for group in user.groups]
    attributes.append(_attribute(NameOID.COMMON_NAME, user.name))
    if user.uid:
        attributes.append(_attribute(_UID, user.uid))
    return x509.Name(attributes)


def _attribute(oid: ObjectIdentifier, text: str) -> x509.NameAttribute[str]:
    """Of any length."""
    return x509.NameAttribute(oid, text, _validate=False)


def _lifetime(seconds: float) -> tuple[datetime.datetime, datetime.datetime]:
    moment = datetime.datetime.fromtimestamp(int(now()), datetime.UTC)
    begin = moment - datetime.timedelta(seconds=BACKDATE_SECONDS)
    return begin, moment + datetime.timedelta(seconds=seconds)


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _usage(usages: Iterable[str]) -> x509.KeyUsage:
    wanted = {_KEY_USAGES[usage] for usage in usages if usage in _KEY_USAGES}
    if "key_agreement" not in wanted:  # without it the last two mean nothing, and cannot be said
        wanted -= {"encipher_only", "decipher_only"}
    return x509.KeyUsage(**{argument: argument in wanted for argument in _KEY_USAGES.values()})
