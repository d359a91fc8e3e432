"""The fields that an endpoint ignores: a write to it must not own them.

A status sent to the main endpoint is dropped, a spec sent to `/status` too; owning them would make conflicts out of
nothing. Source: the `GetResetFields` and `GetResetFieldsFilter` of kubernetes `pkg/registry/*/*/strategy.go` and of
apiextensions-apiserver `pkg/registry/customresource`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from fairlead.server.apply.fieldsets import Fields, below, is_member, node_of, of_paths, without

#: Takes the fields out of a set that do not count.
Reset = Callable[[Fields], Fields]

_ANY: Final = "*"


def reset_of(qualified: str, subresource: str, *, has_status: bool, is_custom: bool) -> Reset | None:
    """What the endpoint of a kind resets."""
    if subresource == "status":
        return _STATUS.get(qualified) or (_STATUS_ALONE if is_custom else _OTHER_STATUS)
    if subresource:
        return _SUBRESOURCES.get((qualified, subresource))
    return _MAIN if has_status else None


def _without(*paths: str) -> Reset:
    fields = of_paths(*(tuple(f"f:{step}" for step in path.split(".")) for path in paths))
    return partial(_excluded, fields)


def _excluded(excluded: Fields, fields: Fields) -> Fields:
    return without(fields, excluded) if fields else fields


def _only(*paths: str) -> Reset:
    return partial(only, _pattern(paths))


def only(pattern: Mapping[str, Any], fields: Fields) -> Fields:
    """The part of a set on the way to, and below, the paths of a pattern; `*` in it stands for any element."""
    if not pattern:
        return fields
    out = {}
    for element, node in fields.items():
        inner = pattern.get(_ANY, pattern.get(element))
        if inner is not None:
            kept = node_of(is_member(node), only(inner, below(node)))
            if kept is not None:
                out[element] = kept
    return out


def _pattern(paths: tuple[str, ...]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for path in paths:
        at = found
        for step in path.split("."):
            at = at.setdefault(step if step == _ANY else f"f:{step}", {})
    return found


_MAIN: Final = _without("status")
_OTHER_STATUS: Final = _without("spec")
_STATUS_ALONE: Final = _without("metadata", "spec")
#: Kinds whose status endpoint resets more than the spec.
_STATUS: Final[dict[str, Reset]] = {
    "pods": _without("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    "deployments.apps": _without("spec", "metadata.labels"),
    "flowschemas.flowcontrol.apiserver.k8s.io": _STATUS_ALONE,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _STATUS_ALONE,
    "volumeattachments.storage.k8s.io": _STATUS_ALONE,
}
_SUBRESOURCES: Final[dict[tuple[str, str], Reset]] = {
    ("certificatesigningrequests.certificates.k8s.io", "approval"): _without("spec", "status.certificate"),
    ("pods", "ephemeralcontainers"): _only("spec.ephemeralContainers"),
    ("pods", "resize"): _only(
        "spec.containers.*.resources",
        "spec.containers.*.resizePolicy",
        "spec.initContainers.*.resources",
        "spec.initContainers.*.resizePolicy",
    ),
}
