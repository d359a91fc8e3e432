"""`pods/NAME/proxy/…` and `services/NAME/proxy/…`: the way to what listens at the address of a pod.

The pods of simulated nodes answer nobody, and their addresses are nobody's: it is said at once what kube-apiserver
would find out. Source: pkg/registry/core/pod/strategy.go (`ResourceLocation`),
pkg/registry/core/service/storage/storage.go, apimachinery `util/proxy` (1.36).
"""

from __future__ import annotations

import ipaddress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from fairlead.api.builtin import ENDPOINTS, PODS, SERVICES
from fairlead.api.errors import ApiError, BadRequest, NotFound, ServiceUnavailable
from fairlead.api.meta import View
from fairlead.client.calls import Body
from fairlead.golang.quoting import go_quote
from fairlead.runtime import rng
from fairlead.server.aggregation.backends import Backends
from fairlead.server.http.answers import Answer, Headers
from fairlead.server.http.forwarding import Forwarder, Unreachable
from fairlead.server.http.request import Request
from fairlead.server.http.request_info import RequestInfo
from fairlead.server.http.tunnel import Destination, Tunnels, connect, wants_tunnel
from fairlead.server.registry.registry import Registry

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    import aiohttp

_SCHEMES: Final = ("", "http", "https")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_LAST_PORT: Final = 65_535
_LONGEST_PORT: Final = 5
#: How often a path is divided before what follows `proxy`: /api/v1/namespaces/NS/RESOURCE/NAME/proxy/…
_PARTS: Final = 8


class _Port(View):
    container_port: int = 0


class _Container(View):
    ports: tuple[_Port, ...] | None = ()


class _PodSpec(View):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()


class _PodIp(View):
    ip: str = ""


class _PodStatus(View):
    pod_ips: tuple[_PodIp, ...] | None = msgspec.field(default=(), name="podIPs")


class _Pod(View):
    spec: _PodSpec
    status: _PodStatus = _PodStatus()

    @property
    def addresses(self) -> list[str]:
        return [address.ip for address in self.status.pod_ips or ()]


class _NamedPort(View):
    name: str = ""
    port: int = 0


class _ServiceSpec(View):
    ports: tuple[_NamedPort, ...] | None = ()


class _Service(View):
    spec: _ServiceSpec = _ServiceSpec()


class _Reference(View):
    namespace: str = ""
    name: str = ""


class _Address(View):
    ip: str
    target_ref: _Reference | None = None


class _Subset(View):
    addresses: tuple[_Address, ...] | None = ()
    ports: tuple[_NamedPort, ...] | None = ()


class _Endpoints(View):
    subsets: tuple[_Subset, ...] | None = ()


def is_proxied(info: RequestInfo) -> bool:
    is_one = not info.group and info.resource in ("pods", "services") and bool(info.name)
    return is_one and info.subresource.partition("/")[0] == "proxy"


async def answer(
    registry: Registry, backends: Backends | None, forwarder: Forwarder, tunnels: Tunnels, request: Request
) -> Answer | None:
    """What listens there says."""
    info = request.info
    find = _of_pod if info.resource == "pods" else _of_service
    scheme, host, port, pod = find(registry, info)
    parts = request.scope["raw_path"].split(b"/", _PARTS)
    if len(parts) <= _PARTS and request.method in ("GET", "HEAD"):
        return _to_root(request)
    scheme = scheme or "http"
    number = _number(port or _DEFAULT_PORTS[scheme])
    address = f"{_in_url(host)}:{number}"
    if backends is None or registry.agents.is_simulated(pod.spec.node_name):
        raise _unreachable(f"dial tcp {address}: connect: connection refused")
    target = f"/{b''.join(parts[_PARTS:]).decode('ascii')}"
    if query := request.scope["query_string"]:
        target += f"?{query.decode('ascii')}"
    if wants_tunnel(request):
        context = backends.anybody if scheme == "https" else None
        dial = partial(connect, host, number, context)
        return await tunnels.run(request, Destination(dial, address, _host(request), target, _uri(request)))
    url = f"{scheme}://{address}{target}"
    root = "/".join(part.decode("ascii") for part in parts[:_PARTS])
    opening = partial(_opened, backends, url, request)
    try:
        await forwarder.run(request, opening, host=host, seconds=0, revise=partial(_revised, root, address, request))
    except Unreachable as error:
        raise _unreachable(str(error)) from None
    return None


