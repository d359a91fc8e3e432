"""Environment variables of containers: given, taken from elsewhere, or taken in bulk."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.fields import Errors
from fairlead.api.names import (
    config_map_key,
    dns1123_label,
    dns1123_subdomain,
    relaxed_env_var_name,
    without_trailing_dash,
)
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.downward import ENV_FIELDS, validate_field_reference, validate_resource_reference
from fairlead.kinds.podspec.paths import validate_no_backsteps
from fairlead.kinds.podspec.visiting import each_with_path
from fairlead.kinds.rules import check

_NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def validate_env(variables: Iterable[Obj], path: str, errors: Errors) -> None:
    for i, variable in enumerate(variables):
        if name := variable.get("name"):
            check(errors, f"{path}[{i}].name", name, relaxed_env_var_name)
        else:
            errors.required(f"{path}[{i}].name")
        if (source := variable.get("valueFrom")) is not None:
            _validate_source(source, bool(variable.get("value")), f"{path}[{i}].valueFrom", errors)


def _validate_source(source: Obj, has_value: bool, path: str, errors: Errors) -> None:
    if "fieldRef" in source:
        validate_field_reference(source["fieldRef"], ENV_FIELDS, f"{path}.fieldRef", errors)
    if "resourceFieldRef" in source:
        reference = source["resourceFieldRef"]
        validate_resource_reference(reference, f"{path}.resourceFieldRef", errors, needs_container=False)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            _validate_key(source[kind], f"{path}.{kind}", errors)
    if "fileKeyRef" in source:
        _validate_file_key(source["fileKeyRef"], f"{path}.fileKeyRef", errors)
    if not source:
        errors.invalid(path, "", _NO_SOURCE)
    elif has_value:
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")


def _validate_key(reference: Obj, path: str, errors: Errors) -> None:
    check(errors, f"{path}.name", reference.get("name", ""), dns1123_subdomain)
    if key := reference.get("key"):
        check(errors, f"{path}.key", key, config_map_key)
    else:
        errors.required(f"{path}.key")


def _validate_file_key(reference: Obj, path: str, errors: Errors) -> None:
    if key := reference.get("key"):
        check(errors, f"{path}.key", key, relaxed_env_var_name)
    else:
        errors.required(f"{path}.key")
    if volume := reference.get("volumeName"):
        check(errors, f"{path}.volumeName", volume, dns1123_label)
    else:
        errors.required(f"{path}.volumeName")
    if file := reference.get("path"):
        validate_no_backsteps(file, f"{path}.path", errors)
    else:
        errors.required(f"{path}.path")


def validate_file_volumes(spec: Obj, path: str, errors: Errors) -> None:
    """Files of variables are in volumes that init containers can write (KEP-3721)."""
    for container, here in each_with_path(spec, path):
        for i, variable in enumerate(container.get("env") or ()):
            if "fileKeyRef" in (variable.get("valueFrom") or ()):
                name = variable["valueFrom"]["fileKeyRef"].get("volumeName", "")
                _validate_empty_dir(name, spec, f"{here}.env[{i}].valueFrom.fileKeyRef.volumeName", errors)


def _validate_empty_dir(name: str, spec: Obj, path: str, errors: Errors) -> None:
    named = [volume for volume in spec.get("volumes") or () if volume.get("name", "") == name]
    if not named:
        errors.not_found(path, name)
    elif "emptyDir" not in named[-1]:
        errors.invalid(path, name, "referenced volume must be of type emptyDir")


def validate_env_from(sources: Iterable[Obj], path: str, errors: Errors) -> None:
    for i, source in enumerate(sources):
        if prefix := source.get("prefix"):
            check(errors, f"{path}[{i}].prefix", prefix, relaxed_env_var_name)
        references = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        for kind in references:
            _validate_bulk_reference(source[kind], f"{path}[{i}].{kind}", errors)
        if not references:
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(references) > 1:
            errors.invalid(path, "", "may not have more than one field specified at a time")


def _validate_bulk_reference(reference: Obj, path: str, errors: Errors) -> None:
    name = reference.get("name")
    if not name:
        return errors.required(f"{path}.name")
    for text in dns1123_subdomain(without_trailing_dash(name)):
        errors.invalid(f"{path}.name", name, text)
    return None
