"""The subresources that need a real container: logs, exec, attach, port-forward.

Simulated containers run nothing. The checks that the API server itself makes come first, with its errors; then a
refusal says why there is nothing to show. Source: pkg/registry/core/pod/strategy.go (1.36).
"""

from __future__ import annotations

from fairlead.api.builtin import PODS
from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.server.http.answers import Answer
from fairlead.server.http.request import Request
from fairlead.server.http.request_info import RequestInfo
from fairlead.server.registry.registry import Registry

#: The subresources that need a real container, and the refusal.
_NOT_SIMULATED = {
    ("pods", "log"): "simulated containers run nothing, so they have no logs",
    ("pods", "exec"): "simulated containers run nothing: no command can be executed in them",
    ("pods", "attach"): "simulated containers run nothing: there is nothing to attach to",
    ("pods", "portforward"): "simulated containers run nothing: no port can be forwarded to them",
}
#: The subresources that name a container.
_OF_A_CONTAINER = frozenset({"log", "exec", "attach"})


def is_simulated(info: RequestInfo) -> bool:
    return not info.group and (info.resource, info.subresource) in _NOT_SIMULATED


async def answer(registry: Registry, request: Request) -> Answer:
    """Refuse the request, except for the log of a pod without a node, which is empty."""
    info = request.info
    pod = (await registry.get(PODS, info.name, info.namespace)).obj()
    if info.subresource in _OF_A_CONTAINER:
        _check_container(pod, request.query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        if info.subresource == "log":
            return Answer(200, b"", "text/plain")
        raise BadRequest(f"pod {info.name} does not have a host assigned")
    raise BadRequest(_NOT_SIMULATED[info.resource, info.subresource])


def _check_container(pod: Obj, requested: str) -> None:
    spec, name = pod["spec"], pod["metadata"]["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    names = [container["name"] for kind in kinds for container in spec.get(kind) or ()]
    if not requested and len(spec["containers"]) > 1:
        raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    if requested and requested not in names:
        raise BadRequest(f"container {requested} is not valid for pod {name}")
