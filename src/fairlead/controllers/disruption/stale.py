"""A pod that was told it would be disrupted, and was not, is told so after two minutes.

The condition `DisruptionTarget` would otherwise mark it for ever. Conditions of the kubelet never grow stale: it sets
them long before a pod ends. Source: pkg/controller/disruption/disruption.go (syncStalePodDisruption).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Condition
from fairlead.api.pods import Pod
from fairlead.api.verbs import PatchType
from fairlead.controllers.actions import Actions, Patch, Requeue
from fairlead.controllers.base import Controller, World
from fairlead.controllers.kinds import PODS
from fairlead.runtime.clock import parse_timestamp, timestamp

STALE_SECONDS: Final = 120.0
CONDITION: Final = "DisruptionTarget"


def _announced(pod: Pod) -> Condition | None:
    """The announcement, if it is one that can grow stale."""
    if not pod.is_active:
        return None
    found = next((condition for condition in pod.status.conditions if condition.type == CONDITION), None)
    return found if found and found.status == "True" and found.reason != "TerminationByKubelet" else None


class StaleDisruptions(Controller[Pod]):
    name = "stale-pod-disruption-controller"
    queue_name = "stale_pod_disruption"
    account = "disruption-controller"
    kind = PODS
    workers = 1

    def concerns(self, old: Pod | None, new: Pod | None, world: World) -> bool:
        return new is not None and _announced(new) is not None

    def reconcile(self, obj: Pod, world: World) -> Actions:
        announced = _announced(obj)
        if announced is None:
            return
        since = parse_timestamp(announced.last_transition_time) if announced.last_transition_time else 0.0
        if since + STALE_SECONDS > world.now:
            yield Requeue(since + STALE_SECONDS - world.now)
            return
        condition = {
            "type": CONDITION,
            "status": "False",
            "reason": None,
            "message": None,
            "observedGeneration": obj.metadata.generation or None,
            "lastTransitionTime": timestamp(world.now),
        }
        yield Patch(PODS, obj, {"status": {"conditions": [condition]}}, PatchType.STRATEGIC, subresource="status")
