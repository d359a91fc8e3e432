"""APIServices: which server answers for a version of a group.

Source: kube-aggregator, pkg/apis/apiregistration (validation, v1 defaults) and pkg/registry/apiservice (1.36).
"""

from __future__ import annotations

from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.kinds.rules import check
from fairlead.kinds.strategy import NOT_OF_STATUS, Strategy
from fairlead.kinds.webhook_clients import DEFAULT_PORT
from fairlead.runtime.clock import timestamp

_MOST_GROUP_PRIORITY: Final = 20_000
_MOST_VERSION_PRIORITY: Final = 1_000
_STATUSES: Final = ("True", "False", "Unknown")


def local_condition(moment: str) -> Obj:
    """What is said of a version of a group that this server answers for."""
    return {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": moment,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


class APIServiceStrategy(Strategy):
    has_status = True
    kept_by_status = NOT_OF_STATUS
    allows_unconditional_update = False

    def default(self, obj: Obj) -> None:
        service = obj["spec"].get("service")
        if service is not None:
            service.setdefault("port", DEFAULT_PORT)

    def prepare_create(self, obj: Obj) -> None:
        if "service" not in obj["spec"]:
            obj["status"] = {"conditions": [local_condition(timestamp())]}

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj["spec"]
        group, version = spec.get("group", ""), spec.get("version", "")
        _validate_name(metadata(obj).get("name", ""), f"{version}.{group}", errors)
        if group:
            check(errors, "spec.group", group, names.dns1123_subdomain)
        elif version != "v1":
            errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
        check(errors, "spec.version", version, names.dns1035_label)
        _validate_priority(spec, "groupPriorityMinimum", _MOST_GROUP_PRIORITY, errors)
        _validate_priority(spec, "versionPriority", _MOST_VERSION_PRIORITY, errors)
        if "service" in spec:
            _validate_remote(spec, errors)
        else:
            _validate_local(spec, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
            if condition.get("status") not in _STATUSES:
                errors.not_supported(f"status.conditions[{index}].status", condition.get("status", ""), _STATUSES)


def _validate_name(name: str, required: str, errors: Errors) -> None:
    if name != required and not names.path_segment_name(name):
        errors.invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{required}"')


def _validate_priority(spec: Obj, key: str, most: int, errors: Errors) -> None:
    priority = spec.get(key, 0)
    if not 0 < priority <= most:
        errors.invalid(f"spec.{key}", priority, f"must be positive and less than {most}")


def _validate_local(spec: Obj, errors: Errors) -> None:
    if bundle := spec.get("caBundle"):
        text = "local APIServices may not have a caBundle"
        errors.invalid("spec.caBundle", f"{_decoded_length(bundle)} bytes", text)
    if spec.get("insecureSkipTLSVerify"):
        errors.invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")


def _validate_remote(spec: Obj, errors: Errors) -> None:
    for part in ("namespace", "name"):
        if not spec["service"].get(part):
            errors.required(f"spec.service.{part}")
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        errors.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _decoded_length(text: str) -> int:
    """How many bytes base64 stands for."""
    return len(text) * 3 // 4 - text.count("=")
