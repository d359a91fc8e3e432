"""The files of a cluster's certificate authority, made at first start, so that nothing ever travels in the clear by
default; and the users whom a client certificate of that authority lets in."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509

from fairlead.api.users import ADMIN, MASTERS, User
from fairlead.runtime.authority import Authority, key_pem
from fairlead.runtime.identity import Identity
from fairlead.runtime.tls import server_context
from fairlead.runtime.tls_peers import TlsPeers
from fairlead.server.admission.service_networks import SERVICE_NETWORK
from fairlead.server.auth.authenticator import Credentials

SERVER_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
#: Loopback, and that of the service `kubernetes`.
SERVER_ADDRESSES: Final = ("127.0.0.1", "::1", str(SERVICE_NETWORK[1]))
#: The common name of what the server shows to other API servers.
FRONT_PROXY: Final = "front-proxy-client"
#: As whom the server asks kubelets, who ask it what that user may do.
KUBELET_CLIENT: Final = User("kube-apiserver-kubelet-client", (MASTERS,))


class Pki(msgspec.Struct, frozen=True):
    """Where the files of the authority, the server and the administrator lie."""

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

    @property
    def names_everything(self) -> bool:
        """Whether the server's certificate is for all names and addresses by which it is called."""
        shown = x509.load_pem_x509_certificate(self.server_certificate.read_bytes())
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = map(str, names.get_values_for_type(x509.IPAddress))
        return {*SERVER_NAMES, *SERVER_ADDRESSES} <= {*names.get_values_for_type(x509.DNSName), *addresses}

    @property
    def admin(self) -> Identity:
        """The administrator's client certificate and key."""
        return Identity((self.folder / "admin.crt").read_bytes(), (self.folder / "admin.key").read_bytes())

    @property
    def front_proxy_ca(self) -> Path:
        """Who signs for those who may say in whose name they ask."""
        return self.folder / "front-proxy-ca.crt"

    @property
    def front_proxy(self) -> Identity:
        """What the server shows to other API servers when it hands on a request."""
        files = self.folder / "front-proxy-client.crt", self.folder / "front-proxy-client.key"
        return Identity(*(file.read_bytes() for file in files))

    @property
    def kubelet_client(self) -> Identity:
        """What the server shows to kubelets."""
        files = self.folder / "apiserver-kubelet-client.crt", self.folder / "apiserver-kubelet-client.key"
        return Identity(*(file.read_bytes() for file in files))

    @property
    def admin_token(self) -> Path:
        return self.folder / "admin.token"

    @property
    def authority(self) -> Authority:
        """The authority with its key; OSError and ValueError if it is not what we have made."""
        return Authority.load(self.ca_certificate.read_bytes(), (self.folder / "ca.key").read_bytes())

    def context(self, front_proxies: bytes = b"") -> ssl.SSLContext:
        """How the server speaks TLS. A client may show a certificate of our authority, or of that for front proxies
        (PEM); any other ends the handshake.
        """
        context = server_context()
        context.load_cert_chain(self.server_certificate, self.server_key)
        context.load_verify_locations(self.ca_certificate)
        if front_proxies:
            context.load_verify_locations(cadata=front_proxies.decode("latin-1"))
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


def ensure(folder: Path) -> Pki:
    """The authority, and certificates of the server and the administrator, in that folder; made if they are not there.

    The key of each is written last: its presence means that all of it is there. A certificate of the server that has
    fewer names than it needs, as an earlier version made it, is made anew.
    """
    pki = Pki(folder)
    if not pki.server_key.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = Authority.make("fairlead-ca")
        write_private(folder / "ca.key", key_pem(authority.key))
        write_private(pki.ca_certificate, authority.certificate_pem)
        _write_identity(pki.server_certificate, pki.server_key, _server(authority))
    elif not pki.names_everything:
        _write_identity(pki.server_certificate, pki.server_key, _server(pki.authority))
    admin_key = folder / "admin.key"
    if not admin_key.exists():
        _write_identity(folder / "admin.crt", admin_key, pki.authority.identify(ADMIN))
    kubelet_key = folder / "apiserver-kubelet-client.key"
    if not kubelet_key.exists():
        identity = pki.authority.identify(KUBELET_CLIENT)
        _write_identity(folder / "apiserver-kubelet-client.crt", kubelet_key, identity)
    front_proxy_key = folder / "front-proxy-client.key"
    if not front_proxy_key.exists():
        authority = Authority.make("front-proxy-ca")  # it signs once, so its key is not kept
        write_private(pki.front_proxy_ca, authority.certificate_pem)
        _write_identity(folder / "front-proxy-client.crt", front_proxy_key, authority.identify(User(FRONT_PROXY)))
    return pki


def _write_identity(certificate: Path, key: Path, identity: Identity) -> None:
    write_private(certificate, identity.certificate)
    write_private(key, identity.key)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that nobody else may ever read, whole or not at all; what is no file (/dev/null) is written into."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
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


def _server(authority: Authority) -> Identity:
    return authority.certify_server(User("kube-apiserver"), (*SERVER_NAMES, *SERVER_ADDRESSES))


class CertificateAuthenticator:
    """Lets in whoever has shown a client certificate; one of these issuers, where TLS trusts others as well."""

    def __init__(self, issuers: Sequence[x509.Certificate] = ()) -> None:
        self._peers = TlsPeers(issuers)

    async def __call__(self, credentials: Credentials) -> User | None:
        return self._peers.user(credentials.transport)
