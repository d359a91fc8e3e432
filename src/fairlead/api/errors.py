"""Every way a request can be refused, as one exception tree rendered in one place.

    ApiError
    ├── BadRequest             400 BadRequest            the request makes no sense
    ├── Unauthorized           401 Unauthorized          nobody we know
    ├── Forbidden              403 Forbidden             known, but not allowed, or refused by admission
    ├── NotFound               404 NotFound
    ├── MethodNotSupported     405 MethodNotAllowed
    ├── NotAcceptable          406 NotAcceptable         no representation the client accepts
    ├── AlreadyExists          409 AlreadyExists
    ├── Conflict               409 Conflict              somebody else was faster
    ├── Gone                   410 Gone
    │   └── Expired            410 Expired               that history is forgotten: list again
    ├── EntityTooLarge         413 RequestEntityTooLarge
    ├── UnsupportedMediaType   415 UnsupportedMediaType
    ├── Invalid                422 Invalid               the object breaks a rule; causes say where
    ├── TooManyRequests        429 TooManyRequests       try later (also: a disruption budget says no)
    ├── InternalError          500 InternalError         a bug, never the client's fault
    ├── Unknown                500 (none)                an error for which Kubernetes has no reason either
    │   └── TooLargeToStore    500 (none)                etcd does not take objects of that size
    ├── ServiceUnavailable     503 ServiceUnavailable
    └── ServerTimeout          504 Timeout               the server gave up waiting

Texts are those of k8s.io/apimachinery/pkg/api/errors (1.36); clients match on `reason` and `code`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

import msgspec

from fairlead.api.objects import Obj


class Cause(msgspec.Struct, frozen=True):
    """One reason inside a refusal: a machine-readable word, a text, and the field it is about."""

    reason: str
    message: str
    field: str = ""

    def encode(self) -> Obj:
        fields = {"reason": self.reason, "message": _shortened(self.message), "field": self.field}
        return {key: value for key, value in fields.items() if value}


#: How many characters the causes of a refusal may have together, and its message.
MOST_TOLD: Final = 1 << 18

#: How large an object etcd takes (`--max-request-bytes`).
MOST_STORED: Final = 1536 << 10
_TOO_MUCH: Final = Cause("FieldValueTooMany", "Too many errors: the others are left out")


class Causes(list[Cause]):
    """What is wrong with something, as far as an answer has room for it: the last cause says if there was more."""

    def __init__(self, causes: Iterable[Cause] = ()) -> None:
        super().__init__()
        self._length = 0
        #: How many were added, whether there was room for them or not.
        self.added = 0
        self.extend(causes)

    @property
    def has_room(self) -> bool:
        return self._length <= MOST_TOLD

    def append(self, cause: Cause) -> None:
        self.added += 1
        if self.has_room:
            self._length += len(cause.message) + len(cause.field)
            super().append(cause)
        elif self[-1] is not _TOO_MUCH:
            super().append(_TOO_MUCH)

    def clear(self) -> None:
        super().clear()
        self._length = self.added = 0

    def extend(self, causes: Iterable[Cause]) -> None:
        for cause in causes:
            self.append(cause)

    def __iadd__(self, causes: Iterable[Cause]) -> Self:  # type: ignore[override, misc]
        self.extend(causes)
        return self


class ApiError(Exception):
    """A refusal that a client can understand: it becomes a `Status` object."""

    code: int = 500
    reason: str = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        uid: str = "",
        causes: Iterable[Cause] = (),
        retry_after_seconds: int = 0,
        shows_details: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = {"name": name, "group": group, "kind": kind, "uid": uid}
        self.causes = Causes(causes)
        self.retry_after_seconds = retry_after_seconds
        self.shows_details = shows_details  # some of Kubernetes' errors carry empty details
        #: What was noticed before the refusal: an answer's `Warning` headers.
        self.warnings: Sequence[str] = ()

    #: The `Status` that somebody else wrote who was asked: a webhook.
    foreign: Obj | None = None

    def status(self) -> Obj:
        """The `Status` that goes over the wire."""
        if self.foreign is not None:
            return self.foreign | {"message": _shortened(self.message)}
        details: Obj = {key: value for key, value in self.details.items() if value}
        if self.causes:
            details["causes"] = [cause.encode() for cause in self.causes]
        if self.retry_after_seconds:
            details["retryAfterSeconds"] = self.retry_after_seconds
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": _shortened(self.message),
        }
        if self.reason:
            status["reason"] = self.reason
        if details or self.shows_details:
            status["details"] = details
        return status | {"code": self.code}


def _shortened(message: str) -> str:
    """What quotes a large part of a large request is cut."""
    left_out = len(message) - 2 * MOST_TOLD
    return message if left_out <= 0 else f"{message[: 2 * MOST_TOLD]}... ({left_out} more characters)"


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"

    @classmethod
    def of(cls, plural: str, name: str, why: str, group: str = "") -> Forbidden:
        """`pods "x" is forbidden: why`, the form of every admission refusal."""
        who = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
        return cls(f"{who} is forbidden: {why}", name=name, group=group, kind=plural)


class NotFound(ApiError):
    code, reason = 404, "NotFound"

    @classmethod
    def of(cls, plural: str, name: str, group: str = "") -> NotFound:
        return cls(f'{qualified(plural, group)} "{name}" not found', name=name, group=group, kind=plural)


class MethodNotSupported(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"

    @classmethod
    def of(
        cls, plural: str, name: str, group: str = "", *, is_generated: bool = False, is_going: bool = False
    ) -> AlreadyExists:
        """`is_generated`: the server was asked to make up the name. `is_going`: what has it is being deleted."""
        text = f'{qualified(plural, group)} "{name}" already exists'
        if is_generated:
            text += ", the server was not able to generate a unique name for the object"
        if is_going:
            text = f"object is being deleted: {text}"
        return cls(text, name=name, group=group, kind=plural, retry_after_seconds=int(is_generated))


class Conflict(ApiError):
    code, reason = 409, "Conflict"

    @classmethod
    def of(cls, plural: str, name: str, why: str, group: str = "") -> Conflict:
        text = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
        return cls(text, name=name, group=group, kind=plural)


#: The cause text of a lost optimistic-concurrency race (X-05).
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Gone(ApiError):
    code, reason = 410, "Gone"


class Expired(Gone):
    reason = "Expired"

    #: With which a list whose pages have become too old can go on, at the newest state.
    continue_token = ""

    def status(self) -> Obj:
        status = super().status()
        if self.continue_token:
            status["metadata"] = {"continue": self.continue_token}
        return status


class EntityTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"

    @classmethod
    def of(cls, why: str) -> InternalError:
        """Something failed that is none of the client's business."""
        return cls(f"Internal error occurred: {why}", causes=[Cause("", why)])