def _opened(
    backends: Backends, url: str, request: Request, headers: list[tuple[str, str]], body: Body
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    whole = [*headers, ("Host", _host(request)), *_uri(request)]
    return backends.opened_at(url, request.method, whole, body)


def _host(request: Request) -> str:
    """How the client calls this server."""
    return request.headers.get(b"host", b"").decode("latin-1")


def _uri(request: Request) -> tuple[tuple[str, str], ...]:
    """What it asked for, for whoever makes links."""
    return (("X-Forwarded-Uri", request.scope["raw_path"].decode("ascii")),)


def _of_pod(registry: Registry, info: RequestInfo) -> tuple[str, str, str, _Pod]:
    """Scheme, address and port of a pod, as far as anybody says, and the pod."""
    scheme, name, port = _parts_of(info)
    pod = _pod(registry, info.namespace, name)
    if pod is None:
        raise NotFound.of(PODS.plural, name)
    declared = (container.ports[0].container_port for container in pod.spec.containers if container.ports)
    port = port or str(next(declared, ""))
    address = next(iter(pod.addresses), "")
    if not _is_allowed(address):
        raise BadRequest("address not allowed")
    return scheme, address, port, pod


def _of_service(registry: Registry, info: RequestInfo) -> tuple[str, str, str, _Pod]:
    """The same of one of the pods behind a service."""
    scheme, name, port = _parts_of(info)
    port_name = _port_name(registry, info.namespace, name, port) if port.isascii() and port.isdigit() else port
    found = registry.find(ENDPOINTS.qualified, name, info.namespace)
    if found is None:
        raise NotFound.of(ENDPOINTS.plural, name)
    subsets = list(found.view(_Endpoints).subsets or ())
    if not subsets:
        raise ServiceUnavailable(f"no endpoints available for service {go_quote(name)}")
    rng.source().shuffle(subsets)
    for subset in subsets:
        target = next((served.port for served in subset.ports or () if served.name == port_name), None)
        addresses = list(subset.addresses or ()) if target is not None else []
        rng.source().shuffle(addresses)
        for address in addresses:
            if (pod := _behind(registry, info.namespace, address)) is not None:
                return scheme, address.ip, str(target), pod
    raise ServiceUnavailable(f"no endpoints available for service {go_quote(info.name)}")


def _port_name(registry: Registry, namespace: str, name: str, port: str) -> str:
    found = registry.find(SERVICES.qualified, name, namespace)
    if found is None:
        raise NotFound.of(SERVICES.plural, name)
    ports = found.view(_Service).spec.ports or ()
    port_name = next((served.name for served in ports if str(served.port) == port), None)
    if port_name is None:
        raise ServiceUnavailable(f"no service port {port} found for service {go_quote(name)}")
    return port_name


def _behind(registry: Registry, namespace: str, address: _Address) -> _Pod | None:
    """The pod that has this address; None: there is none, so nobody is asked."""
    if address.target_ref is None or address.target_ref.namespace != namespace:
        return None
    pod = _pod(registry, namespace, address.target_ref.name)
    return pod if pod is not None and address.ip in pod.addresses else None


def _pod(registry: Registry, namespace: str, name: str) -> _Pod | None:
    found = registry.find(PODS.qualified, name, namespace)
    return None if found is None else found.view(_Pod)


def _parts_of(info: RequestInfo) -> tuple[str, str, str]:
    """`NAME`, `NAME:PORT` and `SCHEME:NAME:PORT`, where the port may be empty."""
    parts = info.name.split(":")
    match parts:
        case [name]:
            found = "", name, ""
        case [name, port]:
            found = "", name, port
        case [scheme, name, port] if scheme in _SCHEMES:
            found = scheme, name, port
        case _:
            found = "", "", ""
    if not found[1]:
        kind = "pod" if info.resource == "pods" else "service"
        raise BadRequest(f"invalid {kind} request {go_quote(info.name)}")
    return found


def _number(port: str) -> int:
    """The number of a port. Anything else would make another URL of it: `80@elsewhere`."""
    if not (port.isascii() and port.isdigit()):
        raise _unreachable(f"dial tcp: lookup tcp/{port}: unknown port")
    if len(port) > _LONGEST_PORT or int(port) > _LAST_PORT:
        raise _unreachable(f"dial tcp: address {port}: invalid port")
    return int(port)


def _is_allowed(text: str) -> bool:
    """Go's `IsGlobalUnicast`: nobody gets at this machine itself like that."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    is_special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not is_special and text != "255.255.255.255"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _unreachable(why: str) -> ApiError:
    return ServiceUnavailable(f"error trying to reach service: {why}")


def _to_root(request: Request) -> Answer:
    """A page would take its links for those of the directory above, so it is asked for with a slash."""
    path, query = request.scope["raw_path"], request.scope["query_string"]
    location = path + b"/" + (b"?" + query if query else b"")
    return Answer(HTTPStatus.MOVED_PERMANENTLY, b"", "", [(b"location", location)])


def _revised(root: str, address: str, request: Request, headers: Headers) -> Headers:
    """Redirects within the other server lead through this one."""
    hosts = ("", address, _host(request))
    return [(name, _redirect(root, hosts, value) if name == b"location" else value) for name, value in headers]


def _redirect(root: str, hosts: tuple[str, str, str], raw: bytes) -> bytes:
    try:
        url = urlsplit(raw.decode("latin-1"))
    except ValueError:
        return raw
    if url.netloc not in hosts or not url.path.startswith("/"):
        return raw
    path = url.path if url.path.startswith(root) else root + url.path
    is_own = bool(url.netloc) and url.netloc == hosts[2]
    scheme, host = (url.scheme, url.netloc) if is_own else ("", "")
    return urlunsplit((scheme, host, path, url.query, url.fragment)).encode("latin-1")
