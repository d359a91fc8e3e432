"""On which nodes a daemon set wants a pod, and how its pods are tied to their node.

The scheduler places daemon pods, but this controller decides how many there should be, so it has to know where they
could go: node name, affinity and taints, but not room (pkg/controller/daemon, `NodeShouldRunDaemonPod`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.node_affinity import NodeTest, required_test
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.scheduling import PodSpec
from fairlead.api.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated
from fairlead.api.workloads import DaemonSet, template_of
from fairlead.controllers.actions import Kind
from fairlead.controllers.history import REVISION_LABEL
from fairlead.controllers.pods import pod_from

GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"

#: What every daemon pod tolerates: it belongs to the node, in good days and bad.
_TOLERATED: Final = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
_TOLERATED_BY_HOST_NETWORK: Final = (("network-unavailable", NO_SCHEDULE),)

_NO_EXECUTE: Final = frozenset({NO_EXECUTE})


class Placement(msgspec.Struct, frozen=True):
    """What the template says about nodes, compiled once for each generation of a daemon set."""

    spec: PodSpec
    meets_required: NodeTest

    def should_run(self, node: Node) -> bool:
        """Whether a pod should be started there."""
        return self._may_be_at(node) and first_untolerated(node.spec.taints, self.spec.tolerations or ()) is None

    def may_stay(self, node: Node) -> bool:
        """Whether a pod that runs there may go on; only a NoExecute taint drives it off."""
        tolerations = self.spec.tolerations or ()
        return self._may_be_at(node) and first_untolerated(node.spec.taints, tolerations, _NO_EXECUTE) is None

    def _may_be_at(self, node: Node) -> bool:
        name, labels = node.metadata.name, node.metadata.labels
        return self.spec.node_name in ("", name) and self.meets_required(labels, name)


def placement_of(owner: DaemonSet) -> Placement:
    spec = msgspec.convert(with_tolerations(template_of(owner.spec.template)).get("spec", {}), PodSpec)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return Placement(spec, required_test(spec.node_selector or {}, affinity))


def with_tolerations(template: Obj) -> Obj:
    """The template with the tolerations of every daemon pod."""
    spec = template.get("spec", {})
    tolerations = list(spec.get("tolerations", ()))
    for name, effect in _TOLERATED + (_TOLERATED_BY_HOST_NETWORK if spec.get("hostNetwork") else ()):
        toleration = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return template | {"spec": spec | {"tolerations": tolerations}}


def new_pod(kind: Kind[DaemonSet], owner: DaemonSet, hash_: str, node: str) -> Obj:
    """A pod of the set that can run on that node only."""
    pod = pod_from(with_tolerations(template_of(owner.spec.template)), kind, owner)
    labels = pod["metadata"].get("labels", {}) | {REVISION_LABEL: hash_}
    if (generation := owner.metadata.annotations.get(GENERATION_ANNOTATION)) is not None:
        labels[GENERATION_LABEL] = generation
    pod["metadata"]["labels"] = labels
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = pod["spec"].get("affinity", {})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"]["affinity"] = affinity | {"nodeAffinity": affinity.get("nodeAffinity", {}) | required}
    return pod
