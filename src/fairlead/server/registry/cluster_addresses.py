"""Shows the default service network and who has which address: the ServiceCIDR `kubernetes`, an IPAddress for each.

Upstream gives addresses by creating these objects; here they are given by `ServiceAddresses`, which knows what services
hold, and the objects follow: one that somebody has changed is made anew, and goes with its service. Sources:
pkg/controlplane/controller/defaultservicecidr, pkg/registry/core/service/ipallocator and its controller (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from fairlead.api import conditions
from fairlead.api.builtin import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from fairlead.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.api.service_networks import ALLOCATOR, FAMILY_LABEL, MANAGER_LABEL
from fairlead.kinds.ips import parse_ip
from fairlead.runtime.clock import timestamp
from fairlead.server.admission.service_addresses import held_by
from fairlead.server.admission.service_networks import DEFAULT_NAME, ServiceNetworks
from fairlead.server.context import INTERNAL
from fairlead.server.registry.registry import Registry

log = logging.getLogger(__name__)

_LABELS: Final = {FAMILY_LABEL: "IPv4", MANAGER_LABEL: ALLOCATOR}
_READY: Final = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}
#: How long nothing is tried after a refusal: at first, and at most.
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
#: How long an object that somebody has made wrong stays so. A policy that always does that makes no haste of it.
_REPAIR_SECONDS: Final = 180.0
#: So many objects are written at once, as one group commit takes them.
_AT_ONCE: Final = 64

#: Namespace and name of a service.
Owner = tuple[str, str]


class ClusterAddresses:
    """Hears of every service and of every such object. Make it before the registry is opened, then run it."""

    def __init__(self, registry: Registry, networks: ServiceNetworks) -> None:
        """`networks` hears of every ServiceCIDR before this does."""
        self._registry, self._networks = registry, networks
        self._cidrs, self._seen = [str(networks.default)], networks.all
        self._owners: dict[str, Owner] = {}
        self._held: dict[Owner, set[str]] = {}
        #: Whose the addresses were that were given back: with them goes the object that names that service.
        self._given_back: dict[str, Owner] = {}
        #: The addresses whose objects will be repaired.
        self._wrong: set[str] = set()
        #: The addresses whose objects may be wrong; None: the network's own may be.
        self._changed: dict[str | None, None] = {None: None}
        self._has_changes = asyncio.Event()
        registry.observe(SERVICES.qualified, self._observe_service)
        registry.observe(IP_ADDRESSES.qualified, self._observe_address)
        registry.observe(SERVICE_CIDRS.qualified, self._observe_network)

    def _observe_service(self, namespace: str, name: str, raw: bytes | None) -> None:
        owner = namespace, name
        before = self._held.pop(owner, set())
        now = held_by(msgspec.json.decode(raw)["spec"]).addresses if raw is not None else set()
        if now:
            self._held[owner] = now
        for address in before - now:
            if self._owners.get(address) == owner:
                self._given_back[address] = self._owners.pop(address)
        self._owners.update(dict.fromkeys(now, owner))
        for address in before ^ now:
            self._note(address)

    def _observe_address(self, namespace: str, name: str, raw: bytes | None) -> None:
        if raw is None or name not in self._owners:  # it was removed, or is a service's no more
            self._note(name)
        elif name not in self._wrong and not _is_right(msgspec.json.decode(raw), self._owners[name]):
            self._wrong.add(name)
            asyncio.get_running_loop().call_later(_REPAIR_SECONDS, self._repair, name)

    def _repair(self, address: str) -> None:
        self._wrong.discard(address)
        self._note(address)

    def _observe_network(self, namespace: str, name: str, raw: bytes | None) -> None:
        if name == DEFAULT_NAME:
            self._note(None)
        if self._networks.all != self._seen:  # what was in none of them may be in one now
            self._seen = self._networks.all
            for address in self._owners:
                self._note(address)

    def _note(self, address: str | None) -> None:
        self._changed[address] = None
        self._has_changes.set()

    async def begin(self) -> None:
        """Make all objects right that may be wrong. If a user's policy refuses that, a server begins without."""
        await self._try()

    async def run(self) -> None:
        """Go on doing that, until cancelled."""
        pause = _PAUSE_SECONDS
        while True:
            await self._has_changes.wait()
            self._has_changes.clear()
            if await self._try():
                pause = _PAUSE_SECONDS
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _try(self) -> bool:
        """Whether all are right; if not, that is tried again."""
        try:
            await self._settle_all()
        except ApiError as error:
            log.warning("the addresses of services are not shown for now: %s", error)
            self._has_changes.set()
            return False
        return True

    async def _settle_all(self) -> None:
        while self._changed:
            changed = list(self._changed)[:_AT_ONCE]
            for address in changed:
                del self._changed[address]
            try:
                await asyncio.gather(*map(self._settle, changed))
            except ApiError:
                self._changed |= dict.fromkeys(changed)
                raise

    async def _settle(self, address: str | None) -> None:
        try:
            await (self._settle_network() if address is None else self._settle_address(address))
        except (AlreadyExists, Conflict, NotFound):  # somebody else was faster; that is looked at, too
            return

    async def _settle_network(self) -> None:
        found = self._registry.find(SERVICE_CIDRS.qualified, DEFAULT_NAME)
        if found is None:
            wanted = {"metadata": {"name": DEFAULT_NAME}, "spec": {"cidrs": self._cidrs}}
            obj = (await self._registry.create(INTERNAL, SERVICE_CIDRS, wanted)).object.obj()
        else:
            obj = found.obj()
        status = obj.setdefault("status", {})
        is_ours = (obj.get("spec") or {}).get("cidrs") == self._cidrs and "deletionTimestamp" not in metadata(obj)
        if is_ours and conditions.find(status.get("conditions"), "Ready") is None:
            status["conditions"] = conditions.with_condition(status.get("conditions"), _READY, timestamp())
            await self._registry.update(INTERNAL, SERVICE_CIDRS, obj, subresource="status")

    async def _settle_address(self, address: str) -> None:
        owner, parsed = self._owners.get(address), parse_ip(address)
        wanted = owner if owner and parsed is not None and self._networks.have(parsed) else None
        found, before = self._registry.find(IP_ADDRESSES.qualified, address), self._given_back.get(address)
        obj = found.obj() if found is not None else None
        if obj is not None and not (wanted and _is_right(obj, wanted)):
            if not (wanted or _is_allocated(obj) or _names(obj, before)):
                return  # somebody else's
            await self._registry.delete(INTERNAL, IP_ADDRESSES, address)
            obj = None
        self._given_back.pop(address, None)
        if wanted and obj is None:
            spec = {"parentRef": _parent(wanted)}
            await self._registry.create(
                INTERNAL, IP_ADDRESSES, {"metadata": {"name": address, "labels": _LABELS}, "spec": spec}
            )


def _is_right(obj: Obj, owner: Owner) -> bool:
    """Whether an IPAddress says of whose service it is, and that it was made for it."""
    return _is_allocated(obj) and _names(obj, owner)


def _is_allocated(obj: Obj) -> bool:
    return (metadata(obj).get("labels") or {}).items() >= _LABELS.items()


def _names(obj: Obj, owner: Owner | None) -> bool:
    return owner is not None and (obj.get("spec") or {}).get("parentRef") == _parent(owner)


def _parent(owner: Owner) -> Obj:
    namespace, name = owner
    return {"resource": "services", "namespace": namespace, "name": name}
