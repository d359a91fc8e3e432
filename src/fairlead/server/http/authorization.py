"""What a request over HTTP asks of authorization.

Source: k8s.io/apiserver, endpoints/filters/authorization.go and endpoints/request/requestinfo.go (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.server.access import AccessRequest, selected_name
from fairlead.server.http.request import Request

#: Verbs whose query may select.
_SELECTING: Final = ("list", "watch", "deletecollection")
#: Subresources whose requests go on for as long as the client likes.
_LONG_RUNNING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})


def access_request(request: Request) -> AccessRequest:
    """Who wants to do what, worked out once for each user as whom the request is made. The query has been read."""
    known = request.asked
    if known is None or known.user is not request.user:
        known = request.asked = _access_request(request)
    return known


def _access_request(request: Request) -> AccessRequest:
    info = request.info
    user = request.known_user
    if not info.resource:
        return AccessRequest(user, info.verb, path=info.path)
    verb, name = info.verb, info.name
    if verb == "head":
        verb = "get" if name else "list"
    if verb == "list" and request.is_watch:
        verb = "watch"
    namespace = info.namespace
    if not namespace and info.resource == "namespaces" and not info.group:
        namespace = name  # a namespace is in itself, so that its own roles may speak of it
    subresource = info.subresource.partition("/")[0]
    if verb not in _SELECTING:
        return AccessRequest(user, verb, info.group, info.version, info.resource, subresource, namespace, name)
    fields = request.query.get("fieldSelector", "")
    return AccessRequest(
        user,
        verb,
        info.group,
        info.version,
        info.resource,
        subresource,
        namespace,
        name or selected_name(fields),
        field_selector=fields,
        label_selector=request.query.get("labelSelector", ""),
    )


def runs_long(asked: AccessRequest) -> bool:
    """Whether it goes on for as long as the client likes, and is no watch (kube-apiserver's long-running requests)."""
    return asked.subresource in _LONG_RUNNING or asked.verb == "proxy"
