"""Calls over HTTPS: who is believed to be the one that is called."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fairlead.client import tls
from fairlead.client.calls import CallError, Connections
from fairlead.client.kubeconfig import Access
from fairlead.client.tls import tls_of, trusting
from fairlead.runtime.authority import key_pem, new_key
from fairlead.runtime.loops import run

#: In so many turns of the loop a connection is refused.
FEW_TURNS = 20
_FIRST_CALL = """
import asyncio, sys
from fairlead.client.calls import CallError, Connections
from fairlead.client.tls import trusting_anybody
from tests.turns import counting_turns

async def call():
    connections = Connections()
    try:
        await connections.ask("POST", "https://127.0.0.1:1/", context=trusting_anybody(), seconds=30, most=100)
    except CallError:
        await connections.close()

assert "aiohttp" not in sys.modules
print(asyncio.run(counting_turns(call()))[1])
"""
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook.default.svc")])


def _certificate(
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
    subject: x509.Name = _NAME,
    issuer: x509.Name = _NAME,
) -> bytes:
    """Of one subject with its issuer, and without the ids by which OpenSSL would know them apart, as Knative's are."""
    begin = datetime.now(UTC) - timedelta(hours=1)
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hook.default.svc")]), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(signer, SHA256()).public_bytes(Encoding.PEM)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


def _asked(folder: Path, is_signer: bool, server_name: str, *constraints: x509.ExtensionType) -> str:
    """What a service says whose certificate has the subject of its authority, or why it says nothing."""
    authority, key = new_key(), new_key()
    own = _certificate(authority, authority, x509.BasicConstraints(ca=True, path_length=None), *constraints)
    shown = _certificate(key, authority if is_signer else new_key(), x509.BasicConstraints(ca=False, path_length=None))
    return _answered(folder, shown + key_pem(key), trusting(own), server_name)


def _answered(folder: Path, identity: bytes, context: ssl.SSLContext, server_name: str) -> str:
    pem = folder / "tls.pem"
    pem.write_bytes(identity)

    async def steps() -> str:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(pem)
        connections = Connections()
        async with await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=serving) as server:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            try:
                found = await connections.ask(
                    "POST", url, b"{}", context=context, seconds=30, most=100, server_name=server_name
                )
                return found.decode()
            except CallError as error:
                return str(error).rpartition("x509: ")[2]
            finally:
                await connections.close()

    return run(steps())


def test_a_certificate_with_the_subject_of_its_authority_is_believed(tmp_path: Path) -> None:
    assert _asked(tmp_path, True, "hook.default.svc") == "ok"


def test_authorities_of_a_kubeconfig_need_no_ids_and_no_usages_of_their_keys(tmp_path: Path) -> None:
    """Not for Go, and not for Python up to 3.12; by itself Python asks for them since 3.13."""
    authority, key = new_key(), new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old-ca")])
    ca, end = (x509.BasicConstraints(ca=ca, path_length=None) for ca in (True, False))
    own = _certificate(authority, authority, ca, subject=name, issuer=name)
    shown = _certificate(key, authority, end, issuer=name)
    context = tls_of(Access("", ca="# Büro\n".encode() + own))
    assert _answered(tmp_path, shown + key_pem(key), context, "hook.default.svc") == "ok"


def test_what_is_no_certificate_is_no_authority_of_a_kubeconfig() -> None:
    for text in (b" ", b"nonsense", b"\xff"):
        with pytest.raises(ValueError, match="the certificates of the kubeconfig cannot be used"):
            tls_of(Access("", ca=text))


@pytest.mark.parametrize(
    ("is_signer", "server_name", "constraints", "message"),
    [
        (False, "hook.default.svc", [], "certificate signed by unknown authority"),
        (True, "other", [], "certificate is not valid for any names, but wanted to match 127.0.0.1"),
        (
            True,
            "hook.default.svc",
            [x509.NameConstraints([x509.DNSName("example.com")], None)],
            "certificate signed by unknown authority",
        ),
    ],
)
def test_one_that_somebody_else_has_signed_or_for_another_name_is_not(
    tmp_path: Path, is_signer: bool, server_name: str, constraints: list[x509.ExtensionType], message: str
) -> None:
    assert _asked(tmp_path, is_signer, server_name, *constraints) == message


def test_an_authority_that_renews_without_end_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "MOST_ADOPTED", 2)
    authority = new_key()
    context = trusting(_certificate(authority, authority, x509.BasicConstraints(ca=True, path_length=None)))
    renewed = (_certificate(new_key(), authority, x509.BasicConstraints(ca=False, path_length=None)) for _ in range(3))
    assert [tls.adopt(context, ssl.PEM_cert_to_DER_cert(pem.decode())) for pem in renewed] == [True, True, False]


def test_the_loop_turns_while_the_first_call_has_its_library_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _FIRST_CALL], check=True, capture_output=True, text=True)
    assert int(done.stdout) > FEW_TURNS
