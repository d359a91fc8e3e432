"""The claim template of a generic ephemeral volume."""

from __future__ import annotations

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_label, dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.api.selectors import validate_labels, validate_structured
from fairlead.kinds.meta import validate_annotations
from fairlead.kinds.rules import check

ACCESS_MODES = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
VOLUME_MODES = frozenset({"Block", "Filesystem"})

#: In the order of `ObjectMeta`; told by Go's names with a small first letter.
_NOT_FOR_TEMPLATES = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def validate_ephemeral(source: Obj, path: str, errors: Errors) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return errors.required(f"{path}.volumeClaimTemplate")
    _validate_metadata(template.get("metadata") or {}, f"{path}.volumeClaimTemplate.metadata", errors)
    validate_claim_spec(template.get("spec") or {}, f"{path}.volumeClaimTemplate.spec", errors)
    return None


def _validate_metadata(metadata: Obj, path: str, errors: Errors) -> None:
    """Labels and annotations are copied to the claim; anything else would be ignored, so it is refused."""
    validate_annotations(metadata.get("annotations"), errors, f"{path}.annotations")
    validate_labels(metadata.get("labels"), errors, f"{path}.labels")
    for field in _NOT_FOR_TEMPLATES:
        if metadata.get(field):
            errors.forbidden(f"{path}.{'uID' if field == 'uid' else field}", "cannot be set")


def validate_claim_spec(spec: Obj, path: str, errors: Errors, *, has_any_groups: bool = False) -> None:
    """ValidatePersistentVolumeClaimSpec; the API groups of its data sources are checked unless it `has_any_groups`."""
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
    _validate_data_sources(spec, path, errors, has_any_groups=has_any_groups)
    if attributes_class := spec.get("volumeAttributesClassName"):
        check(errors, f"{path}.volumeAttributesClassName", attributes_class, dns1123_subdomain)


def _validate_data_sources(spec: Obj, path: str, errors: Errors, *, has_any_groups: bool) -> None:
    """Each for itself, and whether both say the same."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, given in (("dataSource", source), ("dataSourceRef", reference)):
        if given is not None:
            _validate_data_source(given, f"{path}.{field}", errors, has_any_groups=has_any_groups)
    if source is None or reference is None:
        return
    # Go prints the path of the field in place of its value, which is an empty struct to everybody else.
    if reference.get("namespace"):
        errors.invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.invalid(path, {}, "must match dataSourceRef")


def _validate_data_source(source: Obj, path: str, errors: Errors, *, has_any_groups: bool) -> None:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    for field in ("name", "kind"):
        if not source.get(field):
            errors.required(f"{path}.{field}")
    if group and not has_any_groups:
        check(errors, f"{path}.apiGroup", group, dns1123_subdomain)
    elif not group and kind != "PersistentVolumeClaim":
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if namespace := source.get("namespace"):
        check(errors, f"{path}.namespace", namespace, dns1123_label)
