"""What a request is about, from its method and path alone: a verb on a resource, or another path.

    /api/v1/…  /apis/GROUP/VERSION/…
        namespaces/NS/RESOURCE[/NAME[/SUBRESOURCE]]
        RESOURCE[/NAME[/SUBRESOURCE]]
        watch/…                                   (the old spelling of ?watch=1)

Everything else (discovery, health, OpenAPI) is a path of its own. Source: apiserver `endpoints/request/requestinfo.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

#: What may follow a namespace's name and is not a kind: its own subresources.
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")
#: HTTP method -> (verb on an object or subresource, verb on a collection).
VERBS: Final[Mapping[str, tuple[str, str]]] = {
    "GET": ("get", "list"),
    "POST": ("create", "create"),
    "PUT": ("update", "update"),
    "PATCH": ("patch", "patch"),
    "DELETE": ("delete", "deletecollection"),
}


class RequestInfo(msgspec.Struct, frozen=True):
    """A verb, and what it is asked of. `resource` is the plural name; it is empty where the path is no resource's."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    #: Whether the path itself asks for a watch.
    is_watch_path: bool = False


def request_info(method: str, path: str) -> RequestInfo:
    """What a request is about. Whether a list is a watch by its query, the query says."""
    non_resource = RequestInfo(method.lower(), path)
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return non_resource
    is_watch_path = rest[0] == "watch"
    if is_watch_path:
        rest = rest[1:]
        if not rest:
            return non_resource
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if not all(rest):
        return non_resource
    resource, name, subresource = rest[0], rest[1] if len(rest) > 1 else "", "/".join(rest[2:])
    on_object, on_collection = VERBS.get(method, (method.lower(), method.lower()))
    verb = "watch" if is_watch_path and method == "GET" else on_object if name else on_collection
    return RequestInfo(verb, path, group, version, resource, namespace, name, subresource, is_watch_path)
