"""What a request over HTTP says for the audit log: under which id, from where, and what of it may be told.

Sources: k8s.io/apiserver, pkg/endpoints/filters/{audit,audit_init,authn_audit}.go; k8s.io/apimachinery,
pkg/util/net/http.go (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Final

from fairlead.api.errors import BadRequest
from fairlead.api.users import User
from fairlead.caches import bounded_cache
from fairlead.runtime import rng
from fairlead.runtime.clock import micro_timestamp, now
from fairlead.server.access import AccessRequest
from fairlead.server.audit.auditor import Auditor
from fairlead.server.audit.event import API_VERSION, Event, Level, ObjectReference, Stage, UserInfo
from fairlead.server.audit.request_audit import RequestAudit
from fairlead.server.http.authorization import access_request, runs_long
from fairlead.server.http.exchange import Send
from fairlead.server.http.request import Request

_AUDIT_ID: Final = b"audit-id"
#: What is taken of the id that a client gives its request, in the log and in the answer.
_LONGEST_ID: Final = 1024
#: How much of the name of a program is told (pkg/audit/request.go).
_LONGEST_AGENT: Final = 1024
_CUT: Final = "...TRUNCATED"
#: How much of a list of proxies is looked at; the client's own address always is.
_LONGEST_CHAIN: Final = 4096

#: Of those who are not let in, there is one event: what they were answered.
_NOT_OF_STRANGERS: Final = frozenset(Stage) - {Stage.RESPONSE_STARTED}
_NOBODY: Final = User("")


def audit_id(headers: Mapping[bytes, bytes]) -> bytes:
    """Under which id the request is told of: the client's own, or a new one."""
    return headers.get(_AUDIT_ID, b"")[:_LONGEST_ID] or rng.uid().encode()


def begin(auditor: Auditor, request: Request) -> None:
    """Tell of a request, if the policy wants it, whose sender is known."""
    _begin(auditor, request, access_request(request))
    if request.audit is not None:
        request.audit.received()


def begin_of_stranger(auditor: Auditor, request: Request) -> None:
    """Tell of a request whose sender is not known: rules that name users or groups do not match."""
    with suppress(BadRequest):
        request.read_query()
    request.user = _NOBODY
    try:
        _begin(auditor, request, access_request(request), is_stranger=True)
    finally:
        request.user = None


def _begin(auditor: Auditor, request: Request, asked: AccessRequest, *, is_stranger: bool = False) -> None:
    decision = auditor.policy.decide(asked)
    if decision.level is Level.NONE:
        return
    if is_stranger:
        decision = replace(decision, omitted_stages=decision.omitted_stages | _NOT_OF_STRANGERS)
    received_at = now()
    moment = micro_timestamp(received_at)
    event = Event(
        api_version=API_VERSION,
        level=str(decision.level),
        audit_id=_text(request.audit_id),
        stage=Stage.REQUEST_RECEIVED,
        request_uri=_uri(request.scope),
        verb=asked.verb,
        user=UserInfo.of(asked.user),
        source_ips=_source_ips(request),
        user_agent=_user_agent(request.headers),
        object_ref=_reference(asked),
        request_received_timestamp=moment,
        stage_timestamp=moment,
    )
    is_long = is_stranger or asked.verb == "watch" or runs_long(asked)
    request.audit = RequestAudit(event, decision, received_at, is_long_running=is_long, write=auditor.write)
    if is_long:
        request.send = _noticed(request.send, request.audit)


def _noticed(send: Send, audit: RequestAudit) -> Send:
    """Tell when the answer begins."""

    async def noticing(message: Any) -> None:
        if message["type"] == "http.response.start":
            audit.started(message["status"])
        await send(message)

    return noticing


def _reference(asked: AccessRequest) -> ObjectReference | None:
    if not asked.resource:
        return None
    return ObjectReference(
        asked.resource,
        asked.namespace,
        asked.name,
        api_group=asked.group,
        api_version=asked.version,
        subresource=asked.subresource,
    )


def _uri(scope: Any) -> str:
    path, query = scope["raw_path"], scope["query_string"]
    return _text(b"%b?%b" % (path, query) if query else path)


def _user_agent(headers: Mapping[bytes, bytes]) -> str:
    agent = headers.get(b"user-agent", b"")
    return _text(agent) if len(agent) <= _LONGEST_AGENT else _text(agent[:_LONGEST_AGENT]) + _CUT


def _source_ips(request: Request) -> tuple[str, ...]:
    """Where it comes from, as proxies say on the way, and as the connection says last."""
    headers, client = request.headers, request.scope["client"]
    own = client[0] if client else ""
    forwarded, real = headers.get(b"x-forwarded-for"), headers.get(b"x-real-ip")
    if not forwarded and not real:
        return (own,) if own else ()
    parts = (forwarded or b"")[:_LONGEST_CHAIN].split(b",")
    addresses = [address for part in parts if (address := _address(part))]
    if real and (address := _address(real[:_LONGEST_CHAIN])) and address not in addresses:
        addresses.append(address)
    if own and addresses[-1:] != [own]:
        addresses.append(own)
    return tuple(addresses)


@bounded_cache(maxsize=256)
def _address(text: bytes) -> str:
    """An IP address as Go writes it; "" if it is none."""
    try:
        return str(ip_address(text.decode("ascii", "replace").strip()))
    except ValueError:
        return ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
