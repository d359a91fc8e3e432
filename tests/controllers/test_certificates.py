"""Certificate signing requests are approved, signed and removed as kube-controller-manager does it (issue 16)."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.controllers.certificates.approver import KubeletApprover
from fairlead.controllers.certificates.cleaner import OldRequests
from fairlead.controllers.certificates.signer import CertificateSigner
from fairlead.runtime.authority import Authority
from fairlead.runtime.clock import now
from tests.controllers.cluster import Cluster, run
from tests.played import played

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
KEY = ec.generate_private_key(ec.SECP256R1())
AS_NODE = ("system:nodes", "system:node:n1")
KUBELET_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "server auth")
ADDRESS = x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
HOST = x509.DNSName("n1")


def signer() -> CertificateSigner:
    return CertificateSigner(Authority.make("test-ca"))


def pem(organization: str, name: str, names: Sequence[x509.GeneralName] = (), key: Any = KEY) -> str:
    attributes = [(NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, name)]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes if value])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


async def ask(cluster: Cluster, request: str, signer: str, usages: Sequence[str], **spec: Any) -> None:
    asked = {"request": request, "signerName": signer, "usages": list(usages), **spec}
    await cluster.create(builtin.CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"name": "r"}, "spec": asked})


async def approve(cluster: Cluster, verdict: str = "Approved") -> None:
    stored = await found(cluster)
    condition = {"type": verdict, "status": "True", "reason": "BySomebody", "message": "why not"}
    stored["status"] = {"conditions": [condition]}
    await cluster.api.update(builtin.CERTIFICATE_SIGNING_REQUESTS, stored, subresource="approval")


async def found(cluster: Cluster) -> Obj:
    await asyncio.sleep(1)
    request = await cluster.get(builtin.CERTIFICATE_SIGNING_REQUESTS, "r", "")
    assert request is not None
    return request


async def certificate(cluster: Cluster) -> x509.Certificate:
    text = (await found(cluster))["status"]["certificate"]
    return x509.load_pem_x509_certificate(base64.b64decode(text))


@played(run, signer)
async def test_an_approved_request_is_signed_for_what_it_asks(cluster: Cluster) -> None:
    await ask(cluster, pem("ops", "jane"), CLIENT, ["client auth", "digital signature"], expirationSeconds=3600)
    assert "certificate" not in ((await found(cluster)).get("status") or {})
    await approve(cluster)
    made = await certificate(cluster)
    assert made.subject.rfc4514_string() == "CN=jane,O=ops"
    assert made.issuer.rfc4514_string() == "CN=test-ca"
    assert made.public_key() == KEY.public_key()
    extensions = made.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    left = made.not_valid_after_utc.timestamp() - now()
    assert 3590 <= left <= 3600, "from now on, for it is short"


@pytest.mark.parametrize(
    ("asked", "days"), [(None, 365), (86_400, 1), (2_000_000_000, 365)], ids=["default", "a day", "for ever"]
)
def test_a_certificate_lasts_a_year_at_most(asked: int | None, days: int) -> None:
    @played(run, signer)
    async def scene(cluster: Cluster) -> None:
        spec = {} if asked is None else {"expirationSeconds": asked}
        await ask(cluster, pem("", "jane"), CLIENT, ["client auth"], **spec)
        await approve(cluster)
        made = await certificate(cluster)
        assert made.not_valid_after_utc - made.not_valid_before_utc == datetime.timedelta(days=days)

    scene()


@pytest.mark.parametrize("make", [lambda: rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate])
def test_keys_of_other_kinds_are_signed(make: Any) -> None:
    @played(run, signer)
    async def scene(cluster: Cluster) -> None:
        key = make()
        await ask(cluster, pem("", "jane", key=key), CLIENT, ["client auth"])
        await approve(cluster)
        assert (await certificate(cluster)).public_key() == key.public_key()

    scene()


@pytest.mark.parametrize(
    ("request_", "signer_name", "usages", "fault"),
    [
        (pem("", "jane"), CLIENT, ["server auth"], "invalid usage for client certificate: server auth"),
        (
            pem("", "jane"),
            CLIENT,
            ["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (pem("ops", "system:node:n1"), KUBELET, KUBELET_USAGES, "subject organization is not system:nodes"),
        (
            pem("system:nodes", "jane"),
            KUBELET,
            KUBELET_USAGES,
            "subject common name does not begin with system:node:",
        ),
        (pem(*AS_NODE, [HOST]), KUBELET, KUBELET_USAGES, "DNS subjectAltNames are not allowed"),
        (
            pem(*AS_NODE),
            KUBELET,
            ["client auth"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (pem(*AS_NODE), SERVING, SERVING_USAGES, "DNS or IP subjectAltName is required"),
        (
            pem(*AS_NODE, [HOST, x509.RFC822Name("a@b.c")]),
            SERVING,
            SERVING_USAGES,
            "Email subjectAltNames are not allowed",
        ),
    ],
)
def test_what_a_signer_does_not_sign_has_failed_and_says_why(
    request_: str, signer_name: str, usages: Sequence[str], fault: str
) -> None:
    @played(run, signer)
    async def scene(cluster: Cluster) -> None:
        await ask(cluster, request_, signer_name, usages)
        await approve(cluster)
        status = (await found(cluster))["status"]
        assert [condition["type"] for condition in status["conditions"]] == ["Approved", "Failed"]
        assert "certificate" not in status
        failed = status["conditions"][1]
        assert (failed["status"], failed["reason"], failed["message"]) == ("True", "SignerValidationFailure", fault)

    scene()


@played(run, signer)
async def test_a_serving_certificate_has_its_names(cluster: Cluster) -> None:
    await ask(cluster, pem(*AS_NODE, [HOST, ADDRESS]), SERVING, [*SERVING_USAGES, "key encipherment"])
    await approve(cluster)
    names = (await certificate(cluster)).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [HOST, ADDRESS]


@pytest.mark.parametrize(("name", "verdict"), [("example.com/door", "Approved"), (CLIENT, "Denied")])
def test_others_requests_and_denied_ones_are_not_signed(name: str, verdict: str) -> None:
    @played(run, signer)
    async def scene(cluster: Cluster) -> None:
        await ask(cluster, pem("", "jane"), name, ["client auth"])
        await approve(cluster, verdict)
        assert "certificate" not in (await found(cluster))["status"]

    scene()


@played(run, KubeletApprover, signer)
async def test_a_kubelets_request_is_approved_if_the_requester_may_have_one(cluster: Cluster) -> None:
    """The administrator may."""
    await ask(cluster, pem(*AS_NODE), KUBELET, KUBELET_USAGES)
    status = (await found(cluster))["status"]
    assert status["certificate"]
    (condition,) = status["conditions"]
    assert condition["reason"] == "AutoApproved"
    assert condition["message"] == "Auto approving kubelet client certificate after SubjectAccessReview."


@played(run, KubeletApprover)
async def test_other_requests_wait_for_a_person(cluster: Cluster) -> None:
    await ask(cluster, pem("ops", "jane"), CLIENT, ["client auth"])
    assert not (await found(cluster)).get("status")


@pytest.mark.parametrize(("verdict", "hours"), [("", 24), ("Denied", 1), ("Approved", 1)])
def test_old_requests_go(verdict: str, hours: int) -> None:
    @played(run, OldRequests, signer)
    async def scene(cluster: Cluster) -> None:
        await ask(cluster, pem("ops", "jane"), CLIENT, ["client auth"])
        if verdict:
            await approve(cluster, verdict)
        await asyncio.sleep(hours * 3600 - 60)
        await found(cluster)
        await asyncio.sleep(120)
        assert await cluster.get(builtin.CERTIFICATE_SIGNING_REQUESTS, "r", "") is None

    scene()
