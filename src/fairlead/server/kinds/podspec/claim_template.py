"""The claim template of a generic ephemeral volume."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.names import annotation_key, dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.api.selectors import validate_labels, validate_structured
from fairlead.server.kinds.rules import check

ACCESS_MODES = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
VOLUME_MODES = frozenset({"Block", "Filesystem"})


def validate_ephemeral(source: Obj, path: str, errors: Errors) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return errors.required(f"{path}.volumeClaimTemplate")
    _validate_metadata(template.get("metadata") or {}, f"{path}.volumeClaimTemplate.metadata", errors)
    validate_claim_spec(template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec", errors)
    return None


def _validate_metadata(metadata: Obj, path: str, errors: Errors) -> None:
    """Labels and annotations are copied to the claim; anything else would be ignored, so it is refused."""
    for key in metadata.get("annotations") or ():
        check(errors, f"{path}.annotations", key, annotation_key)
    validate_labels(metadata.get("labels"), errors, f"{path}.labels")
    for field in metadata:
        if field not in ("annotations", "labels"):
            errors.forbidden(f"{path}.{field}", "cannot be set")


def validate_claim_spec(spec: Obj, path: str, errors: Errors) -> None:
    """ValidatePersistentVolumeClaimSpec."""
    modes = spec.get("accessModes") or ()
    if not modes:
        errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    validate_structured(spec.get("selector"), errors, f"{path}.selector")
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.not_supported(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode != "ReadWriteOncePod" and mode in ACCESS_MODES for mode in modes):
        errors.forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        errors.required(f"{path}.resources[storage]")
    elif parse(storage).nanos <= 0:
        errors.invalid(f"{path}.resources[storage]", storage, "must be greater than zero")
    if storage_class := spec.get("storageClassName"):
        check(errors, f"{path}.storageClassName", storage_class, dns1123_subdomain)
    volume_mode = spec.get("volumeMode")
    if volume_mode is not None and volume_mode not in VOLUME_MODES:
        errors.not_supported(f"{path}.volumeMode", volume_mode, VOLUME_MODES)
