"""The arbitrator at work: every cycle it writes what each namespace deserves, and takes back what others deserve.

    read ─▶ divide ─▶ grant (grant table) ─▶ plan ─▶ publish ─▶ lift gates, retrigger ─▶ evict after the notice period

A cycle in which nothing changed costs nothing. Notices and back-offs are kept in Allocations, so another arbitrator
that takes over finds them there; everything else it learns from pods and nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from fairlead.api import builtin
from fairlead.api.budgets import PodDisruptionBudget
from fairlead.api.errors import AlreadyExists, ApiError, NotFound
from fairlead.api.event_types import WARNING
from fairlead.api.meta import Object
from fairlead.api.nodes import Node
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.arbitrator import evictions, legacy_group
from fairlead.arbitrator.accounting import RequestVector, is_gated, is_waiting, limited, requested
from fairlead.arbitrator.amounts import KnownAmounts
from fairlead.arbitrator.divide import divide_cluster
from fairlead.arbitrator.gates import lift
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.installing import install
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
from fairlead.arbitrator.outcomes import Division, ShareOutcome
from fairlead.arbitrator.publishing import AllocationReport, EvictionNotice, Publisher, futility
from fairlead.arbitrator.quotas import QuotaBounds
from fairlead.arbitrator.reclaim import EquivalenceClass, FitChecker, ReclaimPlan, plan_reclaim
from fairlead.arbitrator.reclaimable import ReclaimInputs
from fairlead.arbitrator.retrigger import retrigger
from fairlead.arbitrator.trials import Trials
from fairlead.client.events import Recorder
from fairlead.client.informer import Informers
from fairlead.golang.durations import non_negative_seconds
from fairlead.runtime import clock
from fairlead.runtime.turns import in_turns

#: The policy that counts, of all that there may be.
POLICY_NAME: Final = "default"
_ESTABLISHED_SECONDS: Final = 0.05
#: How long until a plan that waits for time to pass, or a refused eviction, is looked at again.
_PATIENCE_SECONDS: Final = 5.0
#: How long a new namespace has to get a Consumer before the default one is created: less than a cycle, and longer than
#: it takes to apply the rest of a manifest.
_DEFAULT_DELAY_SECONDS: Final = 0.3

log = logging.getLogger(__name__)


class ArbitratorObserver(Protocol):
    """Is told what the arbitrator does; `ArbitratorMetrics` counts it."""

    def cycle(self, seconds: float, outcomes: Mapping[str, ShareOutcome]) -> None: ...
    def proposed(self, namespace: str) -> None: ...
    def evicted(self, namespace: str, result: str) -> None: ...
    def reclaimed(self, namespace: str, result: str) -> None: ...


def always() -> bool:
    """The `may_act` of an arbitrator without leader election."""
    return True


class Arbitrator:
    """Divides one cluster. The caller runs the informers and the recorder."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        grants: GrantTable,
        fit_checker: FitChecker,
        *,
        recorder: Recorder | None = None,
        may_act: Callable[[], bool] = always,
        observer: ArbitratorObserver | None = None,
    ) -> None:
        """`may_act` says whether this is still the one arbitrator; it is asked right before each pod is evicted."""
        self._api, self._informers, self._fit_checker = api, informers, fit_checker
        self._recorder, self._may_act, self._observer = recorder, may_act, observer
        self.grants, self.accounting = grants, grants.accounting
        self._changes = 0  # of everything but pods and nodes
        self._done: tuple[int, int] | None = None
        self._look_again_at = 0.0
        self._notices = Notices()
        self._amounts = KnownAmounts()
        self._trials = Trials(self.accounting.vector, self._count_trial)
        self._first_seen: dict[str, float] = {}  # namespaces, and when they came
        self._defaults_due = float("inf")
        self._stuck: Mapping[str, Mapping[RequestVector, int]] = {}
        self._stuck_classes: Sequence[EquivalenceClass] = ()
        self._refused_evictions: dict[str, float] = {}  # uids of pods whose eviction was refused, and when

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

    # --- informers --------------------------------------------------------------------------------------------------

    async def _install(self) -> None:
        """Make the kinds known to the server if need be, and wait until they are served."""
        forbidden = await install(self._api)
        for resource in (CONSUMERS, CONSUMER_GROUPS, ALLOCATIONS, POLICIES, MISSPELT_CONSUMERS):
            while True:
                try:
                    await self._api.list(resource)
                    break
                except NotFound:
                    if resource.qualified in forbidden:
                        log.warning("may not install %s: deploy/arbitrator/crds.yaml has it", resource.qualified)
                        forbidden.remove(resource.qualified)  # warn once
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
        self._budgets_of = self._budgets.index("namespace", lambda budget: (budget.metadata.namespace,))
        self._gated = self._pods.index("gated", lambda pod: (GATE,) if is_gated(pod) else ())
        self._publisher = Publisher(self._api, self._allocations, self._groups, self.accounting)
        self._pods.subscribe(self.accounting.pod_event)
        self._nodes.subscribe(self.accounting.node_event)
        self._namespaces.subscribe(self._namespace_event)
        self._quotas.subscribe(self._changed)
        self._bounds = QuotaBounds(self._quotas)
        self._budgets.subscribe(self._changed)
        self._consumers.subscribe(self._changed)
        self._groups.subscribe(self._changed)
        self._legacy_consumers.subscribe(self._changed)
        self._policies.subscribe(self._changed)
        heard = (self._pods, self._nodes, self._namespaces, self._quotas, self._budgets, self._consumers)
        for informer in (*heard, self._legacy_consumers, self._groups, self._policies, self._allocations):
            await informer.synced()
        self._pods.subscribe(self._trials.pod_event)
        self._first_seen.clear()  # these have been there for long enough
        self._recall()

    def _recall(self) -> None:
        """Take over the notices and back-offs that another arbitrator published."""
        for allocation in self._allocations:
            if allocation.metadata.name == THE_NAME and (proposal := allocation.status.proposal) and proposal.deadline:
                self._notices.recall(allocation.metadata.namespace, proposal)
        self._recall_back_offs()

    def _recall_back_offs(self) -> None:
        """Take over its back-offs; otherwise two active arbitrators would overwrite each other's for ever."""
        for allocation in self._allocations:
            if allocation.metadata.name == THE_NAME and (known := allocation.status.back_off) and known.until:
                self._trials.recall(allocation.metadata.namespace, known)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        self._changes += 1

    def _namespace_event(self, old: Object | None, new: Object | None) -> None:
        self._changes += 1
        if new is None and old is not None:
            self._first_seen.pop(old.metadata.name, None)
        elif old is None and new is not None:
            self._first_seen[new.metadata.name] = clock.now()

    def _policy(self) -> PolicySpec:
        found = self._policies.get(POLICY_NAME)
        return found.spec if found is not None else PolicySpec()

    # --- one cycle --------------------------------------------------------------------------------------------------

    async def cycle(self) -> None:
        """One cycle; does nothing if nothing changed since the last."""
        self.grants.expire()
        state = (self.accounting.version, self._changes)
        is_edited = self._publisher.has_been_edited()
        if not self._may_act() or (state == self._done and not is_edited and clock.now() < self._look_again_at):
            return
        if is_edited:
            self._recall_back_offs()
        began, policy = clock.monotonic(), self._policy()
        await legacy_group.copy(self._api, self._legacy_consumers, self._consumers)
        self.accounting.select(policy.node_selector)
        self.accounting.count_by(limited if policy.policy == "limits" else requested, self._pods)
        consumers = await self._all_consumers()
        self._amounts.begin()
        division = await divide_cluster(
            consumers.values(), self._groups, policy, self.accounting, self._bounds.all(), self._stuck, self._amounts
        )
        unlimited = frozenset(name for name, consumer in consumers.items() if consumer.spec.unlimited)
        self.grants.publish(division, unlimited, policy.prefix)
        self._refused_evictions = {
            uid: at for uid, at in self._refused_evictions.items() if clock.now() < at + _PATIENCE_SECONDS
        }
        found = await self._plan(division, consumers, policy)
        await self._publish(division, consumers, policy, found)
        if not self._may_act():
            return
        await lift(self._api, self.grants, self._gated[GATE])
        await retrigger(self._api, self.grants, self._pods)
        await self._evict(policy, found)
        self._look_again_at = self._next_look(found)
        # the next cycle lends what stuck pods cannot use, so a changed set of them needs one
        self._done = state if found.stuck == self._stuck else None
        self._stuck, self._stuck_classes = found.stuck, found.stuck_classes
        if self._observer is not None:
            self._observer.cycle(clock.monotonic() - began, division.namespaces)

    async def _plan(self, division: Division, consumers: Mapping[str, Consumer], policy: PolicySpec) -> ReclaimPlan:
        """Who is to give back what, and for whom."""
        inputs = ReclaimInputs(
            division,
            consumers,
            policy,
            self.accounting,
            self._by_namespace.__getitem__,
            self._waiting.__getitem__,
            self._by_node.__getitem__,
            self._budgets_of.__getitem__,
            frozenset(self._refused_evictions),
            self._notices.on_notice(),
        )
        return await plan_reclaim(inputs, self._fit_checker, self._trials, self._stuck_classes)

    async def _publish(
        self,
        division: Division,
        consumers: Mapping[str, Consumer],
        policy: PolicySpec,
        found: ReclaimPlan,
    ) -> None:
        """Write what every namespace and group deserves, with the notices that are given now."""
        self._record_futile(found)
        fresh = self._give_notice(found, consumers)
        async for name, outcome in in_turns(division.namespaces.items()):
            notice, back_off = self._notices.get(name), self._trials.back_off(name)
            await self._publisher.publish(
                AllocationReport(consumers[name], outcome, notice, found.blocked.get(name), back_off), policy.prefix
            )
            self._notices.published(name)
            if name in fresh:
                self._announce(name, fresh[name])
        async for name, outcome in in_turns(division.groups.items()):
            await self._publisher.publish_group(name, outcome, policy.prefix)
        self._publisher.retain(division.namespaces, division.groups)

    async def _all_consumers(self) -> dict[str, Consumer]:
        """The Consumer of each namespace. The default one is created where there is none, after a delay: the manifest
        that created the namespace may go on to create its Consumer.
        """
        found = {
            consumer.metadata.namespace: consumer for consumer in self._consumers if consumer.metadata.name == THE_NAME
        }
        self._defaults_due = float("inf")
        for namespace in self._namespaces:
            name = namespace.metadata.name
            if namespace.metadata.is_terminating or name in found:
                continue
            found[name] = default_consumer(name)
            due = self._first_seen.get(name, 0.0) + _DEFAULT_DELAY_SECONDS
            if due > clock.now():
                self._defaults_due = min(self._defaults_due, due)
                continue
            self._first_seen.pop(name, None)
            try:
                await self._api.create(CONSUMERS, new_consumer(found[name]), name)
            except (AlreadyExists, NotFound):
                continue  # created by somebody else meanwhile, or the namespace is gone
        return found

    def _next_look(self, found: ReclaimPlan) -> float:
        """When the passing of time alone may change the outcome."""
        times = [self._defaults_due, self._trials.next_change(), *(notice.deadline for notice in self._notices.all())]
        if found.is_early or self._refused_evictions:
            times.append(clock.now() + _PATIENCE_SECONDS)
        return min(times)

    # --- reclaiming -------------------------------------------------------------------------------------------------

    def _give_notice(self, found: ReclaimPlan, consumers: Mapping[str, Consumer]) -> dict[str, EvictionNotice]:
        """Update the notices to the plan: start those of new victims, withdraw those of pods it does not name any more.
        Returns what is new.
        """
        fresh = {}
        for name, reclaim in found.reclaims.items():
            notice = self._notices.give(name, reclaim, non_negative_seconds(consumers[name].spec.eviction_grace))
            if notice is not None:
                fresh[name] = notice
        self._notices.withdraw(frozenset(found.reclaims))
        return fresh

    def _announce(self, namespace: str, notice: EvictionNotice) -> None:
        if self._observer is not None:
            self._observer.proposed(namespace)
        self._warn(namespace, "Overused", evictions.warning(notice))

    def _warn(self, namespace: str, reason: str, text: str) -> None:
        """An event about an Allocation, if it is there already."""
        allocation = self._allocations.get(f"{namespace}/{THE_NAME}")
        if allocation is not None and self._recorder is not None:
            self._recorder.event(evictions.about(allocation), WARNING, reason, text)

    def _record_futile(self, found: ReclaimPlan) -> None:
        """Back off where evictions did not help."""
        for namespace, (beneficiary, lost) in found.futile.items():
            back_off = self._trials.failed(namespace, beneficiary, lost)
            self._warn(namespace, "ReclaimFutile", futility(back_off))
        self._trials.tidy(lambda namespace: bool(self._waiting[namespace]))

    def _count_trial(self, namespace: str, result: str) -> None:
        if self._observer is not None:
            self._observer.reclaimed(namespace, result)

    async def _evict(self, policy: PolicySpec, found: ReclaimPlan) -> None:
        """Evict the pods whose notice period is over, at most `maxEvictionsPerCycle`."""
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
                result = await evictions.evict(self._api, victim)
                left -= 1
                if self._observer is not None:
                    self._observer.evicted(namespace, result.name.lower())
                if result is evictions.EvictionResult.REFUSED:
                    self._refused_evictions[victim.metadata.uid] = clock.now()
                    continue
                self.accounting.leave(victim.metadata.uid)
                beneficiary, planned = found.for_whom[victim.metadata.uid]
                if result is evictions.EvictionResult.EVICTED:
                    self._trials.evicted(beneficiary, planned)
                if result is evictions.EvictionResult.EVICTED and self._recorder is not None:
                    text = evictions.explanation(beneficiary.metadata.key)
                    self._recorder.event(evictions.about(victim), WARNING, "Reclaimed", text)
