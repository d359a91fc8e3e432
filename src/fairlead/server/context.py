"""The inputs of a request beside its object, and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec

from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import INTERNAL_USER, User
from fairlead.api.verbs import PatchType, WriteOptions
from fairlead.golang.yaml import warnings_of
from fairlead.server.audit.request_audit import RequestAudit
from fairlead.server.codec.versions import ServedVersion

T = TypeVar("T")

#: Makes the desired object from the present one, both in the version of the request.
Desired = Callable[[Obj], Obj]


#: kube-apiserver's --request-timeout.
REQUEST_SECONDS: Final = 60.0
#: From which size an object takes long: less for custom kinds, whose schemas may cost much per byte.
_LONG_BYTES: Final = 32 << 10
_LONG_CUSTOM_BYTES: Final = 4 << 10


def takes_long(resource: Resource, size: int) -> bool:
    """Whether an object of this size may block the event loop for too long (`runtime/offload.py`)."""
    return size > (_LONG_BYTES if resource.definition else _LONG_CUSTOM_BYTES)


class RequestContext(msgspec.Struct, frozen=True):
    """Who makes a request, and what its body showed while it was decoded."""

    user: User
    #: Whether metadata.managedFields notes what this user writes. Entries of Fairlead's own components would double
    #: every pod and its cost, to say that a node agent owns the status.
    tracks_fields: bool = True
    #: Problems that decoding the body found (duplicate fields); reported together with unknown fields.
    strict_errors: Sequence[str] = ()
    #: Duplicate keys in the configuration of an apply; reported after the merge.
    repeated_keys: Sequence[str] = ()
    #: The size of the body.
    body_bytes: int = 0
    #: What the audit log is told of it; None: nothing.
    audit: RequestAudit | None = None


#: The context of requests that the server makes itself.
INTERNAL = RequestContext(INTERNAL_USER, tracks_fields=False)


class Result(msgspec.Struct, Generic[T], frozen=True):
    """The result of a request: an object or a list, the HTTP code, and warnings. A refusal is an `ApiError`."""

    object: T
    code: int = HTTPStatus.OK
    warnings: Sequence[str] = ()


class PatchBody(msgspec.Struct, frozen=True):
    """A decoded patch and its type."""

    body: Any
    type: PatchType


class WriteRequest(msgspec.Struct, frozen=True):
    """One write: its inputs beside the object."""

    context: RequestContext
    version: ServedVersion
    options: WriteOptions
    subresource: str = ""
    patch: PatchBody | None = None

    def is_long(self, stored_bytes: int = 0) -> bool:
        """Whether it takes long, together with the stored object."""
        return takes_long(self.version.resource, self.context.body_bytes + stored_bytes)

    @property
    def is_apply(self) -> bool:
        return self.patch is not None and self.patch.type is PatchType.APPLY

    @property
    def tracks_fields(self) -> bool:
        return self.context.tracks_fields

    def apply_field_validation(self, unknown: Sequence[str], kind: str, version: str) -> list[str]:
        """Refuse, warn of, or ignore unknown and duplicate fields, as `fieldValidation` asks; returns the warnings."""
        problems = [*self.context.strict_errors, *unknown]
        if not problems:
            return []
        if self.options.field_validation == "Strict":
            listed = ", ".join(problems)
            raise BadRequest(
                f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {listed}'
            )
        if self.options.field_validation == "Warn":
            return [line for problem in problems for line in warnings_of(problem)]
        return []
