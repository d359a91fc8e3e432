"""OwnerReferencesPermissionEnforcement: whoever names an owner may delete the object, for that is what it comes to.

An owner that is to wait for the object (`blockOwnerDeletion`) is held up by it: that takes the right to set the owner's
finalizers. Source: plugin/pkg/admission/gc.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from fairlead.api.objects import Obj, metadata
from fairlead.server.access import AccessRequest, Verdict
from fairlead.server.admission.base import CREATE_AND_UPDATE, AdmissionPlugin, Attributes, Dependencies, Operation

#: How many owners are asked about between two turns of others.
_A_TURN: Final = 100


class OwnerReferencesPermissionEnforcement(AdmissionPlugin):
    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__(dependencies)
        self._authorizer = dependencies.authorizer

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        """The status of a pod cannot change its owners."""
        return operation in CREATE_AND_UPDATE and (resource, subresource) != ("pods", "status")

    async def validate(self, attributes: Attributes) -> None:
        if _owners(attributes.obj) == _owners(attributes.old or {}):
            return
        row, user = attributes.resource, attributes.user
        deletion = AccessRequest(
            user,
            "delete",
            row.group,
            row.version,
            row.plural,
            attributes.subresource,
            attributes.namespace,
            attributes.name,
        )
        verdict = await self._authorizer.authorize(deletion)
        if not verdict.is_allowed:
            raise attributes.forbidden(f"cannot set an ownerRef on a resource you can't delete: {_why(verdict)}")
        anything = AccessRequest(user, "update", "*", "*", "*", "finalizers", name="*")
        blocked = list(_newly_blocked(attributes.obj, attributes.old))
        if not blocked or (await self._authorizer.authorize(anything)).is_allowed:
            return
        for number, owner in enumerate(blocked, 1):
            if number % _A_TURN == 0:
                await asyncio.sleep(0)
            await self._check_finalizers(attributes, owner)

    async def _check_finalizers(self, attributes: Attributes, owner: Obj) -> None:
        api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        group, _, version = api_version.rpartition("/")
        row = self._reader.resource_of(group, version, kind)
        if row is None:
            raise attributes.forbidden(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
                f'APIVersion {api_version} Kind {kind}: no matches for kind "{kind}" in version "{api_version}"'
            )
        namespace = attributes.namespace if row.namespaced else ""
        name = owner.get("name", "")
        asked = AccessRequest(attributes.user, "update", group, version, row.plural, "finalizers", namespace, name)
        verdict = await self._authorizer.authorize(asked)
        if not verdict.is_allowed:
            raise attributes.forbidden(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: "
                f"{_why(verdict)}"
            )


def _owners(obj: Obj) -> list[Obj]:
    found: list[Obj] = metadata(obj).get("ownerReferences") or []
    return found


def _newly_blocked(obj: Obj, old: Obj | None) -> Iterator[Obj]:
    """The owners that are to wait for the object and were not before."""
    blocked = {owner.get("uid") for owner in _owners(old or {}) if owner.get("blockOwnerDeletion")}
    for owner in _owners(obj):
        if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked:
            yield owner


def _why(verdict: Verdict) -> str:
    return f"{verdict.reason}, {verdict.error or '<nil>'}"