class Unknown(ApiError):
    code, reason = 500, ""


class TooLargeToStore(Unknown):
    def __init__(self) -> None:
        super().__init__("etcdserver: request is too large")


class ServiceUnavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class ServerTimeout(ApiError):
    code, reason = 504, "Timeout"


def is_namespace_terminating(error: ApiError) -> bool:
    """Whether nothing can be made there any more: while a namespace goes that is a matter of course."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)


def qualified(plural: str, group: str) -> str:
    """`deployments.apps`, `pods`: how Kubernetes writes a group-resource."""
    return f"{plural}.{group}" if group else plural


#: The classes that a Status can name; those which their reason does not tell from another are left out.
_BY_STATUS: Final[Mapping[tuple[int, str], type[ApiError]]] = {
    (kind.code, kind.reason): kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, ApiError) and kind not in (ApiError, TooLargeToStore)
}
_BY_CODE: Final[Mapping[int, type[ApiError]]] = {code: error for (code, _), error in reversed(list(_BY_STATUS.items()))}


def class_of(code: int, reason: str) -> type[ApiError]:
    """The class of a refusal with that code and reason."""
    return _BY_STATUS.get((code, reason)) or _BY_CODE.get(code) or Unknown


def foreign(status: Obj) -> ApiError:
    """The refusal that somebody else's `Status` is."""
    code, reason = status["code"], status.get("reason", "")
    error = class_of(code, reason)(status["message"])
    error.code, error.reason, error.foreign = code, reason, status
    return error
