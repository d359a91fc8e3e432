"""DenyServiceExternalIPs: no service takes another external address; those that it has may stay (CVE-2020-8554).

Source: plugin/pkg/admission/network/denyserviceexternalips.
"""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.server.admission.base import AdmissionPlugin, Attributes


class DenyServiceExternalIPs(AdmissionPlugin):
    name = "DenyServiceExternalIPs"
    resources = frozenset({"services"})

    async def validate(self, attributes: Attributes) -> None:
        if not _addresses(attributes.obj) <= _addresses(attributes.old or {}):
            raise attributes.forbidden("Use of external IPs is denied by admission control")


def _addresses(service: Obj) -> set[str]:
    return set((service.get("spec") or {}).get("externalIPs") or ())
