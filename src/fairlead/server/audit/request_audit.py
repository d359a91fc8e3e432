"""What is told of one request: noted while it is handled, and handed over at its stages.

    received ──▶ (started, of a watch) ──▶ complete
                                     └───▶ panicked, if that is a bug of ours

On the way of a request only references are taken; the thread that writes the log makes events of them
(`RequestAudit.event`). It costs half as much there, and keeps nobody waiting.
Sources: k8s.io/apiserver, pkg/audit/{context,request}.go, pkg/endpoints/filters/audit.go (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.api.encoded import Encoded, encode
from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.golang.durations import format_seconds
from fairlead.runtime.clock import micro_timestamp, now
from fairlead.server.access import AccessRequest, Verdict
from fairlead.server.audit.event import (
    API_VERSION,
    LEVEL_NAMES,
    TRUNCATED,
    AuthenticationMetadata,
    Event,
    Level,
    ObjectReference,
    ResponseStatus,
    Stage,
    UserInfo,
)
from fairlead.server.audit.origin import Origin
from fairlead.server.audit.policy import Decision

#: How large an event may be with its objects, whoever is told of it; one that is larger loses them (`truncation.py`).
MOST_BYTES: Final = 10 << 20
#: What an event has without its objects and what the client says of itself, roughly.
_USUAL_BYTES: Final = 1024
#: What is taken of a text that may be as long as a request.
_LONGEST_TEXT: Final = 1024
_LONGEST_ANNOTATION: Final = 64 << 10
_MOST_ANNOTATIONS: Final = 256
#: A request that takes longer says how long.
_SLOW_SECONDS: Final = 0.5

_STATUS_START: Final = b'{"kind":"Status",'

#: A request, a stage of it, and when that was: an event before it is made.
Told: TypeAlias = "tuple[RequestAudit, Stage, float]"
#: Takes one, and about how many bytes it will have; what comes back is done when it is where requests wait for it.
Put: TypeAlias = "Callable[[Told, int], asyncio.Future[bool] | None]"


class RequestAudit:
    """One request, as the policy wants it told."""

    __slots__ = (
        "_annotations",
        "_answered",
        "_asked",
        "_constraint",
        "_decision",
        "_event",
        "_impersonated",
        "_is_over",
        "_is_started",
        "_object",
        "_origin",
        "_put",
        "_received_at",
        "_request_object",
        "_response_object",
        "_verdict",
        "_waiter",
        "is_long_running",
    )

    def __init__(
        self, origin: Origin, asked: AccessRequest, decision: Decision, put: Put, *, is_long_running: bool
    ) -> None:
        self._origin, self._asked, self._decision, self._put = origin, asked, decision, put
        self._received_at = now()
        self.is_long_running = is_long_running
        self._is_started = self._is_over = False
        self._impersonated: User | None = None
        self._constraint = ""
        self._verdict: Verdict | None = None
        self._annotations: dict[str, str] = {}
        self._object: Mapping[str, Any] | None = None
        self._answered: Obj | None = None
        self._request_object: bytes | None = None
        self._response_object: bytes | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._event: Event | None = None  # the thread's

    # -- what is noted

    def annotate(self, key: str, value: str) -> None:
        """Whoever says something under a key first has said it."""
        if len(self._annotations) < _MOST_ANNOTATIONS:
            self._annotations.setdefault(key, value[:_LONGEST_ANNOTATION])

    def impersonates(self, user: User, constraint: str) -> None:
        """The request goes on as this user, by that permission if it is one of the narrow ones."""
        self._impersonated, self._constraint = user, constraint

    def decided(self, verdict: Verdict) -> None:
        """What authorization says."""
        self._verdict = verdict

    @property
    def tells_request(self) -> bool:
        return self._decision.level >= Level.REQUEST

    @property
    def tells_response(self) -> bool:
        return self._decision.level >= Level.REQUEST_RESPONSE

    def name_object(self, metadata: Mapping[str, Any]) -> None:
        """The path says which object is meant; what it does not say, the metadata in the body may."""
        self._object = {
            field: told[:_LONGEST_TEXT] for field in _NAMING if isinstance(told := metadata.get(field), str)
        }

    def receives(self, obj: Any) -> None:
        """What the body says, decoded; None: it cannot be read. Only if `tells_request`."""
        if obj is not None:
            self._request_object = encode(self._shown(obj))

    def answers(self, raw: bytes | None) -> None:
        """What is answered, as one line of JSON; None: too much to tell. Only if `tells_response`."""
        if raw is None:
            self.annotate(TRUNCATED, "true")
            return
        if self._decision.omits_managed_fields and b'"managedFields"' in raw:
            raw = encode(self._shown(Encoded(raw).obj()))
        self._response_object = raw

    def answers_status(self, status: Obj) -> None:
        """The answer is this `Status`."""
        if self._is_over:  # of a panic something else is told
            return
        self._answered = status
        if self.tells_response:
            self._response_object = encode(status)

    def _shown(self, obj: Any) -> Any:
        return _without_managed_fields(obj) if self._decision.omits_managed_fields else obj

    # -- when it is told

    def received(self) -> None:
        self._tell(Stage.REQUEST_RECEIVED, self._received_at)

    def started(self, code: int) -> None:
        """The answer begins."""
        if not self._is_started:
            self._is_started = True
            self.answers_code(code)
            self._tell(Stage.RESPONSE_STARTED, now())

    def complete(self, code: int | None) -> None:
        """There is no more to come; without a code there was no answer at all."""
        if self._is_over:
            return
        self._is_over = True
        if code is not None:
            self.answers_code(code)
        elif self._answered is None:
            self._answered = {"status": "Success", "message": "Connection closed early", "code": HTTPStatus.OK}
            if self.is_long_running:
                self.started(HTTPStatus.OK)
        moment = now()
        if moment - self._received_at > _SLOW_SECONDS:
            self.annotate("apiserver.latency.k8s.io/total", format_seconds(moment - self._received_at))
        self._tell(Stage.RESPONSE_COMPLETE, moment)

    def panicked(self, error: BaseException) -> None:
        """Something is wrong with the server. The log has it under the same id; what it is about may be secret."""
        self._is_over = True
        text = f"APIServer panic'd: {type(error).__name__}"
        self._answered = {"status": "Failure", "message": text, "reason": "InternalError", "code": 500}
        self._tell(Stage.PANIC, now())

    def answers_code(self, code: int) -> None:
        if self._answered is None:
            self._answered = {"code": code}

    def _tell(self, stage: Stage, moment: float) -> None:
        if stage in self._decision.omitted_stages:
            return
        size = _USUAL_BYTES + self._origin.size
        if self._request_object is not None or self._response_object is not None:
            size += len(self._request_object or b"") + len(self._response_object or b"")
            if size > MOST_BYTES:
                self._request_object = self._response_object = None
                self.annotate(TRUNCATED, "true")
                size = _USUAL_BYTES + self._origin.size
        self._waiter = self._put((self, stage, moment), size)

    async def delivered(self) -> bool:
        """Wait for what was told last to be where it has to be before the request goes on; whether it is there."""
        waiter, self._waiter = self._waiter, None
        return waiter is None or await waiter

    # -- what is written, in a thread of its own

    def event(self, stage: Stage, moment: float) -> Event:
        """What is told at that stage; the event of the stage before is used again."""
        event, asked = self._event, self._asked
        if event is None:
            event = self._event = self._first_event()
        event.stage = stage
        if stage is not Stage.REQUEST_RECEIVED:
            event.stage_timestamp = micro_timestamp(moment)
            self._add_later(event)
        if asked.resource:
            event.object_ref = _reference(asked, {} if stage is Stage.REQUEST_RECEIVED else self._object or {})
        return event

    def _first_event(self) -> Event:
        """What is known of a request when it comes."""
        origin, received_at = self._origin, micro_timestamp(self._received_at)
        return Event(
            api_version=API_VERSION,
            level=LEVEL_NAMES[self._decision.level],
            audit_id=origin.id,
            stage=Stage.REQUEST_RECEIVED,
            request_uri=origin.uri,
            verb=self._asked.verb,
            user=UserInfo.of(self._asked.user),
            source_ips=origin.source_ips,
            user_agent=origin.user_agent,
            request_received_timestamp=received_at,
            stage_timestamp=received_at,
        )

    def _add_later(self, event: Event) -> None:
        """What was not known when the request came."""
        if self._impersonated is not None:
            event.impersonated_user = UserInfo.of(self._impersonated)
            if self._constraint:
                event.authentication_metadata = AuthenticationMetadata(self._constraint)
        if (told := self._answered) is not None:
            texts = (told.get("status", ""), told.get("message", ""), told.get("reason", ""), told.get("details"))
            event.response_status = ResponseStatus({}, *texts, told.get("code", HTTPStatus.OK))
        event.request_object = None if self._request_object is None else msgspec.Raw(self._request_object)
        event.response_object = None if self._response_object is None else msgspec.Raw(self._response_object)
        event.annotations = annotations = {}
        if (verdict := self._verdict) is not None and verdict.error and not verdict.is_allowed:
            annotations["authorization.k8s.io/reason"] = "internal error"
        elif verdict is not None:
            annotations["authorization.k8s.io/decision"] = "allow" if verdict.is_allowed else "forbid"
            annotations["authorization.k8s.io/reason"] = verdict.reason
        annotations.update(self._annotations)


#: What names an object, in its metadata.
_NAMING: Final = ("namespace", "name", "uid", "resourceVersion")


def _reference(asked: AccessRequest, named: Mapping[str, str]) -> ObjectReference:
    return ObjectReference(
        asked.resource,
        asked.namespace or named.get("namespace", ""),
        asked.name or named.get("name", ""),
        named.get("uid", ""),
        asked.group,
        asked.version,
        named.get("resourceVersion", ""),
        asked.subresource,
    )


def is_status(raw: bytes) -> bool:
    """Whether these are the bytes of a `Status`."""
    return raw.startswith(_STATUS_START)


def _without_managed_fields(obj: Any) -> Any:
    """The object, the list of objects, or the table, without what is noted of who owns which field."""
    if not isinstance(obj, dict):
        return obj
    if isinstance(meta := obj.get("metadata"), dict) and "managedFields" in meta:
        obj = obj | {"metadata": {key: value for key, value in meta.items() if key != "managedFields"}}
    for key in ("items", "rows"):
        if isinstance(items := obj.get(key), list):
            obj = obj | {key: [_without_managed_fields(item) for item in items]}
    if isinstance(inner := obj.get("object"), dict):  # of a row
        obj = obj | {"object": _without_managed_fields(inner)}
    return obj
