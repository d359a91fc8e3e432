"""`Api`: the one interface through which everything reads and writes.

It is implemented by the in-process registry and by an HTTP client of any Kubernetes API server. Components are
written against it alone; that is what makes "runs against a real cluster" true by construction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource


class PatchType(StrEnum):
    """The four content types of a PATCH body."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"

    __hash__ = str.__hash__  # a key at every write, and Enum's own is a function of Python


class EventType(StrEnum):
    """What a watch event says happened to the object that it carries."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"

    __hash__ = str.__hash__


class WatchEvent(msgspec.Struct, frozen=True):
    type: EventType
    object: Encoded


class Listing(msgspec.Struct, frozen=True):
    """One page of a collection, as of one resourceVersion."""

    items: list[Encoded]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None


class ListQuery(msgspec.Struct, frozen=True):
    """Which objects of a collection, and as of when. Selectors are in their text form."""

    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""


class WatchQuery(msgspec.Struct, frozen=True):
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_seconds: float | None = None


class WriteOptions(msgspec.Struct, frozen=True):
    """What a client may say beside the object itself."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Ignore"  # Ignore | Warn | Strict; over HTTP the default is Warn
    force: bool = False

    def body(self, kind: str) -> Obj:
        """CreateOptions, UpdateOptions or PatchOptions that say the same."""
        body = _options_body(kind, dry_run=self.dry_run)
        if self.field_manager:
            body["fieldManager"] = self.field_manager
        if self.field_validation == "Strict":
            body["fieldValidation"] = self.field_validation
        return body


class DeleteOptions(msgspec.Struct, frozen=True):
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None  # Orphan | Background | Foreground
    precondition_uid: str | None = None
    precondition_resource_version: str | None = None
    dry_run: bool = False

    def body(self) -> Obj:
        """DeleteOptions that say the same."""
        body = _options_body("DeleteOptions", dry_run=self.dry_run)
        if self.grace_period_seconds is not None:
            body["gracePeriodSeconds"] = self.grace_period_seconds
        if self.propagation_policy:
            body["propagationPolicy"] = self.propagation_policy
        given = {"uid": self.precondition_uid, "resourceVersion": self.precondition_resource_version}
        if preconditions := {key: value for key, value in given.items() if value}:
            body["preconditions"] = preconditions
        return body


def _options_body(kind: str, *, dry_run: bool) -> Obj:
    body: Obj = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if dry_run:
        body["dryRun"] = ["All"]
    return body


WRITE = WriteOptions()
DELETE = DeleteOptions()
#: As `kubectl delete`: what an object has made goes after it. Jobs and ReplicationControllers leave their pods else.
BACKGROUND = DeleteOptions(propagation_policy="Background")
LIST = ListQuery()
WATCH = WatchQuery()


class Api(Protocol):
    """The Kubernetes API. Every refusal is an `ApiError`; `resource` says which kind.

    An object that is handed over for writing stays as it is, and the caller's.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded: ...

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        """Namespace `""` means all namespaces."""
        ...

    def watch(self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH) -> AsyncIterator[WatchEvent]:
        """Events until the caller stops; `Expired` when the version asked for is forgotten."""
        ...

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        """Create an object, or with `name` and `subresource` POST to a subresource (binding, eviction)."""
        ...

    async def update(
        self,
        resource: Resource,
        obj: Obj,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        """Replace the object that `obj.metadata` names."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        type_: PatchType = PatchType.MERGE,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded: ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DELETE
    ) -> Encoded:
        """The object as it was, or the `Status` of a deletion that is complete."""
        ...

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        query: ListQuery = LIST,
        options: DeleteOptions = DELETE,
    ) -> Listing: ...
