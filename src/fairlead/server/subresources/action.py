"""A POST that does something to an object, or asks something, instead of creating one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

import msgspec

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions, WriteOptions
from fairlead.server.access import Authorizer
from fairlead.server.account_tokens import AccountTokens, TokenVerifier
from fairlead.server.admission.base import Admission, Attributes, Kind, Operation, Reader, Writer
from fairlead.server.apply.forms import form_of_definition
from fairlead.server.apply.ownership import merged
from fairlead.server.codec import wire
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


class ActionCall(msgspec.Struct, frozen=True):
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

    def attributes(self, resource: Resource, name: str, subresource: str) -> Attributes:
        """The request as admission sees it."""
        request = self.request
        return Attributes(
            Operation.CREATE,
            resource,
            self.namespace,
            name,
            self.body,
            None,
            subresource,
            request.options.dry_run,
            request.context.user,
            audit=request.context.audit,
            view=BodyView(resource, subresource, request.options),
        )

    async def admitted(self, resource: Resource, name: str, subresource: str) -> Obj:
        """The body, as admission lets it pass."""
        attributes = self.attributes(resource, name, subresource)
        await self.backend.admission.admit(attributes)
        await self.backend.admission.validate(attributes)
        return attributes.obj


class BodyView(msgspec.Struct, frozen=True):
    """What is seen of the body of an action (admission.base.RequestView): it has one version."""

    requested: Resource
    subresource: str
    write_options: WriteOptions
    verb: str = "create"

    def rows(self) -> list[Resource]:
        return [self.requested]

    def kind(self, row: Resource) -> Kind:
        body_type = body_type_of(row, self.subresource)
        return Kind(body_type.group, body_type.version, body_type.kind)

    def options(self, operation: Operation) -> Obj:
        return self.write_options.body("CreateOptions") if operation is Operation.CREATE else {}

    async def shown(self, obj: Obj, row: Resource) -> Obj:
        kind = self.kind(row)
        return {"kind": kind.kind, "apiVersion": kind.api_version} | obj

    def applied(self, obj: Obj, config: Obj, row: Resource) -> Obj:
        body_type = body_type_of(row, self.subresource)
        return merged(obj, config, form_of_definition(body_type.api_version, body_type.definition))

    async def taken(self, sent: Obj, row: Resource) -> Obj:
        body_type = body_type_of(row, self.subresource)
        if wire.is_known(body_type.definition):  # the options of a connection are in no document
            body_type.normalise(sent)
        return sent


Action = Callable[[ActionCall], Awaitable[Result[Encoded]]]


def created(obj: Obj, warnings: list[str]) -> Result[Encoded]:
    """The answer 201 of an action, which stores no object of its own."""
    return Result(encoded(obj), HTTPStatus.CREATED, warnings)


def answered(call: ActionCall, status: Obj, warnings: list[str]) -> Result[Encoded]:
    """The answer of a review: the question, and its status."""
    row = call.request.version.resource
    return created(call.body | {"kind": row.kind, "apiVersion": row.api_version, "status": status}, warnings)
