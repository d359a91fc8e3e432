"""PersistentVolumeClaim and StorageClass: defaults and rules.

Sources: `ValidatePersistentVolumeClaim*` of pkg/apis/core/validation, pkg/api/persistentvolumeclaim, pkg/apis/storage
(1.36). Volumes themselves are in `persistent_volumes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.api import names
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.podresources import is_native
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.api.volumes import CLASS_ANNOTATION, class_annotation
from fairlead.kinds.podspec.claim_template import validate_claim_spec
from fairlead.kinds.podspec.differences import difference
from fairlead.kinds.podspec.warnings import claim_warnings
from fairlead.kinds.podspec_form import struct_form
from fairlead.kinds.resource_names import in_order, round_up, validate_basic_amount
from fairlead.kinds.rules import check, validate_unchanged, validate_unique
from fairlead.kinds.storage_drivers import validate_parameters
from fairlead.kinds.strategy import MetaCheck, Strategy

_RESIZE_STATES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
)
BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_CLAIM_IS_FIXED: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
#: What the field `dataSource` of a claim may be: (API group, kind).
_KNOWN_SOURCES: Final = frozenset({("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")})


class PersistentVolumeClaimStrategy(Strategy):
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE, MetaCheck.WHOLE)
    returns_deleted = True
    has_status = True

    def default(self, obj: Obj) -> None:
        spec, status = obj["spec"], obj["status"]
        spec.setdefault("volumeMode", "Filesystem")
        status.setdefault("phase", "Pending")
        for amounts in (spec["resources"].get("requests"), spec["resources"].get("limits"), status.get("capacity")):
            round_up(amounts)
        round_up(status.get("allocatedResources"))

    def prepare_create(self, obj: Obj) -> None:
        obj["status"] = {"phase": "Pending"}
        _settle_data_sources(obj["spec"], {})

    def prepare_update(self, obj: Obj, old: Obj) -> None:
        _settle_data_sources(obj["spec"], old["spec"])

    def validate(self, obj: Obj, errors: Errors) -> None:
        validate_claim_spec(obj["spec"], "spec", errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        """Upstream validates the new object and then the change, so every error is reported twice."""
        spec, was = obj["spec"], old["spec"]
        had_groups = any("apiGroup" in (was.get(field) or {}) for field in ("dataSource", "dataSourceRef"))
        for _ in range(2):
            validate_claim_spec(spec, "spec", errors, has_any_groups=had_groups)
        annotation, was_annotated = (class_annotation(claim) for claim in (obj, old))
        if (annotation or "") != (was_annotated or "") and not _moves_to_the_field(obj, old):
            errors.invalid(f"metadata.annotations.{CLASS_ANNOTATION}", annotation or "", "field is immutable")
        before, after = _without_free_changes(obj, old)
        if before != after:
            forms = (struct_form("PersistentVolumeClaimSpec", each) for each in (before, after))
            errors.forbidden("spec", f"{_CLAIM_IS_FIXED}\n{difference(*forms)}")
        if _storage(spec) < _storage(was) and _storage(spec) <= _capacity(old):
            errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        validate_unchanged(spec.get("volumeMode"), was.get("volumeMode"), "volumeMode", errors)
        _validate_attributes_class_update(obj, old, errors)

    def validate_status(self, obj: Obj, old: Obj, errors: Errors) -> None:
        if not obj["spec"].get("accessModes"):
            errors.required("Spec.accessModes")
        status = obj["status"]
        for name, amount in in_order(status.get("capacity")):
            validate_basic_amount(amount, f"status.capacity[{name}]", errors)
        for name, state in in_order(status.get("allocatedResourceStatuses")):
            _validate_claimed_name(name, "status.allocatedResourceStatuses", errors)
            if state not in _RESIZE_STATES:
                errors.not_supported("status.allocatedResourceStatuses", name, _RESIZE_STATES)
        for name, amount in in_order(status.get("allocatedResources")):
            if _validate_claimed_name(name, "status.allocatedResources", errors):
                validate_basic_amount(amount, f"status.allocatedResources[{name}]", errors)

    def warnings(self, obj: Obj, old: Obj | None) -> list[str]:
        warnings = []
        if CLASS_ANNOTATION in (metadata(obj).get("annotations") or {}):
            warnings.append(
                f'metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use "storageClassName" attribute '
                "instead"
            )
        return warnings + claim_warnings(obj["spec"], "spec")


def _validate_claimed_name(name: str, path: str, errors: Errors) -> bool:
    """Of Kubernetes' own resources only storage is claimed."""
    before = errors.added
    check(errors, path, name, names.qualified_name)
    if errors.added == before and is_native(name) and name != "storage":
        errors.not_supported(path, name, ("storage",))
    return errors.added == before


