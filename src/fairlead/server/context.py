"""What a request brings beside its object, and what it gets back beside one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec

from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import INTERNAL_USER, User
from fairlead.api.verbs import PatchType, WriteOptions
from fairlead.golang.yaml import warnings_of
from fairlead.server.codec.versions import Version

T = TypeVar("T")

#: Makes the object that a client wants from the one that there is, both in the version that the client speaks.
Desired = Callable[[Obj], Obj]


#: How much there has to be of an object for it to take long: schemas of custom kinds may ask much about each byte.
_LONG_BYTES: Final = 32 << 10
_LONG_CUSTOM_BYTES: Final = 4 << 10


def takes_long(resource: Resource, size: int) -> bool:
    """Whether thinking about so many bytes of a kind may take longer than others should wait (`runtime/apart.py`)."""
    return size > (_LONG_BYTES if resource.definition else _LONG_CUSTOM_BYTES)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who makes a request, and what its body showed while it was decoded."""

    user: User
    #: Whether metadata.managedFields notes what this user writes. Entries of Fairlead's own components would double
    #: every pod and its cost, to say that a node agent owns the status.
    tracks_fields: bool = True
    #: What decoding the body already objected to (duplicate fields); judged together with unknown fields.
    strict_errors: Sequence[str] = ()
    #: What decoding the configuration of an apply said about keys that come twice; judged after the merge.
    repeated_keys: Sequence[str] = ()
    #: How much was sent.
    body_bytes: int = 0


#: Requests of Fairlead itself, for which nobody asked.
INTERNAL = RequestContext(INTERNAL_USER, tracks_fields=False)


class Result(msgspec.Struct, Generic[T], frozen=True):  # made at every write, nine times as fast as a dataclass
    """What a request comes to: an object or a list, and what is said beside it. A refusal is an `ApiError`."""

    object: T
    code: int = HTTPStatus.OK
    warnings: Sequence[str] = ()


class Patch(msgspec.Struct, frozen=True):
    """The patch that says what is desired, for what has to be said about it."""

    body: Any
    type: PatchType


class WriteRequest(msgspec.Struct, frozen=True):
    """One write: what the client said beside the object itself."""

    context: RequestContext
    version: Version
    options: WriteOptions
    subresource: str = ""
    patch: Patch | None = None

    def is_long(self, stored_bytes: int = 0) -> bool:
        """Whether it takes long, also for what there is already."""
        return takes_long(self.version.resource, self.context.body_bytes + stored_bytes)

    @property
    def is_apply(self) -> bool:
        return self.patch is not None and self.patch.type is PatchType.APPLY

    @property
    def tracks_fields(self) -> bool:
        return self.context.tracks_fields

    def judge(self, unknown: Sequence[str], kind: str, version: str) -> list[str]:
        """Refuse, warn of, or ignore what the body held too much, as `fieldValidation` asks; the warnings."""
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
