"""`pods/binding`: the scheduler's word that a pod belongs to a node (pkg/registry/core/pod/storage/storage.go)."""

from __future__ import annotations

from fairlead.api.errors import BadRequest, Conflict, Unknown
from fairlead.api.fields import Errors, aggregated
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.kinds.podspec.status import set_condition

_RESOURCE = "pods/binding"


def check_binding(binding: Obj, name: str) -> None:
    """Refuse a binding that makes no sense by itself; `name` is that of the pod in the URL."""
    if name_of(binding) != name:
        raise BadRequest("name in URL does not match name in Binding object")
    errors = Errors()
    target = binding.get("target") or {}
    if (kind := target.get("kind")) and kind != "Node":
        errors.not_supported("target.kind", kind, ("Node", "<empty>"), sort=False)
    if not target.get("name"):
        errors.required("target.name")
    if errors:
        raise Unknown(aggregated(errors))


def assign(pod: Obj, binding: Obj) -> None:
    """Give the pod to the node, in place; a pod that cannot be given away (any more) is a conflict."""
    name, spec = name_of(pod), pod["spec"]
    if metadata(pod).get("deletionTimestamp"):
        raise _conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node := spec.get("nodeName"):
        raise _conflict(name, f'pod {name} is already assigned to node "{node}"')
    if spec.get("schedulingGates"):
        raise _conflict(name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    _copy_metadata(metadata(pod), binding.get("metadata") or {})
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, {"type": "PodScheduled", "status": "True"})


def _copy_metadata(meta: Obj, given: Obj) -> None:
    """Annotations of a binding win, labels do not overwrite those of the pod."""
    if annotations := given.get("annotations"):
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    if labels := given.get("labels"):
        meta["labels"] = labels | (meta.get("labels") or {})


def _conflict(name: str, why: str) -> Conflict:
    return Conflict.of(_RESOURCE, name, why)
