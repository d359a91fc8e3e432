"""Of several that could do a job, one does it: leader election over a Lease, as client-go's tools/leaderelection.

Clocks of different machines are not compared: a lease is over when its holder has not renewed it for its whole
duration by the clock of who watches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from fairlead.api.builtin import LEASES
from fairlead.api.encoded import Encoded
from fairlead.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from fairlead.api.meta import View
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.runtime.clock import micro_timestamp, monotonic

log = logging.getLogger(__name__)


class LostLeadership(Exception):
    """Somebody else may lead now: whatever was begun must stop."""


class _LeaseSpec(View):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(View):
    spec: _LeaseSpec = _LeaseSpec()


class Terms(msgspec.Struct, frozen=True):
    """How leadership is held, in seconds; the defaults are kube-scheduler's."""

    name: str
    namespace: str = "kube-system"
    lease: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


class Election:
    """One candidate."""

    def __init__(self, api: Api, identity: str, terms: Terms) -> None:
        self._api, self._identity, self._terms = api, identity, terms
        self._seen = b""  # the lease as it was when it last changed
        self._seen_at = 0.0
        self._ours_until = 0.0

    @property
    def lease(self) -> str:
        """The name of what is held."""
        return self._terms.name

    def is_leading(self) -> bool:
        """Whether nobody else can lead yet. It is a matter of this machine's clock alone, so whoever was stopped for a
        while, or is cut off, knows at once: what only a leader may do is to ask this just before.
        """
        return monotonic() < self._ours_until

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then do the work for as long as it lasts.

        Raises LostLeadership when it cannot be renewed in time; the work is cancelled before.
        """
        await self._won()
        log.warning("successfully acquired lease %s/%s", self._terms.namespace, self._terms.name)
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renew())
        try:
            done, _ = await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._ours_until = 0.0
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)

    async def _won(self) -> None:
        while True:
            if await self._try():
                return
            await asyncio.sleep(self._terms.retry)

    async def release(self) -> None:
        """Let another lead at once; not to be able to say so is no failure."""
        try:
            found = await self._api.get(LEASES, self._terms.name, self._terms.namespace)
            if found.view(_Lease).spec.holder_identity == self._identity:
                await self._api.update(LEASES, self._with(found, "", 1))
        except (ApiError, OSError) as error:
            log.info("cannot release the lease: %s", error)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._terms.retry)
            try:
                async with asyncio.timeout_at(self._ours_until):
                    await self._try()
            except TimeoutError:  # an answer that comes later is none
                self._ours_until = 0.0
            if not self.is_leading():
                raise LostLeadership(f"lease {self._terms.namespace}/{self._terms.name} could not be renewed")

    async def _try(self) -> bool:
        """Take the lease or renew it; whether it is ours now."""
        asked_at = monotonic()  # from then on others may have seen it
        try:
            is_ours = await self._take()
        except (Conflict, AlreadyExists):
            return False  # somebody was faster
        except (ApiError, OSError) as error:
            log.warning("lease %s/%s: %s", self._terms.namespace, self._terms.name, error)
            return False
        self._ours_until = asked_at + self._terms.renew_deadline if is_ours else 0.0
        return is_ours

    async def _take(self) -> bool:
        terms = self._terms
        try:
            found = await self._api.get(LEASES, terms.name, terms.namespace)
        except NotFound:
            lease: Obj = {"metadata": {"name": terms.name, "namespace": terms.namespace}, "spec": self._spec(None)}
            await self._api.create(LEASES, lease, terms.namespace)
            return True
        spec = found.view(_Lease).spec
        is_ours = spec.holder_identity == self._identity
        state = msgspec.json.encode(spec)
        if state != self._seen:
            self._seen, self._seen_at = state, monotonic()
        if spec.holder_identity and not is_ours and monotonic() < self._seen_at + (spec.lease_duration_seconds or 0):
            return False
        await self._api.update(LEASES, self._with(found, self._identity, int(terms.lease)))
        return True

    def _with(self, found: Encoded, holder: str, seconds: int) -> Obj:
        lease, spec = found.obj(), found.view(_Lease).spec
        lease["spec"] = self._spec(spec) | {"holderIdentity": holder, "leaseDurationSeconds": seconds}
        return lease

    def _spec(self, known: _LeaseSpec | None) -> Obj:
        now = micro_timestamp()
        is_ours = known is not None and known.holder_identity == self._identity
        transitions = (known.lease_transitions or 0) + (0 if is_ours else 1) if known else 0
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._terms.lease),
            "acquireTime": known.acquire_time if known and is_ours else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
