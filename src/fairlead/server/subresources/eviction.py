"""The Eviction subresource: a deletion that asks the pod's disruption budget first (S3-94 to S3-102).

The budget is charged before the pod goes: `disruptionsAllowed` falls by one and the pod is noted in `disruptedPods`, in
one atomic write, so that two evictions cannot both take the last allowance. `decide` and `with_disruption` are pure;
`evict` carries out.

    pending, finished or going already ─────────────────────────────▶ deleted, no budget asked
    no budget ──────────────────────────────────────────────────────▶ deleted
    not ready, and the budget can do without it ────────────────────▶ deleted, unless it changed meanwhile
    otherwise ─▶ charge the budget ─▶ deleted, or 429 (no room), 403 (budget broken)
    two budgets ────────────────────────────────────────────────────▶ 500

Source: pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError, BadRequest, Cause, Conflict, Forbidden, NotFound, TooManyRequests, Unknown
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.pods import FINISHED
from fairlead.api.selectors import Selector, SelectorError, of_structured
from fairlead.api.verbs import DeleteOptions
from fairlead.runtime import clock, rng
from fairlead.server.admission.base import Reader, Writer
from fairlead.server.storage.deletion import check_preconditions, options_of

PODS, BUDGETS = "pods", "poddisruptionbudgets.policy"

#: More pods than this in `disruptedPods` mean that the budget's controller has stopped reading it.
MAX_DISRUPTED_PODS = 2000

_ATTEMPTS, _PAUSE_SECONDS = 20, 0.5
_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_CONDITION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
_MESSAGE = "Eviction API: evicting"

#: Deletes a pod: (name, namespace, options).
DeletePod: TypeAlias = Callable[[str, str, DeleteOptions], Awaitable[object]]


class EvictionVerdict(Enum):
    """What has to happen before a pod may be deleted."""

    GO = auto()  # nothing: it has no budget
    GO_IF_UNCHANGED = auto()  # nothing, as long as the pod stays as unhealthy as it is
    CHARGE = auto()  # its budget must allow it


async def evict(
    reader: Reader,
    writer: Writer,
    delete: DeletePod,
    namespace: str,
    name: str,
    eviction: Obj,
    *,
    dry_run: bool = False,
) -> Obj:
    """Evict a pod; the `Status` that says so. `eviction` is of policy/v1 or policy/v1beta1, which are alike."""
    if name_of(eviction) != name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = options_of(eviction.get("deleteOptions") or {}, {})
    removal = _Eviction(reader, writer, delete, namespace, name, replace(options, dry_run=dry_run or options.dry_run))
    if not await removal.without_budget():
        await removal.with_budget()
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class _Eviction:
    """The eviction of one pod."""

    def __init__(
        self, reader: Reader, writer: Writer, delete: DeletePod, namespace: str, name: str, options: DeleteOptions
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._delete = delete
        self._namespace = namespace
        self._name = name
        self._options = options

    async def without_budget(self) -> bool:
        """Delete the pod if no budget applies to it; tries again if it changes meanwhile. False: a budget applies."""
        insists = self._options.precondition_resource_version is not None
        for attempt in range(1, _ATTEMPTS + 1):
            pod = self._pod()
            if not ignores_budgets(pod):
                return False
            try:
                await self._remove(self._options if insists or _is_gone(pod) else self._only_if_still(pod))
            except Conflict:
                if insists or attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS * rng.source().uniform(1, 1.1))
            else:
                return True
        return False

    async def with_budget(self) -> None:
        pod = self._pod()
        budgets = matching(pod, self._reader.each(BUDGETS, self._namespace))
        verdict = decide(pod, budgets)
        if verdict is EvictionVerdict.CHARGE:
            await self._charge(budgets[0])
        if verdict is not EvictionVerdict.GO_IF_UNCHANGED:
            await self._remove(self._options)
            return
        try:
            await self._remove(self._only_if_still(pod))
        except Conflict as conflict:
            if self._options.precondition_resource_version is not None:
                raise
            raise _not_yet(name_of(budgets[0])) from conflict

    async def _charge(self, budget: Obj) -> None:
        change = partial(with_disruption, self._name, clock.timestamp())
        if self._options.dry_run:
            change(budget)
        elif await self._writer.guaranteed_update(BUDGETS, name_of(budget), self._namespace, change) is None:
            raise NotFound.of("poddisruptionbudgets", name_of(budget), "policy")

    async def _remove(self, options: DeleteOptions) -> None:
        """Set the DisruptionTarget condition (its owner may not count it as a failure), then delete the pod."""
        if not options.dry_run:
            change = partial(_with_disruption_target, options, clock.timestamp())
            pod = await self._writer.guaranteed_update(PODS, self._name, self._namespace, change)
            if pod is None:
                raise NotFound.of(PODS, self._name)
            if options.precondition_resource_version is not None:
                options = replace(options, precondition_resource_version=metadata(pod)["resourceVersion"])
        await self._delete(self._name, self._namespace, options)

    def _pod(self) -> Obj:
        found = self._reader.find(PODS, self._name, self._namespace)
        if found is None:
            raise NotFound.of(PODS, self._name)
        return found.obj()

    def _only_if_still(self, pod: Obj) -> DeleteOptions:
        return replace(self._options, precondition_resource_version=metadata(pod).get("resourceVersion"))


def ignores_budgets(pod: Obj) -> bool:
    """Whether a pod may be evicted whatever its budgets say: it is pending, finished, or being deleted."""
    return _is_gone(pod) or _status(pod).get("phase") == "Pending"


def _is_gone(pod: Obj) -> bool:
    return _status(pod).get("phase") in FINISHED or bool(metadata(pod).get("deletionTimestamp"))


def matching(pod: Obj, budgets: Iterable[Encoded]) -> list[Obj]:
    """The budgets that guard the pod. In policy/v1 an empty selector selects all, a missing one nothing (S3-106)."""
    labels = metadata(pod).get("labels") or {}
    return [
        budget.obj()
        for budget in budgets
        if (selector := budget.kept(_selector)) is not None and selector.matches(labels)
    ]


def _selector(budget: Encoded) -> Selector | None:
    """None: one that cannot be."""
    try:
        return of_structured((budget.obj().get("spec") or {}).get("selector"))
    except SelectorError:
        return None


def decide(pod: Obj, budgets: list[Obj]) -> EvictionVerdict:
    """Whether the budget must be charged. A pod that is not ready is not counted as healthy: it need not be."""
    if len(budgets) > 1:
        raise Unknown(_TWO_BUDGETS)
    if not budgets:
        return EvictionVerdict.GO
    if _is_ready(pod):
        return EvictionVerdict.CHARGE
    budget = budgets[0]
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return EvictionVerdict.GO_IF_UNCHANGED
    status = _status(budget)
    desired = status.get("desiredHealthy", 0)
    is_met = 0 < desired <= status.get("currentHealthy", 0)
    return EvictionVerdict.GO_IF_UNCHANGED if is_met else EvictionVerdict.CHARGE


def with_disruption(pod_name: str, now: str, budget: Obj) -> Obj:
    """The budget after one more disruption; refuses if it allows none."""
    name, status = name_of(budget), dict(_status(budget))
    if status.get("observedGeneration", 0) < metadata(budget).get("generation", 0):
        raise _not_yet(name)
    allowed = status.get("disruptionsAllowed", 0)
    disrupted = status.get("disruptedPods") or {}
    if allowed < 0:
        raise _broken(name, "pdb disruptions allowed is negative")
    if len(disrupted) > MAX_DISRUPTED_PODS:
        raise _broken(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        raise _refused(_refusal_text(name, status))
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = disrupted | {pod_name: now}
    if allowed == 1:
        status["conditions"] = _conditions_without_room(status, now)
    return budget | {"status": status}


def _refusal_text(name: str, status: Obj) -> str:
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    condition = _condition(status, "DisruptionAllowed") or {}
    reason, message = condition.get("reason", ""), condition.get("message", "")
    is_explained = condition.get("status") == "False" and bool(message)
    refusal = f"The disruption budget {name} does not allow evicting pods currently"
    if is_explained and reason == "SyncFailed":  # the numbers mean nothing then
        return f"{refusal} because it failed sync: {message}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"{refusal} ({reason}): {message}" if is_explained else refusal


def _conditions_without_room(status: Obj, now: str) -> list[Obj]:
    """The conditions after the last allowed disruption."""
    old = _condition(status, "DisruptionAllowed")
    since = old["lastTransitionTime"] if old and old.get("status") == "False" else now
    new: Obj = {"type": "DisruptionAllowed", "status": "False"}
    if observed := status.get("observedGeneration"):
        new["observedGeneration"] = observed
    new |= {"lastTransitionTime": since, "reason": "InsufficientPods", "message": ""}
    conditions = status.get("conditions") or []
    return [new if condition is old else condition for condition in conditions] if old else [*conditions, new]


def _with_disruption_target(options: DeleteOptions, now: str, pod: Obj) -> Obj | None:
    """The pod with the DisruptionTarget condition; None if it has it already."""
    check_preconditions(pod, builtin.PODS, options)
    status = _status(pod)
    old = _condition(status, _CONDITION["type"])
    since = old.get("lastTransitionTime") if old and old.get("status") == "True" else now
    new = {**_CONDITION, "lastProbeTime": None, "lastTransitionTime": since, "message": _MESSAGE}
    if old == new:
        return None
    conditions = status.get("conditions") or []
    replaced = [new if condition is old else condition for condition in conditions] if old else [*conditions, new]
    return pod | {"status": status | {"conditions": replaced}}


def _status(obj: Obj) -> Obj:
    return obj.get("status") or {}


def _condition(status: Obj, kind: str) -> Obj | None:
    return next((condition for condition in status.get("conditions") or () if condition.get("type") == kind), None)


def _is_ready(pod: Obj) -> bool:
    return (_condition(_status(pod), "Ready") or {}).get("status") == "True"


def _refused(why: str, retry_after_seconds: int = 0) -> ApiError:
    return TooManyRequests(
        _WOULD_VIOLATE, causes=[Cause("DisruptionBudget", why)], retry_after_seconds=retry_after_seconds
    )


def _not_yet(name: str) -> ApiError:
    """The budget's controller has not looked at its latest version: ask again soon."""
    return _refused(f"The disruption budget {name} is still being processed by the server.", retry_after_seconds=10)


def _broken(name: str, why: str) -> ApiError:
    return Forbidden.of("poddisruptionbudget", name, why, "policy")
