"""Admission of connections: exec, attach, port-forward and proxies ask nobody for an object, but may be refused.

What is admitted are the options of the connection, of a kind of their own. Source: apiserver
pkg/endpoints/handlers/rest.go, `ConnectResource`; pkg/apis/core/{types,v1/defaults}.go (1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import WRITE
from fairlead.golang.numbers import parse_bool
from fairlead.server.admission.base import Attributes, Operation
from fairlead.server.http.request import Request
from fairlead.server.registry.registry import Registry
from fairlead.server.subresources.action import BodyView

_PORT: Final = re.compile("[0-9]{1,5}").fullmatch
_FLAGS: Final = ("stdin", "stdout", "stderr", "tty")
_SUBRESOURCES: Final[Mapping[str, frozenset[str]]] = {
    "pods": frozenset({"exec", "attach", "portforward", "proxy"}),
    "services": frozenset({"proxy"}),
    "nodes": frozenset({"proxy"}),
}


async def admit(registry: Registry, request: Request, row: Resource) -> None:
    """Ask admission about a request that connects to something; others pass."""
    info = request.info
    subresource, _, path = info.subresource.partition("/")
    if row.group or subresource not in _SUBRESOURCES.get(row.plural, ()):
        return
    attributes = Attributes(
        Operation.CONNECT,
        row,
        info.namespace,
        info.name,
        connect_options(request, subresource, path),
        None,
        subresource,
        user=request.known_user,
        warnings=request.warnings,
        audit=request.audit,
        view=BodyView(row, subresource, WRITE),
    )
    await registry.admission.admit(attributes)
    await registry.admission.validate(attributes)


def connect_options(request: Request, subresource: str, path: str) -> Obj:
    """What the query says, as the kind of the subresource has it."""
    query: Mapping[str, str] = request.query
    if subresource == "proxy":
        return {"path": path} if path else {}
    if subresource == "portforward":
        ports = [port for text in request.queries.get("ports", ()) for port in text.split(",")]
        return {"ports": [int(port) for port in ports if _PORT(port)]} if ports else {}
    found: Obj = {"stdout": True, "stderr": True}
    for key in _FLAGS:
        if key in query and (parse_bool(query[key]) or found.get(key)):
            found[key] = parse_bool(query[key])
    if container := query.get("container"):
        found["container"] = container
    if subresource == "exec" and (command := request.queries.get("command")):
        found["command"] = list(command)
    return {key: value for key, value in found.items() if value}
