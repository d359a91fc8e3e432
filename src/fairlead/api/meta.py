"""Frozen views for reading objects: a view declares only what its reader uses.

Views are `msgspec.Struct`s with camelCase names on the wire. A field that Go may send as null is `T | None`.
A view is never written back, so fields that it does not know cannot be lost.
"""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class View(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Base of all views. Subclasses repeat nothing: `class Lease(Object): spec: LeaseSpec`.

    msgspec inherits all of these options but `kw_only`, so a view says that itself if what it requires follows what it
    does not; the decorator tells type checkers that they hold for every subclass.
    """


class WrittenView(View, omit_defaults=True):
    """A view that is encoded, too: without what is as by default."""


class VersionMeta(View):
    """As little of metadata as it takes to say which version of which object it is."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Versioned(View):
    """Any object, if all that matters is which version of which object it is."""

    metadata: VersionMeta


class OwnerReference(View):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(View):
    """The part of metadata that components read. Times are RFC 3339 texts."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object."""
        if not self.owner_references:
            return None
        return next((owner for owner in self.owner_references if owner.controller), None)

    @property
    def is_terminating(self) -> bool:
        return self.deletion_timestamp is not None


class Object(View, kw_only=True):
    """A view of anything: its kind and metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta


class Condition(View):
    """One entry of `status.conditions`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None
