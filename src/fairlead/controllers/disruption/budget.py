"""The status of a PodDisruptionBudget: what evictions may rely on.

The eviction subresource counts down `disruptionsAllowed` and notes whom it let go; this controller recounts. A budget
that cannot be computed allows nothing. Source: pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.budgets import BudgetCondition, BudgetStatus, PodDisruptionBudget
from fairlead.api.event_types import WARNING
from fairlead.api.labels import LabelSelector
from fairlead.api.pods import Pod
from fairlead.api.references import reference
from fairlead.controllers.actions import Action, Actions, Emit, Patch, Requeue, difference
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.disruption.scale import Expected, Uncountable, expected_scale
from fairlead.controllers.dynamic_informers import DEFINITIONS
from fairlead.controllers.kinds import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from fairlead.controllers.rounding import rounded_up
from fairlead.controllers.selecting import selected, selecting
from fairlead.runtime.clock import parse_timestamp, timestamp

#: A pod whose eviction was granted counts as gone for so long; then somebody must have failed to delete it.
DELETION_SECONDS: Final = 120.0

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


_AMBIGUOUS = 'Pod "{}"/"{}" matches multiple PodDisruptionBudgets.  Chose "{}" arbitrarily.'


def _budgets_of(world: World, pod: Pod) -> list[PodDisruptionBudget]:
    """Those that guard the pod, by name."""
    meta = pod.metadata
    return selecting(world, POD_DISRUPTION_BUDGETS, _selector_of, meta.namespace, meta.labels)


def _selector_of(budget: PodDisruptionBudget) -> LabelSelector | None:
    return budget.spec.selector


class DisruptionBudgets(Controller[PodDisruptionBudget]):
    name = "controllermanager"
    queue_name = "disruption"
    account = "disruption-controller"
    kind = POD_DISRUPTION_BUDGETS
    workers = 1
    is_patient = True

    def __init__(self) -> None:
        #: What has to be told of pods that several budgets guard, by the budget that tells it.
        self._unsent: dict[str, list[Emit]] = {}
        self.watches = (
            Watch(PODS, self._pod_changed, wakes_known=True),
            Watch(DEPLOYMENTS),
            Watch(REPLICA_SETS),
            Watch(REPLICATION_CONTROLLERS),
            Watch(STATEFUL_SETS),
            Watch(DEFINITIONS),
        )

    def _pod_changed(self, world: World, old: Pod | None, new: Pod | None) -> Iterator[str]:
        """Wakes whoever guards the pod or did so; that there are several is told at every change, as upstream does."""
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            yield from (budget.metadata.key for budget in _budgets_of(world, old))
        pod = new or old
        assert pod is not None
        budgets = _budgets_of(world, pod)
        if len(budgets) > 1:
            chosen = budgets[0].metadata
            text = _AMBIGUOUS.format(pod.metadata.namespace, pod.metadata.name, chosen.name)
            event = Emit("MultiplePodDisruptionBudgets", text, WARNING, reference(pod, PODS.resource))
            self._unsent.setdefault(chosen.key, []).append(event)
        yield from (budget.metadata.key for budget in budgets)

    def gone(self, key: str, world: World) -> Actions:
        yield from self._unsent.pop(key, ())

    def reconcile(self, obj: PodDisruptionBudget, world: World) -> Actions:
        yield from self._unsent.pop(obj.metadata.key, ())
        selector = obj.spec.selector
        pods = selected(world, PODS, obj.metadata.namespace, selector) if selector is not None else []
        if not pods:
            yield Emit("NoPods", "No matching pods found")
        try:
            expected, desired = yield from _expectation(obj, pods, world)
        except Uncountable as error:
            yield Emit(
                "CalculateExpectedPodCountFailed",
                f"Failed to calculate the number of expected pods: {error}",
                WARNING,
            )
            yield from _write(obj, _failed(obj, str(error), timestamp(world.now)))
            return
        if expected.has_unmanaged:
            yield Emit("UnmanagedPods", _UNMANAGED.format(_as_go(obj.spec.selector or LabelSelector())), WARNING)
        disrupted = yield from _disrupted(obj, pods, world.now)
        yield from _write(obj, _status(obj, pods, expected.pods, desired, disrupted, timestamp(world.now)))
        if disrupted:
            yield Requeue(min(_given_up_at(since) for since in disrupted.values()) - world.now + 1)


def _expectation(
    obj: PodDisruptionBudget, pods: Sequence[Pod], world: World
) -> Generator[Action, Any, tuple[Expected, int]]:
    """How many pods there should be, and how many of them have to be healthy."""
    at_least, at_most_without = obj.spec.min_available, obj.spec.max_unavailable
    if at_most_without is not None:
        expected = yield from expected_scale(pods, world)
        return expected, max(expected.pods - rounded_up(at_most_without, expected.pods), 0)
    if isinstance(at_least, str):
        expected = yield from expected_scale(pods, world)
        return expected, rounded_up(at_least, expected.pods)
    return Expected(len(pods) if at_least is not None else 0, False), at_least or 0


def _disrupted(obj: PodDisruptionBudget, pods: Sequence[Pod], now: float) -> Generator[Action, Any, dict[str, str]]:
    """Those of the pods let go that are still expected to be deleted soon."""
    kept: dict[str, str] = {}
    for pod in pods:
        since = obj.status.disrupted_pods.get(pod.metadata.name)
        if since is None or pod.metadata.is_terminating:
            continue
        if _given_up_at(since) < now:
            namespace = obj.metadata.namespace  # upstream says it twice, too
            text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            yield Emit("NotDeleted", text, WARNING, reference(pod, PODS.resource))
        else:
            kept[pod.metadata.name] = since
    return kept


def _given_up_at(since: str) -> float:
    return parse_timestamp(since) + DELETION_SECONDS


def _status(
    obj: PodDisruptionBudget, pods: Sequence[Pod], expected: int, desired: int, disrupted: dict[str, str], now: str
) -> BudgetStatus:
    healthy = sum(
        pod.is_ready and not pod.metadata.is_terminating and pod.metadata.name not in disrupted for pod in pods
    )
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    generation = obj.metadata.generation
    verdict = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    return BudgetStatus(
        observed_generation=generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=_with_verdict(obj.status, *verdict, "", generation, now),
    )


def _failed(obj: PodDisruptionBudget, message: str, now: str) -> BudgetStatus:
    status = obj.status
    conditions = _with_verdict(status, "False", "SyncFailed", message, status.observed_generation, now)
    return msgspec.structs.replace(status, disruptions_allowed=0, conditions=conditions)


def _with_verdict(
    old: BudgetStatus, status: str, reason: str, message: str, generation: int, now: str
) -> tuple[BudgetCondition, ...]:
    before = next((condition for condition in old.conditions if condition.type == "DisruptionAllowed"), None)
    since = before.last_transition_time if before is not None and before.status == status else now
    allowed = BudgetCondition(
        type="DisruptionAllowed",
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation or None,
        last_transition_time=since,
    )
    return (*(condition for condition in old.conditions if condition.type != "DisruptionAllowed"), allowed)


def _write(obj: PodDisruptionBudget, new: BudgetStatus) -> Actions:
    """Only over the status that was read: an eviction may have been granted since."""
    if new != obj.status:
        patch = {"status": difference(obj.status, new)}
        yield Patch(POD_DISRUPTION_BUDGETS, obj, patch, subresource="status", unchanged=True)


def _as_go(selector: LabelSelector) -> str:
    """The selector as Go prints the struct."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{term.key},Operator:{term.operator},Values:[{' '.join(term.values or ())}],}},"
        for term in selector.match_expressions
    )
    expressions = f"[]LabelSelectorRequirement{{{expressions}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:{expressions},}}"
