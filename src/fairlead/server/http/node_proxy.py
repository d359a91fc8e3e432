"""`/api/v1/nodes/NAME/proxy/…`: the way to a node's kubelet, as far as that answers (`server/nodes/agents.py`).

Errors on the way are the API server's, whatever the kubelet answers goes through as it is.
Source: pkg/registry/core/node/strategy.go, apimachinery `util/proxy/transport.go` (1.36).
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from fairlead.api.builtin import NODES
from fairlead.api.errors import ApiError, InternalError, ServiceUnavailable
from fairlead.client.calls import Body
from fairlead.server.http.answers import Answer
from fairlead.server.http.forwarding import Forwarder, Unreachable
from fairlead.server.http.request import Request
from fairlead.server.http.request_info import RequestInfo
from fairlead.server.http.tunnel import Tunnels, to_kubelet, wants_tunnel
from fairlead.server.nodes.addresses import ReachableNode
from fairlead.server.nodes.kubelets import Kubelet, Kubelets
from fairlead.server.registry.registry import Registry

if TYPE_CHECKING:
    import aiohttp

#: In the order in which kube-apiserver prefers them (--kubelet-preferred-address-types).
_ADDRESS_TYPES: Final = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
_KUBELET_PORT: Final = 10250
_READS: Final = ("GET", "HEAD")
#: How often a path is divided before what follows `proxy`: /api/v1/nodes/NAME/proxy/…
_PARTS: Final = 6


def is_proxied(info: RequestInfo) -> bool:
    return not info.group and info.resource == "nodes" and info.subresource.partition("/")[0] == "proxy"


async def answer(registry: Registry, forwarder: Forwarder, tunnels: Tunnels, request: Request) -> Answer | None:
    """What the kubelet says; if there is none, that it cannot be reached."""
    info, agents = request.info, registry.agents
    name, port = _name_and_port(info.name)
    node = (await registry.get(NODES, name)).view(ReachableNode)
    own_port = node.kubelet_port or _KUBELET_PORT
    if port and port != str(own_port):
        raise _unreachable(node, port)
    if (kubelet := await agents.kubelet(name)) is not None:
        return await _forwarded(forwarder, tunnels, agents.kubelets, kubelet, request)
    if not agents.is_simulated(name):
        raise _unreachable(node, str(own_port))
    if request.method not in _READS:
        return Answer(405, b"405: Method Not Allowed", "text/plain; charset=utf-8")
    found = await agents.get(name, info.subresource.partition("/")[2], request.query)
    if found is None:
        raise _unreachable(node, str(own_port))
    return Answer(found.code, found.body, found.media_type)


async def _forwarded(
    forwarder: Forwarder, tunnels: Tunnels, kubelets: Kubelets, kubelet: Kubelet, request: Request
) -> Answer | None:
    """What a kubelet answers that listens on its own."""
    parts = request.scope["raw_path"].split(b"/", _PARTS)
    target = f"/{b''.join(parts[_PARTS:]).decode('ascii')}"
    if query := request.scope["query_string"]:
        target += f"?{query.decode('ascii')}"
    if wants_tunnel(request):
        return await tunnels.run(request, to_kubelet(kubelets, kubelet, target))

    def opening(headers: list[tuple[str, str]], body: Body) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return kubelets.opened(kubelet, request.method, target, headers, body)

    try:
        await forwarder.run(request, opening, host=kubelet.host, seconds=0)
    except Unreachable as error:
        raise ServiceUnavailable(f"error trying to reach service: {error}") from None
    return None


def _name_and_port(text: str) -> tuple[str, str]:
    """`NODE`, `NODE:PORT` and `SCHEME:NODE:PORT` are ways to ask for the same kubelet."""
    parts = text.split(":")
    if len(parts) == 3:
        parts = parts[1:]
    return parts[0], parts[1] if len(parts) == 2 else ""


def _unreachable(node: ReachableNode, port: str) -> ApiError:
    address = node.address(_ADDRESS_TYPES)
    if not address:
        return InternalError("no preferred addresses found; known addresses: []")
    text = f"error trying to reach service: dial tcp {address}:{port}: connect: connection refused"
    return ServiceUnavailable(text)
