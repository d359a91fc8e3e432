"""The arbitrator at work: every cycle it looks at what is asked and held, and writes what each namespace deserves.

Only Allocations that say something new are written; a cycle in which nothing changed costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from fairlead.api import builtin
from fairlead.api.errors import AlreadyExists, ApiError, NotFound
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.books import Books
from fairlead.arbitrator.decide import Outcome, decide, new_consumer
from fairlead.arbitrator.definitions import definitions
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    CONSUMERS,
    POLICIES,
    SYSTEM_NAMESPACE,
    THE_NAME,
    ArbitratorPolicy,
    Consumer,
    ConsumerGroup,
    Node,
    PolicySpec,
)
from fairlead.client.informer import Informers
from fairlead.runtime.clock import timestamp

#: The policy that counts, of all that there may be.
POLICY_NAME: Final = "default"
_ESTABLISHED_SECONDS: Final = 0.05

log = logging.getLogger(__name__)


class Arbitrator:
    """Publishes shares. Somebody else runs the informers."""

    def __init__(self, api: Api, informers: Informers) -> None:
        self._api, self._informers = api, informers
        self.books = Books()
        self._changes = 0  # of consumers, groups, policies and namespaces
        self._done: tuple[int, int] | None = None
        self._written: dict[str, Obj] = {}
        self._overused_since: dict[str, str] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._install()
        self._pods = self._informers.of(builtin.PODS, Pod)
        self._nodes = self._informers.of(builtin.NODES, Node)
        self._namespaces = self._informers.of(builtin.NAMESPACES, Object)
        self._consumers = self._informers.of(CONSUMERS, Consumer)
        self._groups = self._informers.of(CONSUMER_GROUPS, ConsumerGroup)
        self._policies = self._informers.of(POLICIES, ArbitratorPolicy)
        self._pods.subscribe(self.books.pod_event)
        self._nodes.subscribe(self.books.node_event)
        self._namespaces.subscribe(self._changed)
        self._consumers.subscribe(self._changed)
        self._groups.subscribe(self._changed)
        self._policies.subscribe(self._changed)
        for informer in (self._pods, self._nodes, self._namespaces, self._consumers, self._groups, self._policies):
            await informer.synced()
        while True:
            try:
                await self._cycle()
            except (ApiError, OSError) as error:
                log.warning("cycle: %s; trying again", error)
                self._done = None
            await asyncio.sleep(self._policy().cycle_seconds)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self._changes += 1

    def _policy(self) -> PolicySpec:
        found = self._policies.get(POLICY_NAME)
        return found.spec if found is not None else PolicySpec()

    async def _install(self) -> None:
        """Make the kinds known to the server, and wait until they are served."""
        for definition in definitions():
            name = definition["metadata"]["name"]
            try:
                await self._api.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, definition)
            except AlreadyExists:
                changed = {"spec": definition["spec"]}
                await self._api.patch(builtin.CUSTOM_RESOURCE_DEFINITIONS, name, "", changed)
        for resource in (CONSUMERS, CONSUMER_GROUPS, ALLOCATIONS, POLICIES):
            while True:
                try:
                    await self._api.list(resource)
                    break
                except NotFound:
                    await asyncio.sleep(_ESTABLISHED_SECONDS)

    async def _cycle(self) -> None:
        state = (self.books.version, self._changes)
        if state == self._done:
            return
        await self._complete()
        for namespace, outcome in decide(self._consumers, self._groups, self._policy(), self.books).items():
            await self._publish(namespace, outcome)
        self._done = state

    async def _complete(self) -> None:
        """Every namespace has a Consumer."""
        for one in self._namespaces:
            name = one.metadata.name
            if one.metadata.is_terminating or self._consumers.get(f"{name}/{THE_NAME}") is not None:
                continue
            try:
                await self._api.create(CONSUMERS, new_consumer(name, unlimited=name == SYSTEM_NAMESPACE), name)
            except (AlreadyExists, NotFound):
                continue  # somebody was faster, or the namespace is gone

    async def _publish(self, namespace: str, outcome: Outcome) -> None:
        """Write the Allocation if it says something new."""
        consumer = self._consumers.get(f"{namespace}/{THE_NAME}")
        if consumer is None:
            return
        copied: Obj = {"hard": consumer.spec.hard, "reserved": consumer.spec.reserved}
        status = outcome.status() | {"overusedSince": self._since(namespace, outcome)}
        status["conditions"] = [_condition(outcome)]
        told: Obj = {"spec": copied | {"deserved": status["deserved"]}, "status": status}
        if self._written.get(namespace) == told:
            return
        try:
            await self._write(namespace, told)
        except NotFound:  # the namespace is going
            self._written.pop(namespace, None)
            return
        self._written[namespace] = told

    async def _write(self, namespace: str, told: Obj) -> None:
        try:
            await self._replace(namespace, "spec", told["spec"])
        except NotFound:
            metadata = {"name": THE_NAME, "namespace": namespace}
            await self._api.create(ALLOCATIONS, {"metadata": metadata, "spec": told["spec"]}, namespace)
        now = timestamp()
        conditions = [one | {"lastTransitionTime": now} for one in told["status"]["conditions"]]
        status = told["status"] | {"conditions": conditions}
        await self._replace(namespace, "status", status, subresource="status")

    async def _replace(self, namespace: str, field: str, value: Obj, *, subresource: str = "") -> None:
        """As a whole: what is not said any more must not stay."""
        patch = [{"op": "add", "path": f"/{field}", "value": value}]
        await self._api.patch(ALLOCATIONS, THE_NAME, namespace, patch, PatchType.JSON, subresource=subresource)

    def _since(self, namespace: str, outcome: Outcome) -> str | None:
        if not outcome.is_overused:
            self._overused_since.pop(namespace, None)
            return None
        return self._overused_since.setdefault(namespace, timestamp())


def _condition(outcome: Outcome) -> Obj:
    """Whether the guarantee is kept, as far as it is asked for (S2-27)."""
    if outcome.is_reserved_met:
        return {"type": "ReservedUnsatisfiable", "status": "False", "reason": "Satisfied", "message": ""}
    why = "the cluster has less than is reserved; every guarantee is cut in proportion"
    return {"type": "ReservedUnsatisfiable", "status": "True", "reason": "NotEnough", "message": why}
