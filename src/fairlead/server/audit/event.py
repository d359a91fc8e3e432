"""An audit event: what is told of one request at one stage of it (audit.k8s.io/v1).

Source: k8s.io/apiserver, pkg/apis/audit/v1/types.go (1.36), whose order of fields this is.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any, Final

import msgspec

from fairlead.api.users import User

API_VERSION: Final = "audit.k8s.io/v1"
#: The annotation of an event whose objects are left out because they are too large.
TRUNCATED: Final = "audit.k8s.io/truncated"


class Level(IntEnum):
    """How much is told, from nothing to everything."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    def __str__(self) -> str:
        return LEVEL_NAMES[self]


LEVEL_NAMES: Final = ("None", "Metadata", "Request", "RequestResponse")


class Stage(StrEnum):
    """How far the request has come."""

    REQUEST_RECEIVED = "RequestReceived"
    #: Of requests that take as long as they like (watches) alone: the answer has begun.
    RESPONSE_STARTED = "ResponseStarted"
    RESPONSE_COMPLETE = "ResponseComplete"
    PANIC = "Panic"

    __hash__ = str.__hash__  # looked up at every request, and Enum's own is a function of Python


class _Part(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A part of an event; what is empty is left out, as Go's `omitempty` does."""


class UserInfo(_Part):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}

    @classmethod
    def of(cls, user: User) -> UserInfo:
        return cls(user.name, user.uid, user.groups, dict(user.extra))


class AuthenticationMetadata(_Part):
    impersonation_constraint: str = ""


class ObjectReference(_Part):
    """What the request is about."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    resource_version: str = ""
    subresource: str = ""


class ResponseStatus(_Part):
    """A `Status`, of which only its code is known where the answer was something else."""

    metadata: dict[str, Any]
    status: str = ""
    message: str = ""
    reason: str = ""
    details: dict[str, Any] | None = None
    code: int = 0


class Event(_Part, kw_only=True, tag_field="kind", tag="Event"):
    """One line of the log."""

    api_version: str
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: Stage
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: UserInfo
    impersonated_user: UserInfo | None = None
    authentication_metadata: AuthenticationMetadata | None = None
    source_ips: tuple[str, ...] = msgspec.field(name="sourceIPs", default=())
    user_agent: str = ""
    object_ref: ObjectReference | None = None
    response_status: ResponseStatus | None = None
    request_object: msgspec.Raw | None = None
    response_object: msgspec.Raw | None = None
    request_received_timestamp: str
    stage_timestamp: str
    annotations: dict[str, str] = {}
