"""Where a node that does not run beside the authority gets its serving certificate: it asks the cluster and waits until
somebody approves (`kubectl certificate approve`, as with a kubelet's `serverTLSBootstrap`) and the signer signs.

Source: pkg/kubelet/certificate/kubelet.go, client-go `util/certificate/csr` (1.36).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

from fairlead.api.builtin import CERTIFICATE_SIGNING_REQUESTS
from fairlead.api.certificates import DENIED, FAILED, KUBELET_SERVING, CertificateSigningRequest
from fairlead.api.users import NODES, User
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.runtime.authority import SERVER_USAGES, key_pem, new_key, server_request
from fairlead.runtime.identity import Identity


class NoCertificate(Exception):
    """The cluster does not give this node one; the message says why."""


async def serving_certificate(api: Api, node: str, hosts: Sequence[str]) -> Identity:
    """A new key and a certificate for it, for these names and addresses. `api` is that of the node itself.

    NoCertificate: the request was denied, could not be signed, or is gone.
    """
    key = new_key()
    request = server_request(User(f"system:node:{node}", (NODES,)), hosts, key)
    spec = {"request": b64encode(request).decode(), "signerName": KUBELET_SERVING, "usages": list(SERVER_USAGES)}
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
