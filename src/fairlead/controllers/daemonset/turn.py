"""One turn of one daemon set: a pod on every node that should have one, and none elsewhere.

Pods that are missing or superfluous are settled first; only a turn that finds nothing of the kind goes on with a
rolling update (pkg/controller/daemon/daemon_controller.go).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from fairlead.api.errors import ApiError
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.api.workloads import DaemonSet, DaemonSetStatus
from fairlead.controllers.actions import Action, Emit, Requeue
from fairlead.controllers.base import World
from fairlead.controllers.daemonset import rolling
from fairlead.controllers.daemonset.backoff import FailureBackoff
from fairlead.controllers.daemonset.placement import (
    GENERATION_ANNOTATION,
    GENERATION_LABEL,
    Placement,
    new_pod,
)
from fairlead.controllers.history import REVISION_LABEL
from fairlead.controllers.kinds import DAEMON_SETS, NODES
from fairlead.controllers.pods import create_pods, delete_pods, is_available

#: At most this many pods are made, and as many deleted, in one turn.
BURST = 250

Outcome = Generator[Action, Any, ApiError | None]


class DaemonSetTurn:
    """The state of one turn: the nodes, and which of the set's pods belong to each."""

    def __init__(
        self,
        owner: DaemonSet,
        hash_: str,
        pods: Sequence[Pod],
        placement: Placement,
        backoff: FailureBackoff,
        world: World,
    ) -> None:
        self._owner, self._hash, self._placement = owner, hash_, placement
        self._backoff, self._now = backoff, world.now
        self._generation = owner.metadata.annotations.get(GENERATION_ANNOTATION)
        self._nodes: Mapping[str, Node] = {node.metadata.name: node for node in world.of(NODES)}
        self._wanting = {name for name, node in self._nodes.items() if placement.should_run(node)}
        self._surge, self._unavailable = rolling.limits(owner, len(self._wanting))
        self._pods: dict[str, list[Pod]] = {}
        for pod in pods:
            # A pod that has ended and is being deleted is past caring for.
            if not (pod.is_finished and pod.metadata.is_terminating):
                self._pods.setdefault(pod.target_node, []).append(pod)
        for on_node in self._pods.values():
            on_node.sort(key=_oldest_first)

    def run(self) -> Outcome:
        """Returns the first refusal, if there was one."""
        create = sorted(name for name in self._wanting if self._is_missing(name))
        delete: list[Pod] = []
        for name, on_node in sorted(self._pods.items()):
            delete += yield from self._surplus(name, on_node)
        if create or delete:
            return (yield from self._carry_out(create, delete))
        if self._owner.spec.update_strategy.type == "RollingUpdate":
            return (yield from self._carry_out(*self._next_step()))
        return None

    def _is_missing(self, name: str) -> bool:
        """Whether the node has no pod; with surge, those that have ended or are being deleted are none."""
        on_node = self._pods.get(name, [])
        if self._surge:
            on_node = [pod for pod in on_node if not pod.is_finished and not pod.metadata.is_terminating]
        return not on_node

    def _surplus(self, name: str, on_node: Sequence[Pod]) -> Generator[Action, Any, list[Pod]]:
        """The pods of a node that have no business there, or have ended."""
        staying = [pod for pod in on_node if not pod.metadata.is_terminating]
        node = self._nodes.get(name)
        if node is None:
            # Pods that run on a vanished node are pod garbage collection's; those still on their way there are ours.
            return [pod for pod in staying if not pod.spec.node_name]
        if not self._placement.may_stay(node):
            return staying
        running = [pod for pod in staying if not pod.is_finished]
        ended = yield from self._ended([pod for pod in staying if pod.is_finished], name)
        return ended + self._superfluous(running)

    def _ended(self, pods: Sequence[Pod], node: str) -> Generator[Action, Any, list[Pod]]:
        delete = []
        for pod in pods:
            what = f"daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {node}"
            if pod.status.phase == "Succeeded":
                yield Emit("SucceededDaemonPod", f"Found succeeded {what}, will try to delete it", NORMAL)
            elif wait := self._backoff.wait((self._owner.metadata.uid, node), self._now):
                yield Requeue(wait)
                continue
            else:
                yield Emit("FailedDaemonPod", f"Found failed {what}, will try to kill it", WARNING)
            delete.append(pod)
        return delete

    def _superfluous(self, running: Sequence[Pod]) -> list[Pod]:
        """All but the oldest pod of a node; while surging, all but the oldest of old and new."""
        if not self._surge or len(running) <= 1:
            return list(running[1:])
        new = [pod for pod in running if pod.metadata.labels.get(REVISION_LABEL) == self._hash]
        old = [pod for pod in running if pod not in new]
        delete = new[1:] + old[1:]
        if new and old and (not old[0].is_ready or self._is_available(new[0])):
            delete.append(old[0])
        return delete

    def _next_step(self) -> tuple[list[str], list[Pod]]:
        """The nodes to create on and the pods to delete, for the rolling update to get on."""
        pods = {name: self._pods.get(name, []) for name in self._wanting | self._pods.keys()}
        if self._surge:
            pods = {name: on_node for name, on_node in pods.items() if name in self._nodes}
            delete, create = rolling.surge(pods, self._wanting, self._surge, self._is_new, self._is_available)
            return create, delete
        return [], rolling.replace_in_place(pods, self._unavailable, self._is_new, self._is_available)

    def _carry_out(self, create: Sequence[str], delete: Sequence[Pod]) -> Outcome:
        made = [new_pod(DAEMON_SETS, self._owner, self._hash, node) for node in create[:BURST]]
        refused = (yield from create_pods(made)) if made else None
        failed = (yield from delete_pods(delete[:BURST])) if delete else None
        return refused or failed

    def _is_new(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        if self._generation is not None and labels.get(GENERATION_LABEL) == self._generation:
            return True
        return labels.get(REVISION_LABEL) == self._hash

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self._owner.spec.min_ready_seconds, self._now)

    def status(self, collisions: int) -> DaemonSetStatus:
        """What is there, as of before this turn's changes; of each node the oldest pod counts."""
        first = {name: on_node[0] for name, on_node in self._pods.items() if name in self._nodes}
        wanted = [pod for name, pod in first.items() if name in self._wanting]
        ready = [pod for pod in wanted if pod.is_ready]
        available = sum(self._is_available(pod) for pod in ready)
        return DaemonSetStatus(
            current_number_scheduled=len(wanted),
            number_misscheduled=len(first) - len(wanted),
            desired_number_scheduled=len(self._wanting),
            number_ready=len(ready),
            observed_generation=self._owner.metadata.generation,
            updated_number_scheduled=sum(self._is_new(pod) for pod in wanted),
            number_available=available,
            number_unavailable=len(self._wanting) - available,
            collision_count=collisions or None,
            conditions=self._owner.status.conditions,
        )


def _oldest_first(pod: Pod) -> tuple[bool, str, str]:
    return not pod.spec.node_name, pod.metadata.creation_timestamp, pod.metadata.name
