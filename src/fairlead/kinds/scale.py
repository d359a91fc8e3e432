"""The `scale` subresource: a number of replicas, seen apart from whatever makes them.

Autoscalers and `kubectl scale` know only this, so it looks the same for every kind that has it. Sources:
pkg/registry/{core,apps}/*/storage, `ValidateScale` of pkg/apis/autoscaling/validation (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.selectors import of_labels, of_structured
from fairlead.kinds.rules import NOT_NEGATIVE

_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Obj) -> Obj:
    """The Scale of a scalable object."""
    spec, status = obj["spec"], obj.get("status") or {}
    selector = spec.get("selector") or {}
    is_plain = obj.get("kind") == "ReplicationController"
    text = str(of_labels(selector) if is_plain else of_structured(selector))
    return new_scale(obj, spec.get("replicas", 0), status.get("replicas", 0), text)


def new_scale(obj: Obj, wanted: int, found: int, selector: str) -> Obj:
    """The Scale of anything that has replicas."""
    meta = metadata(obj)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in _SHOWN if field in meta},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": found} | ({"selector": selector} if selector else {}),
    }


def scaled(obj: Obj, scale: Obj) -> Obj:
    """The object with as many replicas as the Scale says; nothing else of it is taken."""
    return obj | {"spec": obj["spec"] | {"replicas": replicas_of(scale)}}


def replicas_of(scale: Obj) -> int:
    found: int = (scale.get("spec") or {}).get("replicas") or 0
    return found


def validate_scale(scale: Obj, errors: Errors) -> None:
    """Refusals are about a `Scale` of `autoscaling`, not about the object behind it."""
    if (replicas := replicas_of(scale)) < 0:
        errors.invalid("spec.replicas", replicas, NOT_NEGATIVE)
