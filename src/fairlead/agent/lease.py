"""The node's heartbeat: a lease that it renews, by which the cluster knows that it lives."""

from __future__ import annotations

import asyncio
import logging

from fairlead.api.builtin import LEASES
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.nodes import LEASE_NAMESPACE
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.runtime.clock import micro_timestamp

#: Of its duration, as a kubelet renews it.
_RENEWED_AFTER = 0.25

log = logging.getLogger(__name__)


class Lease:
    def __init__(self, api: Api, name: str, node_uid: str, seconds: int) -> None:
        self._api, self._name, self._node_uid, self._seconds = api, name, node_uid, seconds
        self._trouble = ""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._renew()
            await asyncio.sleep(self._seconds * _RENEWED_AFTER)

    async def _renew(self) -> None:
        spec = {"renewTime": micro_timestamp()}
        try:
            try:
                await self._api.patch(LEASES, self._name, LEASE_NAMESPACE, {"spec": spec})
            except NotFound:
                await self._api.create(LEASES, self._new(spec), LEASE_NAMESPACE)
        except (ApiError, OSError) as error:
            if str(error) != self._trouble:  # once, however long it lasts
                log.warning("the lease of this node cannot be renewed, trying again: %s", error)
            self._trouble = str(error)
            return
        self._trouble = ""

    def _new(self, spec: Obj) -> Obj:
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._node_uid}
        whole = spec | {"holderIdentity": self._name, "leaseDurationSeconds": self._seconds}
        return {"metadata": {"name": self._name, "ownerReferences": [owner]}, "spec": whole}
