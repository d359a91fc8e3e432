"""Making and judging pods, for every controller that has some (pkg/controller/controller_utils.go)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

from fairlead.api.errors import ApiError, is_namespace_terminating
from fairlead.api.event_types import WARNING
from fairlead.api.meta import Object
from fairlead.api.names import SUBDOMAIN_MAX
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.client.informer import Index
from fairlead.controllers.actions import Action, Create, Delete, Emit, Kind, Requeue, Together, refusals
from fairlead.controllers.base import World
from fairlead.controllers.claims import controller_reference
from fairlead.controllers.kinds import PODS
from fairlead.runtime.clock import parse_timestamp

#: A set makes or removes at most this many pods in one turn.
BURST: Final = 500

#: So many pods of one owner may wait for a node; what it makes beyond them waits, twice as long for every further
#: half of them. A number of replicas costs nothing to write, and each pod that nobody can place costs memory for good.
PATIENCE_PODS: Final = 5000
_FIRST_WAIT_SECONDS: Final = 2.0
_LONGEST_WAIT_SECONDS: Final = 86_400.0


def burst(active: Sequence[Pod], missing: int, now: float) -> Generator[Action, Any, int]:
    """How many of an owner's missing pods may be made in this turn; if none, it is woken when some may be."""
    if missing > 0 and len(active) >= PATIENCE_PODS:
        waiting = [pod.metadata.creation_timestamp for pod in active if not pod.spec.node_name]
        wait = _wait_seconds(len(waiting)) - (now - parse_timestamp(max(waiting))) if waiting else 0.0
        if wait > 0:
            yield Requeue(wait)
            return 0
    return max(min(missing, BURST), 0)


def _wait_seconds(waiting: int) -> float:
    """How long after its last pod an owner makes further ones, of whose pods so many wait for a node."""
    if waiting < PATIENCE_PODS:
        return 0.0
    doublings = min((waiting - PATIENCE_PODS) // (PATIENCE_PODS // 2), 30)
    return min(_FIRST_WAIT_SECONDS * float(1 << doublings), _LONGEST_WAIT_SECONDS)


def pod_from(template: Obj, kind: Kind[Any], owner: Object) -> Obj:
    """A pod with a generated name, as the template says and controlled by `owner`. It takes the template over."""
    of_template = template.get("metadata", {})
    meta: Obj = {name: of_template[name] for name in ("labels", "annotations", "finalizers") if name in of_template}
    meta["generateName"] = _prefix(owner.metadata.name)
    meta["namespace"] = owner.metadata.namespace
    meta["ownerReferences"] = [controller_reference(kind, owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template.get("spec", {})}


def _prefix(owner: str) -> str:
    """The dash is left out where it would make too long a name."""
    return f"{owner}-" if len(owner) < SUBDOMAIN_MAX else owner


def create_pods(pods: Sequence[Obj]) -> Generator[Action, Any, ApiError | None]:
    """Create pods with a slow start, tell how it went, and return the first refusal."""
    outcomes = yield Together([Create(PODS, pod) for pod in pods], slow_start=True)
    for outcome in outcomes:
        if isinstance(outcome, ApiError):
            if not is_namespace_terminating(outcome):
                yield Emit("FailedCreate", f"Error creating: {outcome}", WARNING)
        else:
            yield Emit("SuccessfulCreate", f"Created pod: {outcome.view(Object).metadata.name}")
    failed = refusals(outcomes)
    # While a namespace is terminating nothing can be made, and nothing needs to be.
    return failed[0] if failed and not is_namespace_terminating(failed[0]) else None


def delete_pods(pods: Sequence[Pod]) -> Generator[Action, Any, ApiError | None]:
    """Delete pods all at once, tell how it went, and return the first refusal."""
    outcomes = yield Together([Delete(PODS, pod) for pod in pods])
    for pod, outcome in zip(pods, outcomes, strict=True):
        if isinstance(outcome, ApiError):
            yield Emit("FailedDelete", f"Error deleting: {outcome}", WARNING)
        else:
            yield Emit("SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
    failed = refusals(outcomes)
    return failed[0] if failed else None


def pods_on(world: World, node: str) -> list[Pod]:
    """The pods that are bound to a node, by name."""
    return sorted(_by_node(world)[node], key=lambda pod: pod.metadata.key)


def has_pods(world: World, node: str) -> bool:
    return _by_node(world).count(node) > 0


def _by_node(world: World) -> Index[Pod]:
    return world.of(PODS).index("node", lambda pod: (pod.spec.node_name,))


def available_at(pod: Pod, min_ready_seconds: int) -> float | None:
    """When the pod is, or will be, available if it stays ready; None while it is not ready."""
    condition = pod.ready_condition
    if condition is None or condition.status != "True":
        return None
    if min_ready_seconds == 0 or condition.last_transition_time is None:
        return 0.0 if min_ready_seconds == 0 else None
    return parse_timestamp(condition.last_transition_time) + min_ready_seconds


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    at = available_at(pod, min_ready_seconds)
    return at is not None and at <= now


def next_available(pods: Iterable[Pod], min_ready_seconds: int, now: float) -> float | None:
    """In how many seconds the next of these pods becomes available; None if none will by waiting."""
    times = (available_at(pod, min_ready_seconds) for pod in pods)
    waiting = [at - now for at in times if at is not None and at > now]
    return min(waiting, default=None)