def _settle_data_sources(spec: Obj, was: Obj) -> None:
    """Only what can be is a source; then the old and the new field say the same (pkg/api/persistentvolumeclaim).

    The old field has always ignored what it does not know, and sources in other namespaces (the gate
    CrossNamespaceVolumeDataSource) are off. What a claim has already, it keeps.
    """
    if was.get("dataSourceRef") is None and (spec.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]
    is_in_use = was.get("dataSource") is not None or was.get("dataSourceRef") is not None
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None and not is_in_use and not _is_known_source(source):
        del spec["dataSource"]
        return
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _is_known_source(source: Obj) -> bool:
    return (source.get("apiGroup") or "", source.get("kind")) in _KNOWN_SOURCES


def _moves_to_the_field(obj: Obj, old: Obj) -> bool:
    """The storage class, once an annotation, becomes the field of today."""
    before = class_annotation(old)
    return (
        before is not None
        and old["spec"].get("storageClassName") is None
        and obj["spec"].get("storageClassName") == before
        and class_annotation(obj) in (None, before)
    )


def _without_free_changes(obj: Obj, old: Obj) -> tuple[Obj, Obj]:
    """The specs before and after, as if nothing had changed of what this update may change."""
    before, after = dict(old["spec"]), dict(obj["spec"])
    if not before.get("volumeName") and after.get("volumeName"):
        before["volumeName"] = after["volumeName"]
    if before.get("storageClassName") is None and class_annotation(old) in (None, after.get("storageClassName")):
        after.pop("storageClassName", None)
    if (obj.get("status") or {}).get("phase") == "Bound":
        _keep(after, before, "volumeAttributesClassName")
        requests = dict(after["resources"].get("requests") or {})
        _keep(requests, before["resources"].get("requests") or {}, "storage")
        after["resources"] = after["resources"] | {"requests": requests}
    return before, after


def _keep(after: Obj, before: Obj, field: str) -> None:
    if field in before:
        after[field] = before[field]
    else:
        after.pop(field, None)


def _storage(spec: Obj) -> Quantity:
    return parse((spec["resources"].get("requests") or {}).get("storage", "0"))


def _capacity(obj: Obj) -> Quantity:
    text = ((obj.get("status") or {}).get("capacity") or {}).get("storage")
    return parse(text) if text else ZERO


def _validate_attributes_class_update(obj: Obj, old: Obj, errors: Errors) -> None:
    wanted = obj["spec"].get("volumeAttributesClassName")
    is_applied = (old.get("status") or {}).get("currentVolumeAttributesClassName") is not None
    if is_applied and not wanted and wanted != old["spec"].get("volumeAttributesClassName"):
        what = "nil" if wanted is None else "empty string"
        errors.forbidden(
            "spec.volumeAttributesClassName",
            f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil",
        )


class StorageClassStrategy(Strategy):
    meta_checks = (MetaCheck.WHOLE, MetaCheck.CHANGE)

    def default(self, obj: Obj) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Obj, errors: Errors) -> None:
        provisioner = obj["provisioner"]
        if not provisioner:
            errors.required("provisioner", provisioner)
        else:
            check(errors, "provisioner", provisioner.lower(), names.qualified_name)
        if obj["reclaimPolicy"] not in ("", "Delete", "Retain"):
            errors.not_supported("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain"))
        if obj["volumeBindingMode"] not in BINDING_MODES:
            errors.not_supported("volumeBindingMode", obj["volumeBindingMode"], BINDING_MODES)
        validate_parameters(obj.get("parameters") or {}, errors)
        _validate_topologies(obj.get("allowedTopologies") or (), errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        self.validate(obj, errors)
        if (obj.get("parameters") or {}) != (old.get("parameters") or {}):
            errors.forbidden("parameters", "updates to parameters are forbidden.")
        for field in ("provisioner", "reclaimPolicy"):
            if obj[field] != old[field]:
                errors.forbidden(field, f"updates to {field} are forbidden.")
        validate_unchanged(obj["volumeBindingMode"], old["volumeBindingMode"], "volumeBindingMode", errors)


def _validate_topologies(terms: Iterable[Obj], errors: Errors) -> None:
    """Terms that ask for the same are told of once each, though Kubernetes repeats it for each that came before.

    It compares them with as many empty ones, too: a term that asks for nothing always came before.
    """
    seen: set[frozenset[tuple[str, frozenset[str]]]] = {frozenset()}
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        wanted = _validate_topology(term.get("matchLabelExpressions") or (), path, errors)
        if wanted in seen:
            errors.duplicate(path, "")
        seen.add(wanted)


def _validate_topology(requirements: Iterable[Obj], path: str, errors: Errors) -> frozenset[tuple[str, frozenset[str]]]:
    wanted: dict[str, frozenset[str]] = {}
    for index, requirement in enumerate(requirements):
        here, key, values = f"{path}[{index}]", requirement["key"], requirement.get("values") or []
        if not values:
            errors.required(f"{here}.values")
        validate_unique(values, f"{here}.values", errors)
        check(errors, f"{here}.key", key, names.qualified_name)
        if key in wanted:
            errors.duplicate(f"{here}.key", key)
        wanted[key] = frozenset(values)
    return frozenset(wanted.items())
