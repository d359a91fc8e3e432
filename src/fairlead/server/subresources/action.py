"""A POST that does something to an object, or asks something, instead of creating one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions
from fairlead.server.access import Authorizer
from fairlead.server.account_tokens import AccountTokens, TokenVerifier
from fairlead.server.admission.base import Admission, Reader, Writer
from fairlead.server.codec.body_types import body_type_of
from fairlead.server.context import RequestContext, Result, WriteRequest
from fairlead.server.storage.catalogue import Catalogue, Served


class Backend(Reader, Writer, Protocol):
    """What an action may do to the objects of a server; the registry can."""

    catalogue: Catalogue
    admission: Admission
    authorizer: Authorizer
    account_tokens: AccountTokens
    verify_token: TokenVerifier

    async def delete(
        self, context: RequestContext, resource: Resource, name: str, namespace: str, options: DeleteOptions
    ) -> Result[Encoded]: ...


@dataclass(frozen=True, slots=True)
class ActionCall:
    """One such request."""

    backend: Backend
    served: Served
    namespace: str
    name: str
    body: Obj
    request: WriteRequest

    def normalise_body(self) -> list[str]:
        """Normalise and type-check the body; returns the warnings."""
        body_type = body_type_of(self.request.version.resource, self.request.subresource)
        return self.request.apply_field_validation(body_type.normalise(self.body), body_type.kind, body_type.version)


Action = Callable[[ActionCall], Awaitable[Result[Encoded]]]


def created(obj: Obj, warnings: list[str]) -> Result[Encoded]:
    """The answer 201 of an action, which stores no object of its own."""
    return Result(encoded(obj), HTTPStatus.CREATED, warnings)


def answered(call: ActionCall, status: Obj, warnings: list[str]) -> Result[Encoded]:
    """The answer of a review: the question, and its status."""
    row = call.request.version.resource
    return created(call.body | {"kind": row.kind, "apiVersion": row.api_version, "status": status}, warnings)
