"""What CSI drivers say of themselves: CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment, VolumeAttributesClass.

Sources: pkg/apis/storage/{v1/defaults,validation}, `ValidateCSIDriverName` of pkg/apis/core/validation (1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.quantity import parse
from fairlead.api.selectors import validate_structured
from fairlead.kinds.persistent_volumes import validate_inline_spec
from fairlead.kinds.rules import (
    IMMUTABLE,
    NOT_NEGATIVE,
    check,
    is_same,
    selector_form,
    validate_driver_name,
    validate_unchanged,
)
from fairlead.kinds.strategy import NOT_OF_STATUS, MetaCheck, Strategy

LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")

#: A field behind a gate (VolumeLimitScaling) that is off in 1.36.
_GATED: Final = "preventPodSchedulingIfMissing"
_NODE_ID_MAX: Final = 256
_LEAST_UPDATE_SECONDS: Final = 10
_TOKEN_SECONDS: Final = (600, 1 << 32)
_PARAMETERS_MAX: Final = 512
_PARAMETERS_BYTES: Final = 256 * 1024
_ATTACHMENT_BYTES: Final = 256 * 1024
_ERROR_MESSAGE_MAX: Final = 1024
_CODE_MAX: Final = 2**31 - 1


class CSIDriverStrategy(Strategy):
    allows_unconditional_update = False

    def default(self, obj: Obj) -> None:
        spec = obj["spec"]
        spec.setdefault("attachRequired", True)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        for flag in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            spec.setdefault(flag, False)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def prepare_create(self, obj: Obj) -> None:
        obj["spec"].pop(_GATED, None)

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        """A new driver has no generation: what is counted are the changes of its spec."""
        if _GATED not in old["spec"]:
            obj["spec"].pop(_GATED, None)
        if not is_same(obj["spec"], old["spec"]):
            metadata(obj)["generation"] = metadata(old).get("generation", 0) + 1

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        if spec["fsGroupPolicy"] not in GROUP_POLICIES:
            errors.not_supported("spec.fsGroupPolicy", spec["fsGroupPolicy"], GROUP_POLICIES)
        _validate_token_requests(spec.get("tokenRequests") or (), errors)
        for mode in spec["volumeLifecycleModes"]:
            if mode not in LIFECYCLE_MODES:
                errors.not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES, sort=False)
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < _LEAST_UPDATE_SECONDS:
            path = "spec.nodeAllocatableUpdatePeriodSeconds"
            errors.invalid(path, period, "must be greater than or equal to 10 seconds")
        in_secrets = spec.get("serviceAccountTokenInSecrets")
        if in_secrets is not None and not spec.get("tokenRequests"):
            text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.invalid("spec.serviceAccountTokenInSecrets", in_secrets, text)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        for field, path in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            validate_unchanged(obj["spec"][field], old["spec"].get(field), f"spec.{path}", errors)


def _validate_token_requests(requests: list[Obj] | tuple[Obj, ...], errors: Errors) -> None:
    least, most = _TOKEN_SECONDS
    seen: set[str] = set()
    for index, request in enumerate(requests):
        path, audience = f"spec.tokenRequests[{index}]", request.get("audience", "")
        if audience in seen:
            errors.duplicate(f"{path}.audience", audience)
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < least:
            errors.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > most:
            errors.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


class CSINodeStrategy(Strategy):
    allows_unconditional_update = False
    meta_checks = (MetaCheck.WHOLE,)

    def validate(self, obj: Obj, errors: Errors) -> None:
        seen: set[str] = set()
        for index, driver in enumerate(obj["spec"].get("drivers") or ()):
            path = f"spec.drivers[{index}]"
            _validate_driver(driver, path, errors)
            if driver["name"] in seen:
                errors.duplicate(f"{path}.name", driver["name"])
            seen.add(driver["name"])
            _validate_topology_keys(driver.get("topologyKeys") or (), path, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        before = {driver["name"]: driver for driver in old["spec"].get("drivers") or ()}
        for driver in obj["spec"].get("drivers") or ():
            form = _driver_form(driver)
            if driver["name"] in before and form != _driver_form(before[driver["name"]]):
                errors.invalid("spec.drivers", form, IMMUTABLE)


def _validate_driver(driver: Obj, path: str, errors: Errors) -> None:
    validate_driver_name(driver["name"], f"{path}.name", errors)
    if not driver["nodeID"]:
        errors.required(f"{path}.nodeID")
    elif len(driver["nodeID"].encode()) > _NODE_ID_MAX:
        errors.invalid(f"{path}.nodeID", driver["nodeID"], f"must be {_NODE_ID_MAX} characters or less")
    count = (driver.get("allocatable") or {}).get("count")
    if count is not None and count < 0:
        errors.invalid(f"{path}.allocatable.count", count, NOT_NEGATIVE)


def _validate_topology_keys(keys: list[str] | tuple[str, ...], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for key in keys:
        if not key:
            errors.required(path, key)
        if key in seen:
            errors.duplicate(path, key)
        seen.add(key)
        check(errors, path, key, names.qualified_name)


def _driver_form(driver: Obj) -> Obj:
    """As Go prints it, without the count of volumes, which may change."""
    keys = driver.get("topologyKeys") or None
    return {"Name": driver["name"], "NodeID": driver["nodeID"], "TopologyKeys": keys, "Allocatable": None}


class CSIStorageCapacityStrategy(Strategy):
    allows_unconditional_update = False
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)

    def validate(self, obj: Obj, errors: Errors) -> None:
        if obj.get("nodeTopology") is not None:
            validate_structured(obj["nodeTopology"], errors, "nodeTopology")
        check(errors, "storageClassName", obj["storageClassName"], names.dns1123_subdomain)
        if (capacity := obj.get("capacity")) is not None and parse(capacity).nanos < 0:
            errors.invalid("capacity", capacity, NOT_NEGATIVE)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        topology, before = obj.get("nodeTopology"), old.get("nodeTopology")
        validate_unchanged(topology, before, "nodeTopology", errors, selector_form(topology))
        validate_unchanged(obj["storageClassName"], old["storageClassName"], "storageClassName", errors)


class VolumeAttachmentStrategy(Strategy):
    has_status = True
    kept_by_status = NOT_OF_STATUS
    allows_unconditional_update = False
    meta_checks = (MetaCheck.WHOLE, MetaCheck.WHOLE)

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        _validate_attachment(obj, errors)
        validate_driver_name(spec["attacher"], "spec.attacher", errors)
        if volume := spec["source"].get("persistentVolumeName"):
            check(errors, "spec.source.persistentVolumeName", volume, names.dns1123_subdomain)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Upstream validates the new object and then the change, so every error is reported twice."""
        _validate_attachment(obj, errors)
        _validate_attachment(obj, errors)
        if not is_same(obj["spec"], old["spec"]):
            spec = obj["spec"]
            source = {
                "PersistentVolumeName": spec["source"].get("persistentVolumeName"),
                "InlineVolumeSpec": spec["source"].get("inlineVolumeSpec"),
            }
            form = {"Attacher": spec["attacher"], "Source": source, "NodeName": spec["nodeName"]}
            errors.invalid("spec", form, IMMUTABLE)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        _validate_attachment_status(obj.get("status") or {}, errors)


