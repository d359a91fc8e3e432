"""The events of simulated nodes: one queue for all of them, and each event is written by the node that tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.api.builtin import NODES, PODS
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.references import reference
from fairlead.api.verbs import Api
from fairlead.client.events import EventRecorder


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
