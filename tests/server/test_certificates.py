"""Certificate signing requests: who asks, what is refused, and who may say yes or no."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.runtime.authority import Authority, new_key
from fairlead.runtime.loops import run_virtual
from fairlead.server.auth.authenticator import Credentials
from fairlead.server.auth.certificates import CertificateAuthenticator, write_private
from tests.server.http_world import TOKEN, Reply, Server, check_status, serving_in_a_thread

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = {"content-type": "application/merge-patch+json"}
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
_NUMBERS = count()


def _pem() -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM)


PEM = _pem()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        yield server


def _csr(**spec: Any) -> Obj:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"r{next(_NUMBERS)}"},
        "spec": {
            "request": base64.b64encode(PEM).decode(),
            "signerName": "example.com/door",
            "usages": ["client auth"],
            **spec,
        },
    }


def _made(server: Server) -> str:
    reply = server.ask("POST", REQUESTS, _csr())
    assert reply.code == 201, reply.body
    return str(reply.obj["metadata"]["name"])


def _condition(kind: str, status: str = "True") -> Obj:
    return {"type": kind, "status": status, "reason": "r", "message": "m"}


def _say(server: Server, name: str, *conditions: Obj, endpoint: str = "approval") -> Reply:
    return server.ask("PATCH", f"{REQUESTS}/{name}/{endpoint}", {"status": {"conditions": list(conditions)}}, MERGE)


def test_the_server_writes_down_who_asks(server: Server) -> None:
    lie = _csr(username="root", uid="0", groups=["system:masters"], extra={"a": ["b"]})
    headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    spec = server.ask("POST", REQUESTS, lie, headers, server.guarded_port).obj["spec"]
    assert spec["username"] == "kubernetes-admin"
    assert spec["groups"] == ["system:masters", "system:authenticated"]
    assert spec["uid"] == "kubernetes-admin"
    assert "extra" not in spec


def test_more_that_is_known_of_who_asks_is_written_down(server: Server) -> None:
    extra = {"impersonate-extra-key1": "hello there", "impersonate-extra-example.com%2fteam": "a,b"}
    headers = {
        "content-type": "application/json",
        "authorization": f"Bearer {TOKEN}",
        "impersonate-user": "me",
        **extra,
    }
    headers["impersonate-group"] = "system:masters"
    spec = server.ask("POST", REQUESTS, _csr(), headers, server.guarded_port).obj["spec"]
    assert spec["username"] == "me" and "uid" not in spec
    assert spec["extra"] == {"example.com/team": ["a,b"], "key1": ["hello there"]}


def test_what_was_asked_for_stays_as_it_is(server: Server) -> None:
    name = _made(server)
    reply = server.ask("PATCH", f"{REQUESTS}/{name}", {"spec": {"username": "me", "usages": ["any"]}}, MERGE)
    assert reply.code == 200
    assert reply.obj["spec"]["usages"] == ["client auth"] and reply.obj["spec"]["username"] == "system:admin"


@pytest.mark.parametrize("verdict", ["Approved", "Denied"])
def test_a_verdict_is_given_once(server: Server, verdict: str) -> None:
    name = _made(server)
    reply = _say(server, name, _condition(verdict))
    assert reply.code == 200, reply.body
    (condition,) = server.ask("GET", f"{REQUESTS}/{name}").obj["status"]["conditions"]
    assert condition["type"] == verdict and condition["lastUpdateTime"] and condition["lastTransitionTime"]

    opposite = {"Approved": "Denied", "Denied": "Approved"}[verdict]
    both = check_status(_say(server, name, condition, _condition(opposite)), 422, "Invalid")
    assert "Approved and Denied conditions are mutually exclusive" in both
    assert f'may not remove a condition of type "{verdict}"' in check_status(_say(server, name), 422, "Invalid")


def test_a_verdict_is_not_given_by_the_way(server: Server) -> None:
    name = _made(server)
    text = check_status(_say(server, name, _condition("Approved"), endpoint="status"), 422, "Invalid")
    assert 'updates may not add a condition of type "Approved"' in text
    assert _say(server, name, _condition("Failed"), endpoint="status").code == 200


def test_approval_changes_conditions_alone(server: Server) -> None:
    name = _made(server)
    status = {"certificate": base64.b64encode(b"x").decode(), "conditions": [_condition("Approved")]}
    body = {"spec": {"usages": ["any"]}, "status": status}
    found = server.ask("PATCH", f"{REQUESTS}/{name}/approval", body, MERGE).obj
    assert found["spec"]["usages"] == ["client auth"] and "certificate" not in found["status"]


def test_a_condition_says_true_or_nothing(server: Server) -> None:
    text = check_status(_say(server, _made(server), _condition("Approved", "False")), 422, "Invalid")
    assert 'status.conditions[0].status: Unsupported value: "False": supported values: "True"' in text


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"request": base64.b64encode(b"hello").decode()}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["client auth", "client auth"]}, 'spec.usages[1]: Duplicate value: "client auth"'),
        ({"usages": ["fun"]}, 'spec.usages[0]: Unsupported value: "fun": supported values: "any", "cert sign"'),
        ({"signerName": "door"}, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        ({"signerName": "com/door"}, "should be a domain with at least two segments separated by dots"),
        ({"signerName": "example.com/Do_or"}, 'validating label "Do_or": a lowercase RFC 1123 subdomain'),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed via this API version"),
        ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds (10 minutes)"),
    ],
)
def test_a_request_that_nobody_could_sign_is_refused(server: Server, wrong: Obj, text: str) -> None:
    assert text in check_status(server.ask("POST", REQUESTS, _csr(**wrong)), 422, "Invalid")


def test_a_request_is_signed_with_its_own_key(server: Server) -> None:
    lines = PEM.decode().splitlines()
    der = bytearray(base64.b64decode("".join(lines[1:-1])))
    der[-1] ^= 1
    body = base64.b64encode(bytes(der)).decode()
    forged = f"{lines[0]}\n{body}\n{lines[-1]}\n".encode()
    reply = server.ask("POST", REQUESTS, _csr(request=base64.b64encode(forged).decode()))
    assert "spec.request: Invalid value" in check_status(reply, 422, "Invalid")


async def _issued() -> bytes:
    return Authority.make("door").certificate_pem


_ISSUED = run_virtual(_issued())
_GARBAGE = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
_NO_BLOCK = "must contain at least one CERTIFICATE PEM block"


def _give(server: Server, name: str, certificate: bytes) -> Reply:
    body = {"status": {"certificate": base64.b64encode(certificate).decode()}}
    return server.ask("PATCH", f"{REQUESTS}/{name}/status", body, MERGE)


@pytest.mark.parametrize(
    ("certificate", "refusal"),
    [
        (b"yes", _NO_BLOCK),
        (_GARBAGE.partition(b"-----END")[0], _NO_BLOCK),
        (_GARBAGE.replace(b"MIIB", b"!"), _NO_BLOCK),
        (_GARBAGE, "x509: malformed certificate"),
        (_ISSUED + _GARBAGE, "x509: malformed certificate"),
        (PEM + _ISSUED, 'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"'),
        (_ISSUED.replace(b"-----\n", b"-----\nFrom: me\n\n", 1), "no PEM block headers are permitted"),
    ],
)
def test_a_signer_hands_out_certificates_and_nothing_else(server: Server, certificate: bytes, refusal: str) -> None:
    reply = _give(server, _made(server), certificate)
    told = f'status.certificate: Invalid value: "<certificate data>": {refusal}'
    assert check_status(reply, 422, "Invalid").endswith(told)


def test_a_certificate_is_given_once_and_may_have_its_chain_beside_it(server: Server) -> None:
    name = _made(server)
    assert _give(server, name, b"for you:\n" + _ISSUED + _ISSUED).code == 200
    told = check_status(_give(server, name, _ISSUED), 422, "Invalid")
    assert told.endswith("status.certificate: Forbidden: updates may not modify existing certificate content")


class _Tls:
    """A TLS connection of a client that has shown a certificate."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = x509.load_pem_x509_certificate(certificate).public_bytes(serialization.Encoding.DER)

    def getpeercert(self, binary_form: bool) -> bytes:
        assert binary_form
        return self._certificate


