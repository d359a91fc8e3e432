"""ResourceClaim, ResourceClaimTemplate and ResourceSlice: what is filled in, and what may not change.

Nothing allocates devices yet, so the check is light. Sources: pkg/apis/resource/{v1/defaults,validation} (1.36).
"""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.kinds.others import CountedStrategy, ReportedStrategy
from fairlead.kinds.rules import validate_unchanged
from fairlead.kinds.strategy import Strategy
from fairlead.runtime.clock import timestamp

_EXACT_COUNT = "ExactCount"


class ResourceClaimStrategy(ReportedStrategy):
    def default(self, obj: Obj) -> None:
        _default_requests(obj["spec"])

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_unchanged(obj["spec"], old["spec"], "spec", errors)


class ResourceClaimTemplateStrategy(Strategy):
    def default(self, obj: Obj) -> None:
        _default_requests(obj["spec"].get("spec") or {})

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_unchanged(obj["spec"], old["spec"], "spec", errors)


class ResourceSliceStrategy(CountedStrategy):
    selectable = {
        "spec.nodeName": lambda slice_: str((slice_.get("spec") or {}).get("nodeName", "")),
        "spec.driver": lambda slice_: str((slice_.get("spec") or {}).get("driver", "")),
    }

    def unknown_field(self, field: str) -> str:
        return f"field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}"

    def default(self, obj: Obj) -> None:
        for device in obj["spec"].get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", timestamp())

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        spec, before = obj["spec"], old["spec"]
        validate_unchanged(spec["pool"].get("name"), before["pool"].get("name"), "spec.pool.name", errors)
        for field in ("driver", "nodeName"):
            validate_unchanged(spec.get(field), before.get(field), f"spec.{field}", errors)


def _default_requests(spec: Obj) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if asked is not None:
                asked.setdefault("allocationMode", _EXACT_COUNT)
                if asked["allocationMode"] == _EXACT_COUNT and not asked.get("count"):
                    asked["count"] = 1
