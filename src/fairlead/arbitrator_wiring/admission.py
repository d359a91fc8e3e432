"""The arbitrator's validation as an admission plugin of our own server; on a real cluster a webhook does this.

It is here because the server and the arbitrator do not import each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, TypeVar

from fairlead.api import builtin
from fairlead.api.fields import invalid
from fairlead.api.nodes import Node
from fairlead.api.objects import name_of
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.api.resources import Resource
from fairlead.api.users import ARBITRATOR_USER, INTERNAL_USER, controller_user
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    CONSUMERS,
    MISSPELT_ALLOCATIONS,
    MISSPELT_CONSUMERS,
    POLICIES,
    Consumer,
    ConsumerGroup,
)
from fairlead.arbitrator.review import NOT_THE_ARBITRATOR, ReviewContext, review
from fairlead.runtime.offload import offload, on_loop
from fairlead.server.admission.base import CREATE_AND_UPDATE, AdmissionPlugin, Attributes, Operation, Reader

T = TypeVar("T")


_WRITERS: Final = frozenset({ARBITRATOR_USER, INTERNAL_USER})
#: Who may do what to an Allocation. The controllers delete it with its namespace.
_MAY: Final = {
    Operation.CREATE: _WRITERS,
    Operation.UPDATE: _WRITERS,
    Operation.DELETE: _WRITERS
    | {controller_user("namespace-controller"), controller_user("generic-garbage-collector")},
}


class ArbitratorAdmission(AdmissionPlugin):
    """Refuses Consumers, ConsumerGroups and ArbitratorPolicies that make no sense, and every Allocation, for only
    the arbitrator of this process writes them (S2-18, S2-22).

    It validates, so it sees only what the schema of the kind has let pass.
    """

    name = "Arbitration"
    resources = frozenset(
        resource.qualified
        for resource in (CONSUMERS, CONSUMER_GROUPS, POLICIES, ALLOCATIONS, MISSPELT_CONSUMERS, MISSPELT_ALLOCATIONS)
    )
    subresources = frozenset({"", "status"})
    operations = CREATE_AND_UPDATE | {Operation.DELETE}

    def __init__(self, reader: Reader, *, counts_quotas: bool) -> None:
        """`counts_quotas`: whether ResourceQuota admission is on."""
        self._reader = reader
        self._context = ReviewContext(
            nodes=lambda: self._each(builtin.NODES, Node),
            consumers=lambda: self._each(CONSUMERS, Consumer),
            groups=lambda: self._each(CONSUMER_GROUPS, ConsumerGroup),
            quotas=lambda namespace: self._each(builtin.RESOURCE_QUOTAS, ResourceQuota, namespace),
            counts_quotas=counts_quotas,
        )

    async def validate(self, attributes: Attributes) -> None:
        row = attributes.resource
        if not attributes.subresource and attributes.operation is not Operation.DELETE:
            await self._review(attributes)  # before the check of the user: field errors are more useful (S2-20)
        if row.kind == ALLOCATIONS.kind and attributes.user not in _MAY[attributes.operation]:
            raise attributes.forbidden(NOT_THE_ARBITRATOR)

    async def _review(self, attributes: Attributes) -> None:
        row = attributes.resource
        obj = attributes.obj | {"kind": row.kind}  # callers in this process need not say it
        found = await offload(partial(review, obj, attributes.old, self._context), is_long=attributes.is_long)
        attributes.warnings.extend(found.warnings)
        if found.errors:
            raise invalid(row.kind, name_of(attributes.obj), found.errors, row.group)

    def _each(self, resource: Resource, view: type[T], namespace: str = "") -> Iterable[T]:
        return on_loop(lambda: [entry.kept_view(view) for entry in self._reader.each(resource.qualified, namespace)])
