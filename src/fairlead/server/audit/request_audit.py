"""What is told of one request: noted while it is handled, and written at its stages.

    received ──▶ (started, of a watch) ──▶ complete
                                     └───▶ panicked, if that is a bug of ours

Sources: k8s.io/apiserver, pkg/audit/{context,request}.go, pkg/endpoints/filters/audit.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.golang.durations import format_seconds
from fairlead.runtime.clock import micro_timestamp, now
from fairlead.server.audit.event import (
    AuthenticationMetadata,
    Event,
    Level,
    ResponseStatus,
    Stage,
    UserInfo,
)
from fairlead.server.audit.policy import Decision

#: How large an event may be with its objects; one that is larger loses them, as with `--audit-log-truncate-enabled`.
MOST_BYTES: Final = 10 << 20
_TRUNCATED: Final = "audit.k8s.io/truncated"
#: What is taken of a text that may be as long as a request.
_LONGEST_TEXT: Final = 1024
_LONGEST_ANNOTATION: Final = 64 << 10
_MOST_ANNOTATIONS: Final = 256
#: A request that takes longer says how long.
_SLOW_SECONDS: Final = 0.5

_STATUS_START: Final = b'{"kind":"Status",'
_encode: Final = msgspec.json.Encoder().encode


class RequestAudit:
    """One request, as the policy wants it told."""

    __slots__ = ("_decision", "_event", "_is_over", "_is_started", "_received_at", "_write", "is_long_running")

    def __init__(
        self,
        event: Event,
        decision: Decision,
        received_at: float,
        *,
        is_long_running: bool,
        write: Callable[[bytes], None],
    ) -> None:
        """`write` takes a line."""
        self._event, self._decision, self._write = event, decision, write
        self._received_at = received_at
        self.is_long_running = is_long_running
        self._is_started = self._is_over = False

    # -- what is noted

    def annotate(self, key: str, value: str) -> None:
        """Whoever says something under a key first has said it."""
        annotations = self._event.annotations
        if len(annotations) < _MOST_ANNOTATIONS:
            annotations.setdefault(key, value[:_LONGEST_ANNOTATION])

    def impersonates(self, user: User, constraint: str) -> None:
        """The request goes on as this user, by that permission if it is one of the narrow ones."""
        self._event.impersonated_user = UserInfo.of(user)
        if constraint:
            self._event.authentication_metadata = AuthenticationMetadata(constraint)

    @property
    def tells_request(self) -> bool:
        return self._decision.level >= Level.REQUEST

    @property
    def tells_response(self) -> bool:
        return self._decision.level >= Level.REQUEST_RESPONSE

    def name_object(self, metadata: Mapping[str, Any]) -> None:
        """The path says which object is meant; what it does not say, the body may."""
        reference = self._event.object_ref
        if reference is None:
            return
        for name, field in _REFERENCE_FIELDS:
            told = metadata.get(name)
            if isinstance(told, str) and not getattr(reference, field):
                setattr(reference, field, told[:_LONGEST_TEXT])

    def receives(self, obj: Any) -> None:
        """What the body says, decoded; None: it cannot be read. Only if `tells_request`."""
        if obj is not None:
            self._event.request_object = msgspec.Raw(encode(self._shown(obj)))

    def answers(self, raw: bytes | None) -> None:
        """What is answered, as one line of JSON; None: too much to tell. Only if `tells_response`."""
        if raw is None:
            self.annotate(_TRUNCATED, "true")
            return
        if self._decision.omits_managed_fields and b'"managedFields"' in raw:
            raw = encode(self._shown(msgspec.json.decode(raw)))
        self._event.response_object = msgspec.Raw(raw)

    def answers_status(self, status: Obj) -> None:
        """The answer is this `Status`."""
        told = (status.get("status", ""), status.get("message", ""), status.get("reason", ""), status.get("details"))
        self._event.response_status = ResponseStatus({}, *told, status.get("code", HTTPStatus.OK))
        if self.tells_response:
            self._event.response_object = msgspec.Raw(encode(status))

    def _shown(self, obj: Any) -> Any:
        return _without_managed_fields(obj) if self._decision.omits_managed_fields else obj

    # -- what is written

    def received(self) -> None:
        self._tell(Stage.REQUEST_RECEIVED, self._received_at)

    def started(self, code: int) -> None:
        """The answer begins."""
        if not self._is_started:
            self._is_started = True
            self._answered_with(code)
            self._tell(Stage.RESPONSE_STARTED, now())

    def complete(self, code: int | None) -> None:
        """There is no more to come; without a code there was no answer at all."""
        if self._is_over:
            return
        self._is_over = True
        if code is not None:
            self._answered_with(code)
        elif self._event.response_status is None:
            text = "Connection closed early"
            self._event.response_status = ResponseStatus({}, "Success", text, code=HTTPStatus.OK)
            if self.is_long_running:
                self.started(HTTPStatus.OK)
        moment = now()
        if moment - self._received_at > _SLOW_SECONDS:
            self.annotate("apiserver.latency.k8s.io/total", format_seconds(moment - self._received_at))
        self._tell(Stage.RESPONSE_COMPLETE, moment)

    def panicked(self, error: BaseException) -> None:
        """Something is wrong with the server. The log has it under the same id; what it is about may be secret."""
        self._is_over = True
        self._event.response_status = ResponseStatus(
            {}, "Failure", f"APIServer panic'd: {type(error).__name__}", "InternalError", code=500
        )
        self._tell(Stage.PANIC, now())

    def _answered_with(self, code: int) -> None:
        if self._event.response_status is None:
            self._event.response_status = ResponseStatus({}, code=code)

    def _tell(self, stage: Stage, moment: float) -> None:
        if stage in self._decision.omitted_stages:
            return
        event = self._event
        event.stage = stage
        event.stage_timestamp = micro_timestamp(moment)
        line = _encode(event) + b"\n"
        if len(line) > MOST_BYTES:
            event.request_object = event.response_object = None
            event.annotations[_TRUNCATED] = "true"
            line = _encode(event) + b"\n"
        self._write(line)


_REFERENCE_FIELDS: Final = (
    ("namespace", "namespace"),
    ("name", "name"),
    ("uid", "uid"),
    ("resourceVersion", "resource_version"),
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
