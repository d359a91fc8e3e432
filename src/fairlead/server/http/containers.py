"""The subresources that reach into a container: logs, exec, attach, port-forward.

The checks that the API server itself makes come first, with its errors; then the kubelet of the node answers. Simulated
containers run nothing, and a refusal says so. Source: pkg/registry/core/pod/strategy.go,
pkg/registry/core/pod/rest/{log,subresources}.go (1.36).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import msgspec

from fairlead.api.builtin import PODS
from fairlead.api.errors import ApiError, BadRequest, InternalError, NotFound, class_of
from fairlead.api.objects import Obj
from fairlead.api.pod_log_options import PodLogOptions
from fairlead.client.calls import Body, import_library, why
from fairlead.golang.numbers import parse_bool
from fairlead.server.access import check
from fairlead.server.http import log_sockets
from fairlead.server.http.answers import Answer
from fairlead.server.http.authorization import access_request
from fairlead.server.http.connecting import connect_options
from fairlead.server.http.forwarding import Forwarder, Opening, Unreachable, forwarded
from fairlead.server.http.request import Request
from fairlead.server.http.request_info import RequestInfo
from fairlead.server.http.tunnel import Tunnels, to_kubelet
from fairlead.server.nodes.kubelets import Kubelet, Kubelets
from fairlead.server.registry.registry import Registry

if TYPE_CHECKING:
    import aiohttp

#: The subresources that need a real container, and the refusal.
_NOT_SIMULATED: Final = {
    ("pods", "log"): "simulated containers run nothing, so they have no logs",
    ("pods", "exec"): "simulated containers run nothing: no command can be executed in them",
    ("pods", "attach"): "simulated containers run nothing: there is nothing to attach to",
    ("pods", "portforward"): "simulated containers run nothing: no port can be forwarded to them",
}
#: The subresources that name a container.
_OF_A_CONTAINER: Final = frozenset({"log", "exec", "attach"})
#: How the kubelet's query calls what the API's does.
_STREAMS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_LOG_PARAMETERS: Final = ("follow", "previous", "timestamps")
_LOG_VALUES: Final = ("sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream")
#: How much of a kubelet's refusal is told.
_MOST_REFUSAL_BYTES: Final = 50_000


def is_of_container(info: RequestInfo) -> bool:
    return not info.group and (info.resource, info.subresource) in _NOT_SIMULATED


async def answer(registry: Registry, forwarder: Forwarder, tunnels: Tunnels, request: Request) -> Answer | None:
    """What the kubelet says; of a pod without a node, an empty log."""
    info = request.info
    if info.subresource != "log":
        await _check_create(registry, request)
    pod = (await registry.get(PODS, info.name, info.namespace)).obj()
    if info.subresource == "log":
        PodLogOptions.read(request.query).validate().raise_invalid("PodLogOptions", info.name)
    container = ""
    if info.subresource in _OF_A_CONTAINER:
        container = _container(pod, request.query.get("container", ""))
    node = pod["spec"].get("nodeName")
    if not node:
        if info.subresource == "log":
            return Answer(200, b"", "text/plain")
        raise BadRequest(f"pod {info.name} does not have a host assigned")
    kubelet = await registry.agents.kubelet(node)
    if kubelet is None:
        raise BadRequest(_NOT_SIMULATED[info.resource, info.subresource])
    kubelets = registry.agents.kubelets
    if info.subresource != "log":
        destination = to_kubelet(kubelets, kubelet, _target_of_streams(request, container))
        return await tunnels.run(request, destination)
    opening = partial(_opened, kubelets, kubelet, _target_of_log(request, container), request)
    if request.wishes_for("websocket"):
        return await _over_websocket(request, tunnels, opening, kubelet, container)
    try:
        await forwarder.run(request, opening, host=kubelet.host, seconds=0)
    except Unreachable as error:
        raise InternalError(f"Get {_quoted_url(kubelet, request, container)}: {error}") from None
    return None


async def _over_websocket(
    request: Request, tunnels: Tunnels, opening: Opening, kubelet: Kubelet, container: str
) -> Answer | None:
    await import_library()
    import aiohttp

    headers = [header for header in forwarded(request) if not header[0].startswith("sec-websocket-")]
    try:
        return await log_sockets.answer(request, tunnels, opening(headers, None))
    except (aiohttp.ClientError, TimeoutError) as error:
        raise InternalError(f"Get {_quoted_url(kubelet, request, container)}: {why(error, kubelet.host)}") from None


async def _check_create(registry: Registry, request: Request) -> None:
    """Whoever makes a connection creates something, though WebSockets begin with a GET."""
    asked = access_request(request)
    if asked.verb != "create":
        wanted = msgspec.structs.replace(asked, verb="create")
        check(await registry.authorizer.authorize(wanted), wanted)


def _container(pod: Obj, requested: str) -> str:
    """The container that is meant."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    names = [container["name"] for kind in kinds for container in spec.get(kind) or ()]
    if not requested and len(spec["containers"]) > 1:
        raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    if requested and requested not in names:
        raise BadRequest(f"container {requested} is not valid for pod {name}")
    return requested or str(spec["containers"][0]["name"])


