"""Two plugins about namespaces that are off by default; NamespaceLifecycle does what most clusters need.

Source: plugin/pkg/admission/namespace/{autoprovision,exists}.
"""

from __future__ import annotations

from fairlead.api.builtin import NAMESPACES
from fairlead.api.errors import AlreadyExists, ApiError, NotFound
from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation


class NamespaceAutoProvision(AdmissionPlugin):
    """Makes the namespace in which something is to be made."""

    name = "NamespaceAutoProvision"

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        return operation is Operation.CREATE and resource != NAMESPACES.qualified

    async def admit(self, attributes: Attributes) -> None:
        name = attributes.namespace
        if not name or attributes.dry_run or self._reader.find(NAMESPACES.qualified, name) is not None:
            return
        try:
            await self._creator.create(NAMESPACES, {"metadata": {"name": name}})
        except AlreadyExists:  # by another request
            pass
        except ApiError as error:
            raise attributes.forbidden(error.message) from None


class NamespaceExists(AdmissionPlugin):
    """Refuses every write in a namespace that is missing, also of what is left over from it."""

    name = "NamespaceExists"

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        return operation is not Operation.CONNECT and resource != NAMESPACES.qualified

    async def validate(self, attributes: Attributes) -> None:
        name = attributes.namespace
        if name and self._reader.find(NAMESPACES.qualified, name) is None:
            raise NotFound.of("namespaces", name)
