"""The Lease of this API server in kube-system, which tells others that it is there and since when it was last.

Source: pkg/controlplane/apiserver/server.go, pkg/controlplane/controller/apiserverleasegc; the name is that of
apiserver's pkg/server/config.go (1.36).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from typing import Final

from fairlead.api import names
from fairlead.api.builtin import LEASES
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.meta import View
from fairlead.api.objects import Obj
from fairlead.runtime import rng
from fairlead.runtime.clock import micro_timestamp, now, parse_timestamp
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
IDENTITY_LABEL: Final = "apiserver.kubernetes.io/identity"
_COMPONENT: Final = "kube-apiserver"
_DURATION_SECONDS: Final = 3600
_RENEW_SECONDS: Final = 10.0
_CLEANING_SECONDS: Final = 3600.0


class _Spec(View):
    lease_duration_seconds: int = 0
    renew_time: str = ""


class _Lease(View):
    spec: _Spec = _Spec()


def lease_name(host: str) -> str:
    """The same whenever an API server runs on that machine."""
    parts = b"".join(len(part).to_bytes(2, "big") + part for part in (host.encode(), _COMPONENT.encode()))
    return "apiserver-" + base64.b32encode(hashlib.sha256(parts).digest()[:16]).decode().rstrip("=").lower()


class ServerIdentity:
    """Keeps the lease, and removes those of servers that have been gone for an hour."""

    def __init__(self, registry: Registry, host: str) -> None:
        self._registry, self._host = registry, host
        self._name = lease_name(host)
        self._holder = f"{self._name}_{rng.uid()}"

    async def run(self) -> None:
        """Renew it every ten seconds, until cancelled."""
        cleaned = None
        while True:
            try:
                await self._renew()
                if cleaned is None or now() - cleaned > _CLEANING_SECONDS:
                    cleaned = now()
                    await self._clean()
            except ApiError as error:
                log.warning("the lease of this server: %s", error)
            await asyncio.sleep(_RENEW_SECONDS)

    async def _renew(self) -> None:
        if self._registry.find(LEASES.qualified, self._name, NAMESPACE) is None:
            obj = self._renewed({"metadata": {"name": self._name}})
            await self._registry.create(INTERNAL, LEASES, obj, NAMESPACE)
            return
        await self._registry.guaranteed_update(LEASES.qualified, self._name, NAMESPACE, self._renewed)

    def _renewed(self, lease: Obj) -> Obj:
        labels = {IDENTITY_LABEL: _COMPONENT}
        if not names.label_value(self._host):
            labels["kubernetes.io/hostname"] = self._host
        spec = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": _DURATION_SECONDS,
            "renewTime": micro_timestamp(),
        }
        metadata = lease["metadata"]
        return lease | {
            "metadata": metadata | {"labels": (metadata.get("labels") or {}) | labels},
            "spec": (lease.get("spec") or {}) | spec,
        }

    async def _clean(self) -> None:
        for entry in list(self._registry.each(LEASES.qualified, NAMESPACE)):
            if entry.labels.get(IDENTITY_LABEL) != _COMPONENT or entry.name == self._name:
                continue
            spec = entry.view(_Lease).spec
            if not spec.renew_time or parse_timestamp(spec.renew_time) + spec.lease_duration_seconds < now():
                try:
                    await self._registry.delete(INTERNAL, LEASES, entry.name, NAMESPACE)
                except NotFound:
                    continue
