"""ServiceCIDRs and IPAddresses, as far as who looks after them reads them."""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Condition, Object, View

READY: Final = "Ready"
#: The labels of an IPAddress that was made for a Service, and who has made it.
FAMILY_LABEL: Final = "ipaddress.kubernetes.io/ip-family"
MANAGER_LABEL: Final = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR: Final = "ipallocator.k8s.io"


class ServiceCIDRSpec(View):
    cidrs: tuple[str, ...] | None = None


class ServiceCIDRStatus(View):
    conditions: tuple[Condition, ...] | None = None


class ServiceCIDR(Object):
    spec: ServiceCIDRSpec = ServiceCIDRSpec()
    status: ServiceCIDRStatus = ServiceCIDRStatus()

    @property
    def ready(self) -> Condition | None:
        return next((found for found in self.status.conditions or () if found.type == READY), None)

    @property
    def gives_addresses(self) -> bool:
        """Whether Services may have new addresses from it: nobody said that it is not ready, and it is not deleted."""
        ready = self.ready
        return not self.metadata.is_terminating and (ready is None or ready.status == "True")


class IPAddress(Object):
    """Its name is the address."""

    @property
    def is_allocated(self) -> bool:
        """Whether it is a Service's."""
        return self.metadata.labels.get(MANAGER_LABEL) == ALLOCATOR
