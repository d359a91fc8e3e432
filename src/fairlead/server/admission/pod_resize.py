"""Two rules for changes of bound pods: the node must declare the feature that they need, and have the resources.

Without them a resize that can never succeed would be stored and stay pending for ever (KEP-1287, KEP-5328).
Sources: plugin/pkg/admission/{nodedeclaredfeatures,podresize}, k8s.io/component-helpers/nodedeclaredfeatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.api.errors import Cause
from fairlead.api.meta import Object, View
from fairlead.api.objects import Obj
from fairlead.api.podresources import is_sidecar, pod_requests
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.golang.quoting import go_quote
from fairlead.server.admission.base import UPDATE_ONLY, AdmissionPlugin, Attributes, Reader

_OS = "kubernetes.io/os"


class _NodeStatus(View):
    allocatable: dict[str, str] = {}
    declared_features: tuple[str, ...] = ()


class _Node(Object):
    status: _NodeStatus = _NodeStatus()


class NodeDeclaredFeatureValidator(AdmissionPlugin):
    """Refuses a change that needs a feature which the pod's node does not declare."""

    name = "NodeDeclaredFeatureValidator"
    resources = frozenset({"pods"})
    subresources = frozenset({"", "resize"})
    operations = UPDATE_ONLY

    async def validate(self, attributes: Attributes) -> None:
        if not (old := _changed_on_node(attributes)):
            return
        needed = [feature for feature, is_needed in _FEATURES.items() if is_needed(old, attributes.spec)]
        if not needed:
            return
        node = _node_of(self._reader, attributes)
        if missing := [feature for feature in needed if feature not in node.status.declared_features]:
            raise attributes.forbidden(
                f"pod update requires features {', '.join(missing)} which are not available "
                f"on node {go_quote(node.metadata.name)}"
            )


class PodResizeValidator(AdmissionPlugin):
    """Refuses to resize a pod beyond the allocatable resources of its node."""

    name = "PodResizeValidator"
    resources = frozenset({"pods"})
    subresources = frozenset({"resize"})
    operations = UPDATE_ONLY

    async def validate(self, attributes: Attributes) -> None:
        if not _changed_on_node(attributes):
            return
        node = _node_of(self._reader, attributes)
        system = node.metadata.labels.get(_OS, "linux")
        if system != "linux":
            node_os = f"node {go_quote(node.metadata.name)} is {go_quote(system)}"
            raise attributes.forbidden(
                f"pod resize is only supported on linux nodes, {node_os}", Cause("UnsupportedPlatform", "")
            )
        requests = pod_requests(attributes.spec)
        excess = [
            f"{resource}, requested: {shown(requested)}, allocatable: {shown(allocatable)}"
            for resource, shown in _SHOWN.items()
            if (requested := requests.get(resource, ZERO))
            > (allocatable := parse(node.status.allocatable.get(resource, "0")))
        ]
        if excess:
            why = f"node didn't have enough allocatable resources: {'; '.join(excess)}"
            raise attributes.forbidden(why, Cause("NodeCapacity", ""))


def _changed_on_node(attributes: Attributes) -> Obj | None:
    """The old spec, if the pod is bound and its spec changes."""
    old = (attributes.old or {}).get("spec") or {}
    return old if attributes.spec.get("nodeName") and old != attributes.spec else None


def _node_of(reader: Reader, attributes: Attributes) -> _Node:
    name = attributes.spec["nodeName"]
    found = reader.find("nodes", name)
    if found is None:
        raise attributes.forbidden(f"node {go_quote(name)} not found")
    return found.kept_view(_Node)


def _resizes_pod_level(old: Obj, new: Obj) -> bool:
    return bool((old.get("resources") or {}) != (new.get("resources") or {}))


def _resizes_init_containers(old: Obj, new: Obj) -> bool:
    """Sidecars do not count: they can be resized wherever containers can."""
    pairs = zip(old.get("initContainers") or (), new.get("initContainers") or (), strict=False)
    return any(
        not is_sidecar(before) and (before.get("resources") or {}) != (after.get("resources") or {})
        for before, after in pairs
    )


#: Feature → whether going from one spec to the other needs it of the node.
_FEATURES: Mapping[str, Callable[[Obj, Obj], bool]] = {
    "InPlacePodLevelResourcesVerticalScaling": _resizes_pod_level,
    "InPlacePodVerticalScalingInitContainers": _resizes_init_containers,
}

#: How the refusal prints the amounts of a resource.
_SHOWN: Mapping[str, Callable[[Quantity], int]] = {
    "cpu": lambda amount: amount.milli,
    "memory": lambda amount: amount.units,
}
