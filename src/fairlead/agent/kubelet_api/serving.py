"""Opens the kubelet's port, over TLS alone."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairlead.agent.kubelet_api.access import KubeletAccess
from fairlead.agent.kubelet_api.app import KubeletApi
from fairlead.agent.kubelet_api.pod_streams import PodStreams
from fairlead.agent.kubelet_api.rules import ServingRules
from fairlead.api.verbs import Api
from fairlead.client.tls import show
from fairlead.runtime.http.listener import BACKLOG, serving
from fairlead.runtime.identity import Identity
from fairlead.runtime.tls import server_context


@asynccontextmanager
async def serving_kubelet(
    sock: socket.socket,
    node: str,
    pods: PodStreams,
    api: Api,
    identity: Identity,
    client_ca: bytes,
    rules: ServingRules,
) -> AsyncIterator[Callable[[Identity], None]]:
    """Answer on that socket while the block runs. `api` is the API server in the agent's name, `identity` what the
    node shows, `client_ca` (PEM) who signs for clients. Yields what makes the node show another from then on.
    """
    application = KubeletApi(pods, KubeletAccess(api, node, rules.access), has_debugging=rules.has_debugging)
    context = _context(identity, client_ca, rules)
    sock.listen(BACKLOG)
    async with serving(application, sock, context):
        yield lambda renewed: show(context, renewed.certificate, renewed.key)


def _context(identity: Identity, client_ca: bytes, rules: ServingRules) -> ssl.SSLContext:
    context = server_context(rules.least_tls, rules.tls_suites)
    show(context, identity.certificate, identity.key)
    context.load_verify_locations(cadata=client_ca.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
