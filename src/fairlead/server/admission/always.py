"""AlwaysAdmit and AlwaysDeny, for tests of other things. Sources: plugin/pkg/admission/{admit,deny}."""

from __future__ import annotations

from fairlead.server.admission.base import AdmissionPlugin, Attributes, Operation


class AlwaysAdmit(AdmissionPlugin):
    """Does nothing."""

    name = "AlwaysAdmit"


class AlwaysDeny(AdmissionPlugin):
    """Refuses every write. A new cluster does not come up with it: its first namespaces are refused, too."""

    name = "AlwaysDeny"

    def concerns(self, operation: Operation, resource: str, subresource: str) -> bool:
        return True

    async def admit(self, attributes: Attributes) -> None:
        raise attributes.forbidden("admission control is denying all modifications")
