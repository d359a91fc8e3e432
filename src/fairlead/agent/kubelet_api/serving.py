"""Opens the kubelet's port, over TLS alone."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.agent.kubelet_api.access import KubeletAccess
from fairlead.agent.kubelet_api.app import KubeletApi
from fairlead.agent.kubelet_api.pod_streams import PodStreams
from fairlead.api.verbs import Api
from fairlead.client.tls import show
from fairlead.runtime.authority import Identity
from fairlead.runtime.http.listener import serving
from fairlead.runtime.tls import server_context


@asynccontextmanager
async def serving_kubelet(
    sock: socket.socket, node: str, pods: PodStreams, api: Api, identity: Identity, client_ca: bytes
) -> AsyncIterator[KubeletApi]:
    """Answer on that socket while the block runs. `api` is the API server in the agent's name, `identity` what the
    node shows, `client_ca` (PEM) who signs for clients.
    """
    application = KubeletApi(pods, KubeletAccess(api, node))
    async with serving(application, sock, _context(identity, client_ca)):
        yield application


def _context(identity: Identity, client_ca: bytes) -> ssl.SSLContext:
    context = server_context()
    show(context, identity.certificate, identity.key)
    context.load_verify_locations(cadata=client_ca.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
