"""Volumes whose files are made from objects of the API: secrets, config maps, the pod itself, tokens, trust bundles."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.fields import Errors
from fairlead.api.names import dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.api.selectors import validate_structured
from fairlead.kinds.podspec.downward import VOLUME_FIELDS, validate_field_reference, validate_resource_reference
from fairlead.kinds.podspec.paths import validate_local_path, validate_mode

_MIN_TOKEN_SECONDS = 10 * 60
_MAX_TOKEN_SECONDS = 1 << 32
_CONFLICT = "conflicting duplicate paths"


def secret(source: Obj, path: str, errors: Errors) -> None:
    _from_object(source, "secretName", path, errors)


def config_map(source: Obj, path: str, errors: Errors) -> None:
    _from_object(source, "name", path, errors)


def _from_object(source: Obj, name_field: str, path: str, errors: Errors) -> None:
    if not source.get(name_field):
        errors.required(f"{path}.{name_field}")
    validate_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    for i, item in enumerate(source.get("items") or ()):
        _validate_key_to_path(item, f"{path}.items[{i}]", errors)


def _validate_key_to_path(item: Obj, path: str, errors: Errors) -> None:
    for field in ("key", "path"):
        if not item.get(field):
            errors.required(f"{path}.{field}")
    validate_local_path(item.get("path", ""), f"{path}.path", errors)
    validate_mode(item.get("mode"), f"{path}.mode", errors)


def downward(source: Obj, path: str, errors: Errors) -> None:
    validate_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    for item in source.get("items") or ():
        _validate_downward_file(item, path, errors)


def _validate_downward_file(item: Obj, path: str, errors: Errors) -> None:
    if not item.get("path"):
        errors.required(f"{path}.path")
    validate_local_path(item.get("path", ""), f"{path}.path", errors)
    if "fieldRef" in item:
        validate_field_reference(item["fieldRef"], VOLUME_FIELDS, f"{path}.fieldRef", errors)
        if "resourceFieldRef" in item:
            errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        reference = item["resourceFieldRef"]
        validate_resource_reference(reference, f"{path}.resourceFieldRef", errors, needs_container=True)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    validate_mode(item.get("mode"), f"{path}.mode", errors)


class _Files:
    """The paths that the sources of one volume have taken; a path taken twice is a conflict."""

    def __init__(self, path: str, errors: Errors) -> None:
        self.volume_path = path
        self._errors = errors
        self._taken: set[str] = set()

    def take(self, path: str, blamed: str) -> None:
        if path in self._taken:
            self._errors.invalid(self.volume_path, blamed, _CONFLICT)
        self._taken.add(path)


def projected(source: Obj, path: str, errors: Errors) -> None:
    validate_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    files = _Files(path, errors)
    for i, projection in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{i}]"
        found = [kind for kind in _PROJECTIONS if kind in projection]
        for kind in found:
            _PROJECTIONS[kind](projection[kind], f"{here}.{kind}", files, errors)
        if len(found) > 1:
            errors.forbidden(here, "may not specify more than 1 volume type per source")


def _project_object(source: Obj, path: str, files: _Files, errors: Errors) -> None:
    name = source.get("name", "")
    if not name:
        errors.required(f"{path}.name")
    for i, item in enumerate(source.get("items") or ()):
        _validate_key_to_path(item, f"{path}.items[{i}]", errors)
        if item.get("path"):
            files.take(item["path"], name)


def _project_downward(source: Obj, path: str, files: _Files, errors: Errors) -> None:
    for item in source.get("items") or ():
        _validate_downward_file(item, path, errors)
        if item.get("path"):
            files.take(item["path"], item["path"])


def _project_token(source: Obj, path: str, files: _Files, errors: Errors) -> None:
    seconds = source.get("expirationSeconds", 0)
    if seconds < _MIN_TOKEN_SECONDS:
        errors.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MAX_TOKEN_SECONDS:
        errors.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    # Upstream reports the token's path at the volume.
    if source.get("path"):
        validate_local_path(source["path"], f"{files.volume_path}.path", errors)
    else:
        errors.required(f"{files.volume_path}.path")


def _project_trust_bundle(source: Obj, path: str, files: _Files, errors: Errors) -> None:
    name, signer = source.get("name"), source.get("signerName")
    if name is not None and signer is not None:
        errors.invalid(path, source, "only one of name and signerName may be used")
    elif name is not None:
        _validate_bundle_name(name, path, errors)
        if "labelSelector" in source:
            errors.invalid(
                f"{path}.labelSelector", source["labelSelector"], "labelSelector must be unset if name is specified"
            )
    elif signer is not None:
        if not signer:
            errors.required(f"{path}.signerName", "must be a valid signer name")
        validate_structured(source.get("labelSelector"), errors, f"{path}.labelSelector")
    else:
        errors.required(path, "either name or signerName must be specified")
    if not source.get("path"):
        errors.required(f"{path}.path")
    validate_local_path(source.get("path", ""), f"{path}.path", errors)
    files.take(source.get("path", ""), source.get("path", ""))


def _validate_bundle_name(name: str, path: str, errors: Errors) -> None:
    if not name:
        errors.required(f"{path}.name", "must be a valid object name")
    if ":" not in name:
        for text in dns1123_subdomain(name):
            errors.invalid(f"{path}.name", name, f"not a valid clustertrustbundlename: {text}")


_PROJECTIONS: dict[str, Callable[[Obj, str, _Files, Errors], None]] = {
    "secret": _project_object,
    "configMap": _project_object,
    "downwardAPI": _project_downward,
    "serviceAccountToken": _project_token,
    "clusterTrustBundle": _project_trust_bundle,
}
