"""The events of simulated nodes: one queue for all of them, and each event is written by the node that tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.api.builtin import NODES, PODS
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.references import reference
from fairlead.api.verbs import Api
from fairlead.client.events import SPAM_BURST, SPAM_REFILL_PER_SECOND, EventRecorder
from fairlead.runtime.token_bucket import TokenBucket

#: Of pods that a cgroup of several kills: a node may have a hundred.
_KILLS_PER_SECOND, _KILL_BURST = 25 * SPAM_REFILL_PER_SECOND, 4 * SPAM_BURST


class WarningLimits:
    """How often one kubelet may warn of its node and of kills; it goes with the node.

    A recorder limits what is told of each object that it remembers, and a fleet has more nodes and pods than that.
    """

    def __init__(self, now: float) -> None:
        self._of_node = TokenBucket(SPAM_REFILL_PER_SECOND, SPAM_BURST, now)
        self._of_kills = TokenBucket(_KILLS_PER_SECOND, _KILL_BURST, now)

    def may_warn(self, now: float) -> bool:
        return self._of_node.take(now)

    def may_tell_kill(self, now: float) -> bool:
        return self._of_kills.take(now)


class NodeEvents(EventRecorder):
    """What is about neither a node nor a pod of one, the fleet tells itself: it is nobody's else."""

    def __init__(self, api: Api, as_node: Callable[[str], Api]) -> None:
        super().__init__(api, "kubelet")
        self._as_node = as_node

    def of_node(
        self, node: Node, type_: str, reason: str, message: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        host, about = node.metadata.name, reference(node, NODES)
        self.event(about, type_, reason, message, host=host, annotations=annotations)

    def of_pod(
        self,
        pod: Pod,
        type_: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
        *,
        path: str = "",
    ) -> None:
        """`path` is that of the container in the pod that it is about, if it is about one."""
        host, about = pod.spec.node_name, reference(pod, PODS, path)
        self.event(about, type_, reason, message, host=host, annotations=annotations)

    def _api_of(self, event: Obj) -> Api:
        host = event["source"].get("host")
        return self._as_node(host) if host else self._api