# --- what the kubelet is asked --------------------------------------------------------------------------------------


def _target_of_streams(request: Request, container: str) -> str:
    info = request.info
    options = connect_options(request, info.subresource, "")
    if info.subresource == "portforward":
        ports = options.get("ports")
        query = {"port": ",".join(map(str, ports))} if ports else {}
        return _target(f"/portForward/{info.namespace}/{info.name}", list(query.items()))
    query_items = [(theirs, "1") for ours, theirs in _STREAMS.items() if options.get(ours)]
    query_items += [("command", word) for word in options.get("command", ())]
    return _target(f"/{info.subresource}/{info.namespace}/{info.name}/{container}", query_items)


def _target_of_log(request: Request, container: str) -> str:
    query: Mapping[str, str] = request.query
    items = [(name, "true") for name in _LOG_PARAMETERS if name in query and parse_bool(query[name])]
    items += [(name, query[name]) for name in _LOG_VALUES if query.get(name)]
    return _target(f"/containerLogs/{request.info.namespace}/{request.info.name}/{container}", items)


def _target(path: str, query: list[tuple[str, str]]) -> str:
    return quote(path) + (f"?{urlencode(query)}" if query else "")


def _quoted_url(kubelet: Kubelet, request: Request, container: str) -> str:
    return f'"https://{kubelet.authority}{_target_of_log(request, container)}"'


# --- what it answers ------------------------------------------------------------------------------------------------


def _opened(
    kubelets: Kubelets, kubelet: Kubelet, target: str, request: Request, headers: list[tuple[str, str]], body: Body
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    is_verified = not request.flag("insecureSkipTLSVerifyBackend")
    return _checked(kubelets.opened(kubelet, "GET", target, headers, body, is_verified=is_verified))


@asynccontextmanager
async def _checked(
    opening: AbstractAsyncContextManager[aiohttp.ClientResponse],
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer, if it is one; what the kubelet refuses becomes a refusal of ours."""
    async with opening as response:
        if not 200 <= response.status <= HTTPStatus.PARTIAL_CONTENT:
            text = (await response.content.read(_MOST_REFUSAL_BYTES)).decode(errors="replace")
            raise _refusal(response.status, text)
        yield response


def _refusal(code: int, text: str) -> ApiError:
    match code:
        case HTTPStatus.BAD_REQUEST:
            return BadRequest(text)
        case HTTPStatus.INTERNAL_SERVER_ERROR:
            return InternalError(f"Internal error occurred: {text}")
        case HTTPStatus.NOT_FOUND:
            return NotFound(f"the server could not find the requested resource ({text})")
    return class_of(code, "")(text or f"the server responded with the status code {code}")