def _validate_attachment(obj: Obj, errors: Errors) -> None:
    spec = obj["spec"]
    if not spec["attacher"]:
        errors.required("spec.attacher")
    _validate_attached(spec["source"], errors)
    check(errors, "spec.nodeName", spec["nodeName"], names.dns1123_subdomain)
    _validate_attachment_status(obj.get("status") or {}, errors)


def _validate_attached(source: Obj, errors: Errors) -> None:
    path, text = "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if volume is None and inline is None:
        errors.required(path, text)
    elif volume is not None and inline is not None:
        errors.forbidden(path, text)
    elif volume == "":
        errors.required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")
    elif inline is not None:
        validate_inline_spec(inline, f"{path}.inlineVolumeSpec", errors)


def _validate_attachment_status(status: Obj, errors: Errors) -> None:
    texts = status.get("attachmentMetadata") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in texts.items()) > _ATTACHMENT_BYTES:
        errors.too_long("status.attachmentMetadata", _ATTACHMENT_BYTES)
    for field in ("attachError", "detachError"):
        error = status.get(field) or {}
        if len((error.get("message") or "").encode()) > _ERROR_MESSAGE_MAX:
            errors.too_long(f"status.{field}.message", _ATTACHMENT_BYTES)
        if (code := error.get("errorCode")) is not None:
            check(errors, f"status.{field}.errorCode", code, lambda number: names.in_range(number, 0, _CODE_MAX))


class VolumeAttributesClassStrategy(Strategy):
    def validate(self, obj: Obj, errors: Errors) -> None:
        driver, parameters = obj["driverName"], obj.get("parameters") or {}
        if not driver:
            errors.required("driverName", driver)
        else:
            check(errors, "driverName", driver.lower(), names.qualified_name)
        validate_parameters(parameters, errors)
        if not parameters:
            errors.required("parameters", "must contain at least one key/value pair")

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        if obj["driverName"] != old["driverName"]:
            errors.forbidden("driverName", "updates to driverName are forbidden.")
        if not is_same(obj.get("parameters"), old.get("parameters")):
            errors.forbidden("parameters", "updates to parameters are forbidden.")
        self.validate(obj, errors)


def validate_parameters(parameters: Mapping[str, str], errors: Errors) -> None:
    """What a class tells its driver."""
    if len(parameters) > _PARAMETERS_MAX:
        errors.too_long("parameters", _PARAMETERS_MAX)
        return
    if "" in parameters:
        errors.invalid("parameters", "", "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _PARAMETERS_BYTES:
        errors.too_long("parameters", _PARAMETERS_BYTES)
