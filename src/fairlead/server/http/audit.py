"""Audit of requests over HTTP: under which id, and which of them are told of.

Sources: k8s.io/apiserver, pkg/endpoints/filters/{audit,audit_init,authn_audit}.go (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from fairlead.api.errors import BadRequest
from fairlead.api.users import User
from fairlead.runtime import rng
from fairlead.runtime.http.exchange import Send
from fairlead.server.audit.auditor import Auditor
from fairlead.server.audit.event import Level, Stage
from fairlead.server.audit.origin import Origin
from fairlead.server.audit.policy import Decision
from fairlead.server.audit.request_audit import RequestAudit
from fairlead.server.http.authorization import access_request, runs_long
from fairlead.server.http.request import Request

_AUDIT_ID: Final = b"audit-id"
#: What is taken of the id that a client gives its request, in the log and in the answer.
_LONGEST_ID: Final = 1024

#: Of those who are not let in, there is one event: what they were answered.
_NOT_OF_STRANGERS: Final = frozenset(Stage) - {Stage.RESPONSE_STARTED}
_NOBODY: Final = User("")


def audit_id(headers: Mapping[bytes, bytes]) -> bytes:
    """Under which id the request is told of: the client's own, or a new one."""
    return headers.get(_AUDIT_ID, b"")[:_LONGEST_ID] or rng.uid().encode()


async def begin(auditor: Auditor, request: Request) -> bool:
    """Tell of a request, if the policy wants it, whose sender is known; whether it may go on."""
    decision = auditor.decide(access_request(request))
    if decision.level is Level.NONE:
        return True
    audit = _begin(auditor, request, decision)
    audit.received()
    if auditor.may_go_on(is_told=await audit.delivered()):
        return True
    request.audit = None  # nothing more is told of it
    return False


async def complete(request: Request, code: int | None) -> None:
    """There is no more to come of a request; without a code there was no answer at all."""
    if request.audit is not None:
        request.audit.complete(code)
        await request.audit.delivered()


def begin_of_stranger(auditor: Auditor, request: Request) -> None:
    """Tell of a request whose sender is not known: rules that name users or groups do not match."""
    with suppress(BadRequest):
        request.read_query()
    request.user = _NOBODY
    decision = auditor.decide(access_request(request))
    if decision.level is not Level.NONE:
        omitted = decision.omitted_stages | _NOT_OF_STRANGERS
        _begin(auditor, request, replace(decision, omitted_stages=omitted), is_stranger=True)
    request.user = None


def _begin(auditor: Auditor, request: Request, decision: Decision, *, is_stranger: bool = False) -> RequestAudit:
    asked = access_request(request)
    is_long = is_stranger or asked.verb == "watch" or runs_long(asked)
    origin = Origin.of(request.audit_id, request.scope, request.headers)
    request.audit = audit = RequestAudit(origin, asked, decision, auditor.put, is_long_running=is_long)
    if is_long:
        request.send = _noticed(request.send, audit)
    return audit


def _noticed(send: Send, audit: RequestAudit) -> Send:
    """Tell when the answer begins."""

    async def noticing(message: Any) -> None:
        if message["type"] == "http.response.start":
            audit.started(message["status"])
            await audit.delivered()
        await send(message)

    return noticing
