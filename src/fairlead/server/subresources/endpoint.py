"""The endpoints through which one stored object is changed: itself, its status, its scale, and the like.

An `Endpoint` shows a stored object in its own form, and merges what a client sent back into it,
keeping what this endpoint may not touch. The write pipeline (`registry.py`) is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.errors import NotFound
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.kinds.meta import validate_meta_update
from fairlead.server.apply.field_managers import field_manager_of
from fairlead.server.apply.managers import FieldManager
from fairlead.server.codec.versions import Normalise, ServedVersion
from fairlead.server.context import WriteRequest
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served

_STATUS_PARTS = ("kind", "apiVersion", "metadata", "status")


class Endpoint:
    """The main endpoint of a kind. Subclasses are its subresources."""

    #: Whether this endpoint shows the object itself (and not a Scale made from it).
    is_whole = True

    def normalise(self, version: ServedVersion, *, is_applied: bool = False) -> Normalise:
        """What makes a body sent to this endpoint, or what an apply has made of one, normal."""
        return (version.normalise_applied if is_applied else None) or version.normalise

    def narrowed(self, sent: Obj) -> Obj:
        """What of a body this endpoint looks at; the rest need not be made normal if nobody wants to hear of it."""
        return sent

    def definition(self, version: ServedVersion) -> str:
        """The OpenAPI definition of what this endpoint shows."""
        return version.resource.definition

    def shown(self, served: Served, obj: Obj) -> Obj:
        """The stored object in the form of this endpoint; a fresh dict or the one given."""
        return obj

    def edited(self, served: Served, obj: Obj) -> Obj:
        """What is shown to a write: the owners of its fields too."""
        return obj

    def kind(self, version: ServedVersion) -> str:
        """The kind of what this endpoint shows."""
        return version.resource.kind

    def field_manager(self, served: Served, request: WriteRequest) -> FieldManager:
        """Under whose name a write to this endpoint is recorded."""
        return field_manager_of(served, request)

    def default(self, served: Served, sent: Obj) -> None:
        """Fill in what the client left out."""
        served.strategy.default(sent)

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        """The object to store."""
        metadata_rules.keep_system_fields(served, metadata(sent), metadata(old))
        if served.strategy.has_status:
            metadata_rules.keep_status(sent, old)
        served.strategy.prepare_update(sent, old)
        self.count_generation(served, sent, old)
        return sent

    @staticmethod
    def count_generation(served: Served, new: Obj, old: Obj) -> None:
        if served.strategy.has_generation:
            metadata_rules.count_generation(new, old)

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        validate_meta_update(new, old, errors, resource=served.resource, again=served.strategy.meta_checks)
        served.strategy.validate_update(new, old, errors)

    def warnings(self, served: Served, new: Obj, old: Obj) -> list[str]:
        return served.strategy.warnings(new, old)


class StatusEndpoint(Endpoint):
    """`/status`: writes the status (and metadata) alone."""

    def narrowed(self, sent: Obj) -> Obj:
        return {key: sent[key] for key in _STATUS_PARTS if key in sent}

    def merged(self, served: Served, sent: Obj, old: Obj) -> Obj:
        metadata_rules.keep_system_fields(served, metadata(sent), metadata(old))
        new = metadata_rules.with_status(sent, old)
        metadata_rules.keep_fields(metadata(new), metadata(old), served.strategy.kept_by_status)
        served.strategy.prepare_status(new, old)
        return new

    def validate(self, served: Served, new: Obj, old: Obj, errors: Errors) -> None:
        validate_meta_update(new, old, errors, resource=served.resource)
        served.strategy.validate_status(new, old, errors)

    def warnings(self, served: Served, new: Obj, old: Obj) -> list[str]:
        return served.strategy.status_warnings(new)


MAIN = Endpoint()
STATUS = StatusEndpoint()

#: Endpoints of particular kinds, filled in by `server/subresources/table.py`: (qualified, subresource) -> view.
EndpointTable = Mapping[tuple[str, str], Endpoint]


def endpoint_of(endpoints: EndpointTable, resource: Resource, subresource: str) -> Endpoint:
    """The endpoint of that name; `NotFound` if the kind has none."""
    if not subresource:
        return MAIN
    found = endpoints.get((resource.qualified, subresource)) or endpoints.get(("*", subresource))
    if found is None or subresource not in resource.subresources:
        raise NotFound("the server could not find the requested resource")
    return found
