"""ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice: what is filled in, what is allowed, what stays.

Nothing allocates devices yet. Sources: pkg/apis/resource/{v1/defaults,validation} (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_labels
from fairlead.kinds.device_claims import (
    EXACT_COUNT,
    alternatives,
    drop_deallocated,
    results_of,
    validate_claim_spec,
    validate_claim_status,
    validate_config,
)
from fairlead.kinds.device_names import validate_count
from fairlead.kinds.device_selectors import are_bounded, validate_selectors
from fairlead.kinds.device_slices import validate_slice_spec
from fairlead.kinds.meta import validate_annotations
from fairlead.kinds.others import CountedStrategy, ReportedStrategy
from fairlead.kinds.resource_names import is_extended
from fairlead.kinds.rules import is_same, validate_unchanged
from fairlead.kinds.strategy import NOT_OF_STATUS, Strategy
from fairlead.runtime.clock import timestamp

GROUP: Final = "resource.k8s.io"
_MOST_CONFIGS: Final = 32
#: From how many bytes on expressions take long to compile.
_SLOW_BYTES: Final = 4 << 10


class ResourceClaimStrategy(ReportedStrategy):
    kept_by_status = NOT_OF_STATUS
    slow_bytes = _SLOW_BYTES

    def default(self, obj: Obj) -> None:
        _default_requests(obj["spec"])
        allocation = (obj.get("status") or {}).get("allocation") or {}
        for result in results_of(allocation):
            _default_tolerations(result)

    def validate(self, obj: Obj, errors: Errors) -> None:
        validate_claim_spec(obj["spec"], "spec", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_unchanged(obj["spec"], old["spec"], "spec", errors)

    def prepare_status(self, obj: Obj, old: Obj) -> None:
        drop_deallocated(obj, old)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_claim_status(obj, old, errors)


class ResourceClaimTemplateStrategy(Strategy):
    slow_bytes = _SLOW_BYTES

    def default(self, obj: Obj) -> None:
        _default_requests(obj["spec"].get("spec") or {})

    def validate(self, obj: Obj, errors: Errors) -> None:
        metadata = obj["spec"].get("metadata") or {}
        validate_labels(metadata.get("labels"), errors, "spec.metadata.labels")
        validate_annotations(metadata.get("annotations") or {}, errors, "spec.metadata.annotations")
        validate_claim_spec(obj["spec"].get("spec") or {}, "spec.spec", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_unchanged(obj["spec"], old["spec"], "spec", errors)


class DeviceClassStrategy(CountedStrategy):
    slow_bytes = _SLOW_BYTES

    def validate(self, obj: Obj, errors: Errors) -> None:
        _validate_class(obj["spec"], {}, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        _validate_class(obj["spec"], old["spec"], errors)


def _validate_class(spec: Obj, old: Obj, errors: Errors) -> None:
    """What is as it was stored need not be valid under the rules of today."""
    selectors, configs = spec.get("selectors") or [], spec.get("config") or []
    is_stored = is_same(selectors, old.get("selectors"))
    if is_stored or are_bounded(selectors, "spec", errors):
        validate_selectors(selectors, "spec.selectors", errors, is_stored=is_stored)
    if validate_count(configs, _MOST_CONFIGS, "spec.config", errors):
        is_stored = is_same(configs, old.get("config"))
        for index, config in enumerate(configs):
            validate_config(config, f"spec.config[{index}]", errors, is_stored=is_stored)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        errors.invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


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

    def validate(self, obj: Obj, errors: Errors) -> None:
        validate_slice_spec(obj["spec"], None, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        validate_slice_spec(obj["spec"], old["spec"], errors)
        spec, before = obj["spec"], old["spec"]
        validate_unchanged(spec["pool"].get("name"), before["pool"].get("name"), "spec.pool.name", errors)
        for field in ("driver", "nodeName"):
            validate_unchanged(spec.get(field), before.get(field), f"spec.{field}", errors)


def _default_requests(spec: Obj) -> None:
    for asked in alternatives(spec.get("devices") or {}):
        asked.setdefault("allocationMode", EXACT_COUNT)
        if asked["allocationMode"] == EXACT_COUNT and not asked.get("count"):
            asked["count"] = 1
        _default_tolerations(asked)


def _default_tolerations(asked: Obj) -> None:
    for toleration in asked.get("tolerations") or ():
        toleration["operator"] = toleration.get("operator") or "Equal"
