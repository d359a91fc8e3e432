"""Certificates that the cluster makes for a node that asks, once somebody has approved and the signer has signed.

Source: pkg/kubelet/certificate/kubelet.go, bootstrap/bootstrap.go, client-go `util/certificate/csr` (1.36).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

from fairlead.api.builtin import CERTIFICATE_SIGNING_REQUESTS
from fairlead.api.certificates import DENIED, FAILED, KUBELET_CLIENT, KUBELET_SERVING, CertificateSigningRequest
from fairlead.api.users import NODES, User
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.runtime.authority import CLIENT_USAGES, SERVER_USAGES, key_pem, new_key, signing_request
from fairlead.runtime.identity import Identity


class NoCertificate(Exception):
    """The cluster does not give this node one; the message says why."""


async def serving_certificate(api: Api, node: str, hosts: Sequence[str]) -> Identity:
    """A new key and a certificate for who serves at these names and addresses; somebody has to approve it
    (`kubectl certificate approve`, as with a kubelet's `serverTLSBootstrap`). `api` is that of the node itself.

    NoCertificate: the request was denied, could not be signed, or is gone.
    """
    return await _issued(api, KUBELET_SERVING, node, SERVER_USAGES, hosts)


async def client_certificate(api: Api, node: str) -> Identity:
    """A new key and a certificate by which the cluster knows the node. `api` is that of who may ask for one:
    a bootstrap token, or the node itself for its next. NoCertificate as above."""
    return await _issued(api, KUBELET_CLIENT, node, CLIENT_USAGES)


async def _issued(api: Api, signer: str, node: str, usages: Sequence[str], hosts: Sequence[str] = ()) -> Identity:
    key = new_key()
    request = signing_request(User(f"system:node:{node}", (NODES,)), key, hosts)
    spec = {"request": b64encode(request).decode(), "signerName": signer, "usages": list(usages)}
    made = await api.create(CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"generateName": "csr-"}, "spec": spec})
    name = made.metadata()["name"]
    certificate = b""
    while not certificate:
        certificate = await _signed(api, name)
    return Identity(certificate, key_pem(key))


async def _signed(api: Api, name: str) -> bytes:
    """The certificate, once it is there; b"" if the watch ended before."""
    query = WatchQuery(fields=f"metadata.name={name}")
    async for event in api.watch(CERTIFICATE_SIGNING_REQUESTS, "", query):
        found = event.object.view(CertificateSigningRequest)
        if event.type is EventType.DELETED:
            raise NoCertificate(f"the request {name} is gone")
        for type_ in (DENIED, FAILED):
            if (condition := found.condition(type_)) is not None:
                why = condition.message or condition.reason
                raise NoCertificate(f"the request {name} is {type_.lower()}: {why}")
        if found.status.certificate:
            return b64decode(found.status.certificate)
    return b""
