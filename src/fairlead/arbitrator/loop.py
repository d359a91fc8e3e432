"""The arbitrator at work: every cycle it writes what each namespace deserves, and takes back what others deserve.

    look ─▶ divide ─▶ grant (ledger) ─▶ plan ─▶ publish ─▶ lift gates, wake ─▶ evict those whose notice has run out

A cycle in which nothing changed costs nothing. All state but the books is in Allocations: another arbitrator that takes
over finds the notices there, and who has been evicted is on its way out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from fairlead.api import builtin
from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from fairlead.api.meta import Object
from fairlead.api.nodes import Node
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.arbitrator import evicting, legacy_group
from fairlead.arbitrator.books import Kind, is_gated, is_waiting, limited, requested
from fairlead.arbitrator.decide import decide
from fairlead.arbitrator.definitions import definitions
from fairlead.arbitrator.gates import lift
from fairlead.arbitrator.ledger import Ledger
from fairlead.arbitrator.notices import Notices
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    CONSUMERS,
    GATE,
    MISSPELT_CONSUMERS,
    POLICIES,
    THE_NAME,
    Allocation,
    ArbitratorPolicy,
    Consumer,
    ConsumerGroup,
    PolicySpec,
    default_consumer,
    new_consumer,
)
from fairlead.arbitrator.outcomes import Outcome
from fairlead.arbitrator.publishing import Notice, Publisher, Report, futility
from fairlead.arbitrator.quotas import allowed_by
from fairlead.arbitrator.reclaim import Alike, Plan, Room, plan
from fairlead.arbitrator.retrigger import wake
from fairlead.arbitrator.spare import Holdings
from fairlead.arbitrator.trials import Trials
from fairlead.client.events import WARNING, Recorder
from fairlead.client.informer import Informers
from fairlead.golang.durations import non_negative_seconds
from fairlead.runtime import clock

#: The policy that counts, of all that there may be.
POLICY_NAME: Final = "default"
_ESTABLISHED_SECONDS: Final = 0.05
#: What waits for time to pass, or for an eviction that was refused, is looked at again after so long.
_PATIENCE_SECONDS: Final = 5.0
#: How long a namespace has been known when it is given a Consumer: much less than a cycle, and more than it takes to
#: create what follows in a manifest.
_COURTESY_SECONDS: Final = 0.3

log = logging.getLogger(__name__)


class Watch(Protocol):
    """Counts what the arbitrator does; `fairlead.arbitrator.metrics` is one."""

    def cycle(self, seconds: float, outcomes: Mapping[str, Outcome]) -> None: ...
    def proposed(self, namespace: str) -> None: ...
    def evicted(self, namespace: str, result: str) -> None: ...
    def reclaimed(self, namespace: str, result: str) -> None: ...


def always() -> bool:
    """It is the only arbitrator."""
    return True


class Arbitrator:
    """Divides one cluster. Somebody else runs the informers and the recorder."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        ledger: Ledger,
        room: Room,
        *,
        recorder: Recorder | None = None,
        may_act: Callable[[], bool] = always,
        watch: Watch | None = None,
    ) -> None:
        """`may_act` says whether this is still the one arbitrator; it is asked right before each pod is evicted."""
        self._api, self._informers, self._room = api, informers, room
        self._recorder, self._may_act, self._watch = recorder, may_act, watch
        self.ledger, self.books = ledger, ledger.books
        self._changes = 0  # of everything but pods and nodes
        self._done: tuple[int, int] | None = None
        self._look_again_at = 0.0
        self._notices = Notices()
        self._trials = Trials(self.books.kind, self._count_trial)
        self._heard_of: dict[str, float] = {}  # namespaces, and when they came
        self._courtesy_ends = float("inf")
        self._stuck: Mapping[str, Mapping[Kind, int]] = {}
        self._stuck_alike: frozenset[Alike] = frozenset()
        self._spared: dict[str, float] = {}  # uids of pods whose eviction was refused, and when

    async def run(self) -> None:
        """Work until cancelled."""
        await self._install()
        await self._listen()
        while True:
            try:
                await self.cycle()
            except (ApiError, OSError) as error:
                log.warning("cycle: %s; trying again", error)
                self._done = None
                self._publisher.forget()
            await asyncio.sleep(self._policy().cycle_seconds)

    # --- what it hears ----------------------------------------------------------------------------------------------

    async def _install(self) -> None:
        """Make the kinds known to the server, and wait until they are served."""
        forbidden = set[str]()
        for definition in definitions():
            name = definition["metadata"]["name"]
            try:
                await self._api.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, definition)
            except AlreadyExists:
                changed = {"spec": definition["spec"]}
                await self._api.patch(builtin.CUSTOM_RESOURCE_DEFINITIONS, name, "", changed)
            except Forbidden:  # then it is for an administrator to do, or has been done
                forbidden.add(name)
        for resource in (CONSUMERS, CONSUMER_GROUPS, ALLOCATIONS, POLICIES, MISSPELT_CONSUMERS):
            while True:
                try:
                    await self._api.list(resource)
                    break
                except NotFound:
                    if resource.qualified in forbidden:
                        log.warning("may not install %s: deploy/arbitrator/crds.yaml has it", resource.qualified)
                        forbidden.remove(resource.qualified)  # said once
                    await asyncio.sleep(_ESTABLISHED_SECONDS)

    async def _listen(self) -> None:
        of = self._informers.of
        self._pods, self._nodes = of(builtin.PODS, Pod), of(builtin.NODES, Node)
        self._namespaces, self._quotas = of(builtin.NAMESPACES, Object), of(builtin.RESOURCE_QUOTAS, ResourceQuota)
        self._budgets = of(builtin.POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
        self._consumers, self._groups = of(CONSUMERS, Consumer), of(CONSUMER_GROUPS, ConsumerGroup)
        self._legacy_consumers = of(MISSPELT_CONSUMERS, Consumer)
        self._policies, self._allocations = of(POLICIES, ArbitratorPolicy), of(ALLOCATIONS, Allocation)
        self._by_namespace = self._pods.index("namespace", lambda pod: (pod.metadata.namespace,))
        self._waiting = self._pods.index("waiting", lambda pod: (pod.metadata.namespace,) if is_waiting(pod) else ())
        self._by_node = self._pods.index("node", lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ())
        self._budgets_of = self._budgets.index("namespace", lambda quota: (quota.metadata.namespace,))
        self._gated = self._pods.index("gated", lambda pod: (GATE,) if is_gated(pod) else ())
        self._publisher = Publisher(self._api, self._allocations, self._groups, self.books)
        self._pods.subscribe(self.books.pod_event)
        self._nodes.subscribe(self.books.node_event)
        self._namespaces.subscribe(self._namespace_event)
        self._quotas.subscribe(self._changed)
        self._budgets.subscribe(self._changed)
        self._consumers.subscribe(self._changed)
        self._groups.subscribe(self._changed)
        self._legacy_consumers.subscribe(self._changed)
        self._policies.subscribe(self._changed)
        heard = (self._pods, self._nodes, self._namespaces, self._quotas, self._budgets, self._consumers)
        for informer in (*heard, self._legacy_consumers, self._groups, self._policies, self._allocations):
            await informer.synced()
        self._pods.subscribe(self._trials.pod_event)
        self._heard_of.clear()  # these have been there for long enough
        self._recall()

    def _recall(self) -> None:
        """What another arbitrator has left."""
        for allocation in self._allocations:
            if allocation.metadata.name == THE_NAME and (told := allocation.status.proposal) and told.deadline:
                self._notices.recall(allocation.metadata.namespace, told)
        self._recall_back_offs()

    def _recall_back_offs(self) -> None:
        """What another arbitrator has learned; of two at work each would put the other right for ever."""
        for allocation in self._allocations:
            if allocation.metadata.name == THE_NAME and (known := allocation.status.back_off) and known.until:
                self._trials.recall(allocation.metadata.namespace, known)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self._changes += 1

    def _namespace_event(self, old: Object | None, new: Object | None) -> None:
        self._changes += 1
        if new is None and old is not None:
            self._heard_of.pop(old.metadata.name, None)
        elif old is None and new is not None:
            self._heard_of[new.metadata.name] = clock.now()

    def _policy(self) -> PolicySpec:
        found = self._policies.get(POLICY_NAME)
        return found.spec if found is not None else PolicySpec()

    # --- one cycle --------------------------------------------------------------------------------------------------

    async def cycle(self) -> None:
        """Once around; nothing if nothing changed since."""
        self.ledger.expire()
        state = (self.books.version, self._changes)
        is_edited = self._publisher.has_been_edited()
        if not self._may_act() or (state == self._done and not is_edited and clock.now() < self._look_again_at):
            return
        if is_edited:
            self._recall_back_offs()
        began, policy = clock.monotonic(), self._policy()
        await legacy_group.copy(self._api, self._legacy_consumers, self._consumers)
        self.books.select(policy.node_selector)
        self.books.count_by(limited if policy.policy == "limits" else requested, self._pods)
        consumers = await self._everyone()
        quotas = allowed_by(self._quotas)
        division = decide(consumers.values(), self._groups, policy, self.books, quotas, self._stuck)
        unlimited = frozenset(name for name, consumer in consumers.items() if consumer.spec.unlimited)
        self.ledger.publish(
            {name: account.granted for name, account in division.namespaces.items()}, unlimited, policy.prefix
        )
        self._spared = {uid: at for uid, at in self._spared.items() if clock.now() < at + _PATIENCE_SECONDS}
        found = plan(
            Holdings(
                division,
                consumers,
                policy,
                self.books,
                self._by_namespace.__getitem__,
                self._waiting.__getitem__,
                self._by_node.__getitem__,
                self._budgets_of.__getitem__,
                frozenset(self._spared),
                self._notices.on_notice(),
            ),
            self._room,
            self._trials,
            self._stuck_alike,
        )
        self._back_off(found)
        fresh = self._give_notice(found, consumers)
        for name, outcome in division.namespaces.items():
            notice, caution = self._notices.get(name), self._trials.caution(name)
            await self._publisher.publish(
                Report(consumers[name], outcome, notice, found.blocked.get(name), caution), policy.prefix
            )
            self._notices.published(name)
            if name in fresh:
                self._announce(name, fresh[name])
        for name, outcome in division.groups.items():
            await self._publisher.publish_group(name, outcome, policy.prefix)
        self._publisher.retain(division.namespaces, division.groups)
        if not self._may_act():
            return
        await lift(self._api, self.ledger, self._gated[GATE])
        await wake(self._api, self.ledger, self._pods)
        await self._evict(policy, found)
        self._look_again_at = self._next_look(found)
        # what nobody can use is lent in the next cycle
        self._done = state if found.stuck == self._stuck else None
        self._stuck, self._stuck_alike = found.stuck, found.stuck_alike
        if self._watch is not None:
            self._watch.cycle(clock.monotonic() - began, division.namespaces)

    async def _everyone(self) -> dict[str, Consumer]:
        """The Consumer of each namespace. One without is given one, but not before whoever made it had the time to: a
        manifest may hold both.
        """
        found = {
            consumer.metadata.namespace: consumer for consumer in self._consumers if consumer.metadata.name == THE_NAME
        }
        self._courtesy_ends = float("inf")
        for namespace in self._namespaces:
            name = namespace.metadata.name
            if namespace.metadata.is_terminating or name in found:
                continue
            found[name] = default_consumer(name)
            due = self._heard_of.get(name, 0.0) + _COURTESY_SECONDS
            if due > clock.now():
                self._courtesy_ends = min(self._courtesy_ends, due)
                continue
            self._heard_of.pop(name, None)
            try:
                await self._api.create(CONSUMERS, new_consumer(found[name]), name)
            except (AlreadyExists, NotFound):
                continue  # somebody was faster, or the namespace is gone
        return found

    def _next_look(self, found: Plan) -> float:
        """When time alone may change something."""
        times = [self._courtesy_ends, self._trials.next_change(), *(notice.deadline for notice in self._notices.all())]
        if found.is_early or self._spared:
            times.append(clock.now() + _PATIENCE_SECONDS)
        return min(times)

    # --- taking back ------------------------------------------------------------------------------------------------

    def _give_notice(self, found: Plan, consumers: Mapping[str, Consumer]) -> dict[str, Notice]:
        """A victim's notice begins to run when it is told, and ends when it is not wanted any more; the new ones."""
        fresh = {}
        for name, taking in found.takings.items():
            notice = self._notices.give(name, taking, non_negative_seconds(consumers[name].spec.eviction_grace))
            if notice is not None:
                fresh[name] = notice
        self._notices.withdraw(frozenset(found.takings))
        return fresh

    def _announce(self, namespace: str, notice: Notice) -> None:
        if self._watch is not None:
            self._watch.proposed(namespace)
        self._warn(namespace, "Overused", evicting.warning(notice))

    def _warn(self, namespace: str, reason: str, text: str) -> None:
        """An event about an Allocation, if it is there already."""
        allocation = self._allocations.get(f"{namespace}/{THE_NAME}")
        if allocation is not None and self._recorder is not None:
            self._recorder.event(evicting.about(allocation), WARNING, reason, text)

    def _back_off(self, found: Plan) -> None:
        """Take nothing more back where that has not helped; not now."""
        for namespace, (beneficiary, lost) in found.futile.items():
            caution = self._trials.failed(namespace, beneficiary, lost)
            self._warn(namespace, "ReclaimFutile", futility(caution))
        self._trials.tidy(lambda namespace: bool(self._waiting[namespace]))

    def _count_trial(self, namespace: str, result: str) -> None:
        if self._watch is not None:
            self._watch.reclaimed(namespace, result)

    async def _evict(self, policy: PolicySpec, found: Plan) -> None:
        """Evict those whose notice has run out, at most so many in a cycle."""
        left = policy.max_evictions_per_cycle
        for namespace, notice in self._notices.due(clock.now()):
            if left <= 0:
                return
            if not await self._publisher.confirm(namespace):
                log.warning("somebody else arbitrates: nobody of %s is evicted", namespace)
                continue
            for victim in notice.victims[:left]:
                if not self._may_act():
                    log.warning("leadership is in doubt: nobody is evicted")
                    return
                result = await evicting.evict(self._api, victim)
                left -= 1
                if self._watch is not None:
                    self._watch.evicted(namespace, result.name.lower())
                if result is evicting.Result.REFUSED:
                    self._spared[victim.metadata.uid] = clock.now()
                    continue
                self.books.leave(victim.metadata.uid)
                beneficiary, planned = found.for_whom[victim.metadata.uid]
                if result is evicting.Result.EVICTED:
                    self._trials.evicted(beneficiary, planned)
                if result is evicting.Result.EVICTED and self._recorder is not None:
                    text = evicting.explanation(beneficiary.metadata.key)
                    self._recorder.event(evicting.about(victim), WARNING, "Reclaimed", text)
