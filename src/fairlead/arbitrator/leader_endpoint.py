"""Points the extender's Service at the leading replica: only the leader knows which pods were allowed to start.

Kubernetes has no Service for leaders, and unready followers would keep the Deployment from ever completing. So the
Service has no selector, and every new leader writes its only EndpointSlice.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from typing import Final

from fairlead.api.builtin import ENDPOINT_SLICES
from fairlead.api.errors import AlreadyExists, ApiError
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api

#: The name of the Service's port.
PORT_NAME: Final = "https"
_MANAGER: Final = "fairlead-arbitrator"
_RETRY_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


async def take_over(api: Api, namespace: str, service: str, address: str, port: int) -> None:
    """Point the Service at this address. Returns once it does; failures are logged and tried again."""
    found = _slice(service, address, port)
    while True:
        try:
            await _write(api, namespace, found)
            return
        except (ApiError, OSError) as error:
            log.warning("Service %s/%s does not lead here: %s; trying again", namespace, service, error)
            await asyncio.sleep(_RETRY_SECONDS)


async def _write(api: Api, namespace: str, found: Obj) -> None:
    try:
        await api.create(ENDPOINT_SLICES, dict(found), namespace)
    except AlreadyExists:
        changed = {key: found[key] for key in ("endpoints", "ports")}
        await api.patch(ENDPOINT_SLICES, found["metadata"]["name"], namespace, changed)


def _slice(service: str, address: str, port: int) -> Obj:
    """Raises ValueError for what is no IP address."""
    family = f"IPv{ipaddress.ip_address(address).version}"
    labels = {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": _MANAGER}
    return {
        "metadata": {"name": f"{service}-{family.lower()}", "labels": labels},
        "addressType": family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "protocol": "TCP", "port": port}],
    }