class ShownCertificate(asyncio.BaseTransport):
    def __init__(self, certificate: bytes) -> None:
        super().__init__({"ssl_object": _Tls(certificate)})


def test_a_connection_that_outlasts_its_certificate_is_nobodys() -> None:
    async def scene() -> None:
        authority, authenticate = Authority.make("ca"), CertificateAuthenticator()
        made = authority.identify(User("jane", ("ops",), "42"), 600)
        shown = Credentials({}, ShownCertificate(made.certificate))
        assert await authenticate(shown) == User("jane", ("ops", "system:authenticated"), "42")
        await asyncio.sleep(599)
        assert await authenticate(shown) is not None
        await asyncio.sleep(2)
        assert await authenticate(shown) is None

    run_virtual(scene())


@pytest.mark.parametrize(
    "subject",
    [[], [(NameOID.ORGANIZATION_NAME, "system:masters")], [(NameOID.COMMON_NAME, "a"), (UID, "1"), (UID, "2")]],
    ids=["empty", "no name", "two uids"],
)
def test_a_certificate_without_a_user_is_nobodys(subject: list[tuple[x509.ObjectIdentifier, str]]) -> None:
    async def scene() -> None:
        name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
        certificate = Authority.make("ca").sign(name, new_key().public_key(), ["client auth"], 600)
        assert await CertificateAuthenticator()(Credentials({}, ShownCertificate(certificate))) is None

    run_virtual(scene())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a device, or replaces one")
def test_a_device_is_written_into_and_stays_one(tmp_path: Path) -> None:
    """KUBECONFIG=/dev/null fairlead up, as root."""
    nowhere = tmp_path / "null"
    os.mknod(nowhere, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    write_private(nowhere, b"kind: Config")
    assert nowhere.is_char_device() and nowhere.read_bytes() == b""
