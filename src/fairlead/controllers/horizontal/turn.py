"""One look at an autoscaler, every 15 seconds and never sooner: whatever wakes it, it waits for its time.

Source: reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.autoscaling import AutoscalerStatus, HorizontalPodAutoscaler, Scale, TargetReference
from fairlead.api.errors import ApiError
from fairlead.api.event_types import WARNING
from fairlead.api.labels import LabelRequirement, LabelSelector
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.resources import Resource
from fairlead.api.selector_text import parse
from fairlead.api.selectors import Operator, Selector, SelectorError
from fairlead.controllers.actions import Action, Actions, Emit, GiveWay, Kind, Patch, Read, Requeue, update_status
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.dynamic_informers import DEFINITIONS, served
from fairlead.controllers.horizontal.ambiguity import TargetSelectors
from fairlead.controllers.horizontal.behavior import Bounds, History, normalized
from fairlead.controllers.horizontal.conditions import with_state
from fairlead.controllers.horizontal.proposals import MetricFailed, Proposed, Workload, propose
from fairlead.controllers.horizontal.resting import Measured, Rest, Rests
from fairlead.controllers.kinds import HORIZONTAL_POD_AUTOSCALERS, PODS
from fairlead.controllers.selecting import selected
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import timestamp

#: kube-controller-manager's --horizontal-pod-autoscaler-sync-period.
SYNC_SECONDS: Final = 15.0
#: So many metrics are looked at before others get a turn; those of thousands of pods let them have some of their own.
TURN_METRICS: Final = 100

_UNABLE: Final = "the HPA was unable to compute the replica count: {}"
_NO_SCALE: Final = "the HPA controller was unable to get the target's current scale: {}"
_GOT_SCALE: Final = "the HPA controller was able to get the target's current scale"
_DISABLED: Final = "scaling is disabled since the replica count of the target is zero"

_OPERATORS: Final = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.NOT_EQUALS: "NotIn",
    Operator.EQUALS: "In",
    Operator.DOUBLE_EQUALS: "In",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
    Operator.GREATER: "Gt",
    Operator.LESS: "Lt",
}


class _Unable(Exception):
    """This look ends here; what there is to say is in the status and in this text."""


class _Look(msgspec.Struct):
    """What one look finds out."""

    autoscaler: HorizontalPodAutoscaler
    history: History
    now: float
    status: AutoscalerStatus
    metrics: Sequence[Obj] | None = None
    #: What it was about: the kind of the target, by its qualified name, and its pods once all metrics could be had.
    target: str = ""
    pods: Sequence[Pod] | None = None

    def set(self, type_: str, holds: bool, reason: str, message: str) -> None:
        conditions = with_state(
            self.status.conditions, type_, holds=holds, reason=reason, message=message, now=timestamp(self.now)
        )
        self.status = msgspec.structs.replace(self.status, conditions=conditions)

    def report(self, current: int, desired: int) -> None:
        metrics = tuple(self.metrics) if self.metrics is not None else None
        self.status = msgspec.structs.replace(
            self.status, current_replicas=current, desired_replicas=desired, current_metrics=metrics
        )


class HorizontalPodAutoscalers(Controller[HorizontalPodAutoscaler]):
    name = "horizontal-pod-autoscaler"
    queue_name = "horizontalpodautoscaler"
    account = "horizontal-pod-autoscaler"
    kind = HORIZONTAL_POD_AUTOSCALERS
    watches: Sequence[Watch] = (Watch(PODS), Watch(DEFINITIONS))

    def __init__(self, measured: Measured | None = None) -> None:
        """With `measured`, autoscalers rest where nothing changes."""
        self._due: dict[str, float] = {}
        self._histories: dict[str, History] = {}
        self._selectors = TargetSelectors()
        self._rests: Rests | None = None
        if measured is not None:
            self._rests = Rests(measured, self._selectors)
            self.watches = (*self._rests.watches, Watch(DEFINITIONS))

    def follow(self, wake: Callable[[str], None]) -> None:
        if self._rests is not None:
            self._rests.follow(wake)

    def gone(self, key: str, world: World) -> Actions:
        if self._rests is not None:
            self._rests.end(key)
        self._due.pop(key, None)
        self._histories.pop(key, None)
        self._selectors.remove(*key.split("/", 1))
        yield from ()

    def reconcile(self, obj: HorizontalPodAutoscaler, world: World) -> Actions:
        key, now = obj.metadata.key, world.monotonic
        self._wake(key, world)
        due = self._due.setdefault(key, now + SYNC_SECONDS)
        if now < due:
            yield Requeue(due - now)
            return
        self._due[key] = now + SYNC_SECONDS
        look = _Look(obj, self._histories.setdefault(key, History()), world.now, obj.status)
        yield from self._look(look, world)
        if not self._rests_after(look, now):
            yield Requeue(max(self._due[key] - world.monotonic, 0.0))

    def _wake(self, key: str, world: World) -> None:
        """Whoever rested has its next look when it would have had one, and has always found the same until now."""
        rest = self._rests.end(key) if self._rests is not None else None
        if rest is None:
            return
        slept = world.monotonic - rest.looked_at
        looks = max(math.ceil(slept / SYNC_SECONDS) - 1, 0)  # at the very moment of one it is still to come
        self._due[key] = rest.looked_at + SYNC_SECONDS * (looks + 1)
        self._histories[key].repeat(world.now - slept + SYNC_SECONDS * looks)

    def _rests_after(self, look: _Look, began: float) -> bool:
        """Whether the next looks would find what this one found; then it rests."""
        rests, autoscaler, pods = self._rests, look.autoscaler, look.pods
        if rests is None or pods is None or look.status != autoscaler.status:
            return False
        nodes = frozenset(pod.spec.node_name for pod in pods if pod.spec.node_name)
        is_flat = look.history.is_flat(autoscaler.spec.behavior, look.now)
        if not is_flat or not rests.may_rest(look.target, pods, nodes, look.now):
            return False
        meta = autoscaler.metadata
        target = look.target, f"{meta.namespace}/{autoscaler.spec.scale_target_ref.name}"
        rests.begin(Rest(meta.key, began, target, nodes))
        return True

    def _look(self, look: _Look, world: World) -> Actions:
        autoscaler = look.autoscaler
        resource, scale = yield from _scale(look, world)
        if scale is None or resource is None:
            yield from update_status(HORIZONTAL_POD_AUTOSCALERS, autoscaler, autoscaler.status, look.status)
            return
        current = scale.spec.replicas
        look.history.begin(current, look.now)
        try:
            desired, reason = yield from self._desired(look, scale, world)
            if desired != current:
                look.pods = None  # not for long
                yield from _rescale(look, resource, scale, desired, reason)
            look.report(current, desired)
        except _Unable as error:
            look.report(current, look.status.desired_replicas)
            yield from update_status(HORIZONTAL_POD_AUTOSCALERS, autoscaler, autoscaler.status, look.status)
            if str(error):
                yield Emit("FailedComputeMetricsReplicas", str(error), WARNING)
            return
        yield from update_status(HORIZONTAL_POD_AUTOSCALERS, autoscaler, autoscaler.status, look.status)

    def _desired(self, look: _Look, scale: Scale, world: World) -> Generator[Action, Any, tuple[int, str]]:
        """How many replicas there should be, and why."""
        spec, current = look.autoscaler.spec, scale.spec.replicas
        if current == 0 and spec.min_replicas != 0:
            look.set("ScalingActive", False, "ScalingDisabled", _DISABLED)
            return 0, ""
        if current > spec.max_replicas:
            return spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        if current < spec.min_replicas:
            return spec.min_replicas, "Current number of replicas below Spec.MinReplicas"
        best = yield from self._highest(look, scale, world)
        proposed = max(best.replicas, 0)
        bounds = Bounds(current, spec.min_replicas, spec.max_replicas)
        outcome = normalized(spec.behavior, look.history, proposed, bounds, look.now)
        look.set("AbleToScale", True, *outcome.able)
        look.set("ScalingLimited", outcome.is_limited, *outcome.limited)
        above = f"{best.metric if proposed else ''} above target"
        reason = above if proposed > current else "All metrics below target" if proposed < current else ""
        return outcome.replicas, reason

    def _highest(self, look: _Look, scale: Scale, world: World) -> Generator[Action, Any, Proposed]:
        """What the metric proposes that proposes most. Where one fails, no fewer replicas than there are."""
        workload = yield from self._workload(look, scale, world)
        specs = look.autoscaler.spec.metrics
        found: list[Proposed] = []
        failed: list[MetricFailed] = []
        statuses: list[Obj] = []
        for number, spec in enumerate(specs, 1):
            if number % TURN_METRICS == 0:
                yield GiveWay()
            try:
                proposal = yield from propose(spec, workload)
            except MetricFailed as error:
                failed.append(error)
                statuses.append({"type": ""})
                yield Emit(error.reason, error.text, WARNING)
            else:
                found.append(proposal)
                statuses.append(proposal.status)
        look.metrics = statuses
        best = max(found, key=lambda proposal: proposal.replicas, default=None)
        if best is None or (failed and best.replicas < scale.spec.replicas):
            first = failed[0]
            look.set("ScalingActive", False, first.reason, _UNABLE.format(first.text))
            count = f"{len(failed)} invalid out of {len(specs)}"
            raise _Unable(f"invalid metrics ({count}), first error is: {first.summary}")
        look.pods = None if failed else workload.pods
        message = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        look.set("ScalingActive", True, "ValidMetricFound", message)
        return best

    def _workload(self, look: _Look, scale: Scale, world: World) -> Generator[Action, Any, Workload]:
        meta, text = look.autoscaler.metadata, scale.status.selector
        if not text:
            yield Emit("SelectorRequired", "selector is required", WARNING)
            look.set("ScalingActive", False, "InvalidSelector", "the HPA target's scale is missing a selector")
            raise _Unable("selector is required")
        try:
            selector = parse(text)
        except SelectorError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            yield from _inactive(look, "InvalidSelector", message)
        self._selectors.put(meta.namespace, meta.name, selector)
        pods = selected(world, PODS, meta.namespace, _structured(selector))
        yield GiveWay()
        names = yield from self._selectors.selecting(meta.namespace, pods)
        if len(names) > 1:
            keys = " ".join(f"{{{name} {meta.namespace}}}" for name in names)
            message = f"pods by selector {text} are controlled by multiple HPAs: [{keys}]"
            yield from _inactive(look, "AmbiguousSelector", message)
        return Workload(look.autoscaler, scale, pods, look.now)


def _inactive(look: _Look, reason: str, message: str) -> Generator[Action, Any, None]:
    yield Emit(reason, message, WARNING)
    look.set("ScalingActive", False, reason, message)
    raise _Unable(message)


def _scale(look: _Look, world: World) -> Generator[Action, Any, tuple[Resource | None, Scale | None]]:
    """The scale of the target; what keeps it from being read is told."""
    target, namespace = look.autoscaler.spec.scale_target_ref, look.autoscaler.metadata.namespace
    resource = _resource_of(world, target)
    if resource is None:
        group = target.api_version.rpartition("/")[0]
        problem = f"no matches for kind {go_quote(target.kind)} in group {go_quote(group)}"
    elif "scale" not in resource.subresources:
        problem = "the server could not find the requested resource"
    else:
        try:
            scale: Scale = yield Read(Kind(resource, Scale), target.name, namespace, "scale")
        except ApiError as error:
            problem = str(error)
        else:
            look.set("AbleToScale", True, "SucceededGetScale", _GOT_SCALE)
            look.target = resource.qualified
            return resource, scale
    yield Emit("FailedGetScale", problem, WARNING)
    look.set("AbleToScale", False, "FailedGetScale", _NO_SCALE.format(problem))
    return resource, None


def _resource_of(world: World, target: TargetReference) -> Resource | None:
    """Whatever version a target names, its group and kind count; of several versions the one that it names."""
    group = target.api_version.rpartition("/")[0]
    found = [known for known in served(world) if (known.group, known.kind) == (group, target.kind) and known.namespaced]
    return min(found, key=lambda known: known.api_version != target.api_version, default=None)


def _rescale(look: _Look, resource: Resource, scale: Scale, desired: int, reason: str) -> Actions:
    try:
        yield Patch(Kind(resource, Scale), scale, {"spec": {"replicas": desired}}, subresource="scale")
    except ApiError as error:
        yield Emit("FailedRescale", f"New size: {desired}; reason: {reason}; error: {error}", WARNING)
        message = f"the HPA controller was unable to update the target scale: {error}"
        look.set("AbleToScale", False, "FailedUpdateScale", message)
        raise _Unable("") from None
    message = f"the HPA controller was able to update the target scale to {desired}"
    look.set("AbleToScale", True, "SucceededRescale", message)
    look.status = msgspec.structs.replace(look.status, last_scale_time=timestamp(look.now))
    yield Emit("SuccessfulRescale", f"New size: {desired}; reason: {reason}")
    look.history.scaled(look.autoscaler.spec.behavior, scale.spec.replicas, desired, look.now)


def _structured(selector: Selector) -> LabelSelector:
    """The same selector in the form by which pods are found."""
    return LabelSelector(
        match_expressions=tuple(
            LabelRequirement(key=part.key, operator=_OPERATORS[part.operator], values=part.values)
            for part in selector.requirements
        )
    )
