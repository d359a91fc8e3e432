"""`pods/resize`: more or less cpu and memory for a pod that may already run (KEP-1287, KEP-5419).

Everything else that is sent is ignored. The class of service stays what it was, and nothing that was set can be unset.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.podresources import is_sidecar
from fairlead.api.qos import qos_class
from fairlead.kinds.podspec.annotations import is_mirror
from fairlead.kinds.podspec.differences import is_same

_KINDS = ("initContainers", "containers")
_RESIZED = ("resources", "resizePolicy")
_MUTABLE = ("cpu", "memory")
_NOT_BY_RESTART = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"


def keep_only_resize(new: Obj, old: Obj) -> None:
    """Take from `new` the resources (and resize policies) alone.

    Where containers were added, removed or renamed everything is left as it is, for the rules to refuse.
    """
    spec, before = new["spec"], old["spec"]
    if any(len(spec.get(kind) or ()) != len(before.get(kind) or ()) for kind in _KINDS):
        return
    kept = dict(before)
    for kind in _KINDS:
        if before.get(kind):
            kept[kind] = _with_resources_of(spec[kind], before[kind])
    _take(kept, spec, ("resources",))
    new["spec"] = kept


def _with_resources_of(containers: list[Obj], old: list[Obj]) -> list[Obj]:
    if any(new.get("name") != before.get("name") for new, before in zip(containers, old, strict=True)):
        return containers
    merged = [dict(before) for before in old]
    for container, new in zip(merged, containers, strict=True):
        _take(container, new, _RESIZED)
    return merged


def _take(target: Obj, source: Obj, fields: tuple[str, ...]) -> None:
    for field in fields:
        if field in source:
            target[field] = source[field]
        else:
            target.pop(field, None)


def validate_resize(new: Obj, old: Obj, errors: Errors) -> None:
    """The rules of the change; those of the specification itself are checked before."""
    spec, before = new["spec"], old["spec"]
    if is_mirror(old):
        return _refuse(errors, "static pods cannot be resized")
    if (before.get("os") or {}).get("name") == "windows":
        return _refuse(errors, "windows pods cannot be resized")
    was = (old.get("status") or {}).get("qosClass") or qos_class(before)
    if was != qos_class(spec):
        errors.invalid("spec", was, "Pod QOS Class may not change as a result of resizing")
    if not _is_supported(old):
        errors.forbidden("spec", "Pod running on node without support for resize")
    _validate_pod_level(spec, before, errors)
    if not _validate_same_containers(spec, before, errors):
        return None
    for kind in _KINDS:
        for i, (container, old_container) in enumerate(zip(spec.get(kind) or (), before.get(kind) or (), strict=True)):
            resources, old_resources = container.get("resources") or {}, old_container.get("resources") or {}
            _validate_nothing_removed(resources, old_resources, f"spec.{kind}[{i}].resources", "resource", errors)
    _validate_only_cpu_and_memory(spec, before, errors)
    return None


def _refuse(errors: Errors, text: str) -> None:
    """These refusals say nothing else: upstream throws away what was found before."""
    errors.clear()
    errors.forbidden("[]", text)


def _is_supported(pod: Obj) -> bool:
    """Whether the node reports resources of running containers, as nodes that can resize do."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if "running" in (status.get("state") or {}):
            return "resources" in status
    return True


def _validate_pod_level(spec: Obj, old: Obj, errors: Errors) -> None:
    """The resources of the pod as a whole."""
    if "resources" in old and "resources" not in spec:
        return errors.forbidden("spec.resources", "pod-level resources cannot be removed")
    before = old.get("resources") or {}
    _validate_nothing_removed(spec.get("resources") or {}, before, "spec.resources", "pod-level resource", errors)
    if not is_same(_set_back(spec, old).get("resources") or {}, before):
        errors.forbidden("spec", "only cpu and memory resources are mutable at pod-level")
    return None


def _validate_same_containers(spec: Obj, old: Obj, errors: Errors) -> bool:
    found = errors.added
    for kind in ("containers", "initContainers"):
        containers, before = spec.get(kind) or (), old.get(kind) or ()
        if len(containers) != len(before):
            errors.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for i, (container, was) in enumerate(zip(containers, before, strict=True)):
            if container.get("name") != was.get("name"):
                errors.forbidden(f"spec.{kind}[{i}].name", f"{kind} may not be renamed or reordered on resize")
    return errors.added == found


def _validate_nothing_removed(resources: Obj, old: Obj, path: str, what: str, errors: Errors) -> None:
    for kind in ("requests", "limits"):
        if set(old.get(kind) or ()) - set(resources.get(kind) or ()):
            errors.forbidden(f"{path}.{kind}", f"{what} {kind} cannot be removed")


def _validate_only_cpu_and_memory(spec: Obj, old: Obj, errors: Errors) -> None:
    for container, was in zip(spec.get("containers") or (), old.get("containers") or (), strict=True):
        if not is_same(_set_back_container(container, was), was):
            errors.forbidden("spec", "only cpu and memory resources are mutable")
    for i, (container, was) in enumerate(
        zip(spec.get("initContainers") or (), old.get("initContainers") or (), strict=True)
    ):
        path = f"spec.initContainers[{i}]"
        if not is_same(_set_back_container(container, was), was):
            errors.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
        if is_same(container, was) or is_sidecar(container):
            continue
        for policy in container.get("resizePolicy") or ():
            if policy.get("restartPolicy") == "RestartContainer":
                errors.forbidden(path, _NOT_BY_RESTART)


def _set_back_container(container: Obj, old: Obj) -> Obj:
    """Upstream forgets the claims here, so that a container that has some cannot be resized at all."""
    merged = _set_back(container, old)
    if "claims" in merged.get("resources", ()):
        merged["resources"] = {kind: value for kind, value in merged["resources"].items() if kind != "claims"}
    return merged


def _set_back(owner: Obj, old: Obj) -> Obj:
    """The owner (a container, or the pod) with the old amounts of cpu and memory."""
    resources = dict(owner.get("resources") or {})
    before: Mapping[str, Obj] = old.get("resources") or {}
    for kind in ("limits", "requests"):
        amounts = {name: amount for name, amount in (resources.get(kind) or {}).items() if name not in _MUTABLE}
        amounts |= {name: amount for name, amount in (before.get(kind) or {}).items() if name in _MUTABLE}
        if amounts:
            resources[kind] = amounts
        else:
            resources.pop(kind, None)
    merged = dict(owner)
    if resources or "resources" in old:
        merged["resources"] = resources
    else:
        merged.pop("resources", None)
    return merged
