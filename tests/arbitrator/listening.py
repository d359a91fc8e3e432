"""A listener of the arbitrator on a free port, what it answers from, and certificates of one authority."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.arbitrator import serving
from fairlead.arbitrator.serving import ListenAddress, ListenerState, Tls
from fairlead.runtime.metrics import MetricsRegistry

Obj = dict[str, Any]

_LOOPBACK = ipaddress.ip_address("127.0.0.1")


class Client:
    """Speaks to a listener."""

    def __init__(self, session: aiohttp.ClientSession, port: int, scheme: str) -> None:
        self.port = port
        self._session, self._root = session, f"{scheme}://127.0.0.1:{port}"

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self._root + path) as response:
            return response.status, await response.text()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        sent = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self._session.post(self._root + path, **sent) as response:
            answer = await response.text() if response.status != 200 else await response.json()
            return response.status, answer


#: What the key of an authority is for: clients on Python 3.13 and newer want it said.
_SIGNING = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@asynccontextmanager
async def listening(
    state: ListenerState | None = None,
    tls: Tls | None = None,
    host: str = "127.0.0.1",
    client: ssl.SSLContext | None = None,
) -> AsyncIterator[Client]:
    """A client of a new listener; with TLS it believes the authority in `client`."""
    served = state or ListenerState(MetricsRegistry())
    async with (
        serving.listening(ListenAddress(host, 0), tls, served) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client or True)) as session,
    ):
        yield Client(session, port, "https" if tls else "http")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(bounded())


class Authority:
    """Signs certificates for servers and clients on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        builder = self._begin("authority", self._key).add_extension(x509.BasicConstraints(True, 0), critical=True)
        self.certificate = self._write("ca.crt", builder.add_extension(_SIGNING, critical=True))

    def issue(self, name: str) -> tuple[Path, Path]:
        """The files of a certificate, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        addresses = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(_LOOPBACK)])
        builder = self._begin(name, key).add_extension(usage, critical=False).add_extension(addresses, critical=False)
        path = self._folder / f"{name}.key"
        form = serialization.PrivateFormat.PKCS8
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return self._write(f"{name}.crt", builder), path

    def client(self, name: str = "") -> ssl.SSLContext:
        """A client that believes this authority; with a name it shows a certificate of it."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if name:
            context.load_cert_chain(*self.issue(name))
        return context

    def _begin(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        began = datetime.datetime(2020, 1, 1)
        builder = x509.CertificateBuilder().subject_name(_name(name)).issuer_name(self._name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(own, critical=False)
        subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return (
            builder.not_valid_before(began)
            .not_valid_after(began + datetime.timedelta(days=36500))
            .add_extension(subject, critical=False)
        )

    def _write(self, file: str, builder: x509.CertificateBuilder) -> Path:
        path = self._folder / file
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
