"""Validation of CustomResourceDefinitions, with upstream's error texts.

Paths and values are those of the internal form (`internal.py`). Source: apiextensions-apiserver 1.36,
pkg/apis/apiextensions/validation/validation.go, with the options that hold for a new object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.api import names
from fairlead.api.fields import Errors, validate_choice
from fairlead.api.objects import Obj, name_of
from fairlead.golang.patterns import fit_together
from fairlead.server.crds import approval, internal
from fairlead.server.crds.conversion import check_bundle, check_conversion
from fairlead.server.crds.defaults import ask_defaults, check_defaults
from fairlead.server.crds.paths import PathError, field_at
from fairlead.server.crds.rule_checks import MOST_CHARACTERS, are_too_long, check_rules
from fairlead.server.crds.schema import each_schema
from fairlead.server.crds.schema_rules import check_schema, unsupported_in
from fairlead.server.crds.structural import check_structural

#: The schemas that the versions had until now, by their names.
_Schemas = Mapping[Any, Obj | None]

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE = 8
#: What may stand at the root of a schema whose status is validated on its own.
_AT_ROOT = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations"
)


def _check_status(crd: Obj, errors: Errors) -> None:
    spec, status = crd["spec"], crd.get("status") or {}
    check_names(status.get("acceptedNames") or {}, "status.acceptedNames", errors)
    _check_stored_versions(status.get("storedVersions"), spec.get("versions") or [], errors)


def check_create(crd: Obj, errors: Errors) -> None:
    spec = crd["spec"]
    if name_of(crd) != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        errors.invalid("metadata.name", name_of(crd), 'must be spec.names.plural+"."+spec.group')
    _check_spec(spec, {}, errors)
    _check_status(crd, errors)
    approval.check(crd, None, errors)
    _check_preserve(spec, errors)


def check_update(crd: Obj, old: Obj, errors: Errors, *, is_established: bool) -> None:
    spec, before = crd["spec"], old["spec"]
    fixed: list[tuple[str, Any, Any]] = []
    if is_established:
        fixed.append(("scope", spec.get("scope"), before.get("scope")))
        fixed.append(("names.kind", spec["names"].get("kind"), before["names"].get("kind")))
    fixed.append(("group", spec.get("group"), before.get("group")))
    fixed.append(("names.plural", spec["names"].get("plural"), before["names"].get("plural")))
    _check_spec(spec, before, errors)
    if is_established:
        check_bundle(spec, before, errors)
    for field, value, old_value in fixed:
        if value != old_value:
            errors.invalid(f"spec.{field}", value, "field is immutable")
    _check_status(crd, errors)
    approval.check(crd, old, errors)
    if not before.get("preserveUnknownFields"):
        _check_preserve(spec, errors)


def check_names(spec_names: Obj, path: str, errors: Errors) -> None:
    """Validate the names of the kind, which appear in URLs and discovery."""
    for field in ("plural", "singular"):
        if (value := spec_names.get(field)) and (wrong := names.dns1035_label(value)):
            errors.invalid(f"{path}.{field}", value, ",".join(wrong))
    for field in ("kind", "listKind"):
        if (value := spec_names.get(field)) and (wrong := names.dns1035_label(value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            errors.invalid(f"{path}.{field}", value, text)
    _check_labels(spec_names.get("shortNames"), f"{path}.shortNames", errors)
    if spec_names.get("kind") and spec_names["kind"] == spec_names.get("listKind"):
        errors.invalid(f"{path}.listKind", spec_names["listKind"], "kind and listKind may not be the same")
    _check_labels(spec_names.get("categories"), f"{path}.categories", errors)


def _check_labels(values: list[str] | None, path: str, errors: Errors) -> None:
    for index, value in enumerate(values or ()):
        if wrong := names.dns1035_label(value):
            errors.invalid(f"{path}[{index}]", value, ",".join(wrong))


def _check_spec(spec: Obj, before: Obj, errors: Errors) -> None:
    known = {version.get("name"): _schema(version) for version in before.get("versions") or ()}
    _check_group(spec.get("group", ""), errors)
    validate_choice(spec.get("scope", ""), ("Cluster", "Namespaced"), "spec.scope", errors)
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            errors.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    if spec.get("preserveUnknownFields") and any(
        "default" in node for v in versions for node in each_schema(_schema(v))
    ):
        errors.invalid("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
    shared = internal.shared(versions)
    for index, version in enumerate(versions):
        _check_version(version, shared, known, f"spec.versions[{index}]", errors)
    _check_set_of_versions(spec.get("versions"), errors)
    for field in ("plural", "singular", "kind", "listKind"):
        if not spec["names"].get(field):
            errors.required(f"spec.names.{field}")
    check_names(spec["names"], "spec.names", errors)
    if versions:
        _check_shared(versions, shared, known, errors)
    check_conversion(spec, errors)


def _check_group(group: str, errors: Errors) -> None:
    if not group:
        errors.required("spec.group")
    elif wrong := names.dns1123_subdomain(group):
        errors.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _check_set_of_versions(versions: list[Obj] | None, errors: Errors) -> None:
    called = [version.get("name", "") for version in versions or ()]
    if len(set(called)) != len(called):
        errors.invalid("spec.versions", internal.spelled_versions(versions), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions or ()) != 1:
        text = "must have exactly one version marked as storage version"
        errors.invalid("spec.versions", internal.spelled_versions(versions), text)
    if called and called[0] and (wrong := names.dns1035_label(called[0])):
        errors.invalid("spec.version", called[0], ",".join(wrong))


def _check_version(version: Obj, shared: frozenset[str], known: _Schemas, path: str, errors: Errors) -> None:
    """What a version says on its own; what all versions say alike is checked once (`_check_shared`)."""
    if wrong := names.dns1035_label(version.get("name", "")):
        errors.invalid(f"{path}.name", version.get("name", ""), ",".join(wrong))
    _check_deprecation(version, path, errors)
    own = {field: value for field, value in version.items() if field not in shared}
    _check_content(own, version, known.get(version.get("name")), path, f"{path}.schema", errors)
    # Fields are looked up in the schema that stands beside them, and not where all versions share one.
    if own.get(internal.SELECTABLE) and not (own.get(internal.SCHEMA) or {}).get("openAPIV3Schema"):
        text = "may only be set when `version.schema.openAPIV3Schema` is not included"
        errors.invalid(f"{path}.selectableFields", "", text)


def _check_shared(versions: list[Obj], shared: frozenset[str], known: _Schemas, errors: Errors) -> None:
    first = versions[0]
    shared_fields = {field: first.get(field) for field in shared}
    has_status = {
        "subresources": {"status": next((status for status in map(_status, versions) if status is not None), None)}
    }
    _check_content(shared_fields, first | has_status, known.get(first.get("name")), "spec", "spec.validation", errors)
    if shared_fields.get(internal.SELECTABLE) and not shared_fields.get(internal.SCHEMA):
        errors.invalid("spec.selectableFields", "", "may only be set when validations.schema is included")


def _check_content(content: Obj, version: Obj, known: Obj | None, path: str, schema_path: str, errors: Errors) -> None:
    if schema := (content.get("schema") or {}).get("openAPIV3Schema"):
        _check_schema(schema, known, f"{schema_path}.openAPIV3Schema", _status(version) is not None, errors)
    _check_scale((content.get("subresources") or {}).get("scale"), f"{path}.subresources.scale", errors)
    for index, column in enumerate(content.get("additionalPrinterColumns") or ()):
        _check_column(column, f"{path}.additionalPrinterColumns[{index}]", errors)
    if (fields := content.get("selectableFields")) and content.get("schema"):
        _check_selectable(fields, _schema(version), f"{path}.selectableFields", errors)


def _check_deprecation(version: Obj, path: str, errors: Errors) -> None:
    text = version.get("deprecationWarning")
    if text is None:
        return
    where = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        errors.invalid(where, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        errors.invalid(where, text, "must be <= 256 characters long")
    if not text:
        errors.invalid(where, text, "must not be an empty string")
    index = next((at for at, char in enumerate(text) if not char.isprintable()), None)
    if index is not None:
        at = len(text[:index].encode())
        detail = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
        errors.invalid(where, text, detail)


def _check_schema(schema: Obj, known: Obj | None, path: str, has_status: bool, errors: Errors) -> None:
    found = Errors()
    if has_status:
        _check_root(schema, path, found)
    if schema.get("nullable"):
        found.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if not fit_together(node["pattern"] for node in each_schema(schema) if node.get("pattern")):
        errors.invalid(path, "", "patterns are too large together")
        return
    if are_too_long([schema]):
        errors.invalid(path, "", f"expressions of rules have more than {MOST_CHARACTERS} characters together")
        return
    unsupported = unsupported_in(schema)
    if not unsupported:
        structural = check_structural(schema, path)
        found.extend(structural)
        if not structural:
            check_defaults(schema, path, found)
    check_schema(schema, path, unsupported, found)
    if not unsupported and not found:
        check_rules(schema, path, found, is_known=schema == known)
    if not unsupported and not found and schema != known:
        ask_defaults(schema, path, found)
    if unsupported and not found:  # nothing else looks at it
        found.invalid(path, "", "OpenAPIV3Schema 'schema' is not supported")
    errors.extend(found)


def _check_root(schema: Obj, path: str, errors: Errors) -> None:
    """With a status subresource, `properties.status` alone must say all there is to say about the status."""
    given_keys = internal.set_keywords(schema)
    is_early = (
        any(name not in _AT_ROOT.split() for name in given_keys[: given_keys.index("Type")])
        if "Type" in given_keys
        else False
    )
    if not is_early and schema.get("type") not in (None, "", "object"):
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        errors.invalid(f"{path}.type", schema["type"], text)
        return
    if any(name not in _AT_ROOT.split() for name in given_keys):
        text = f"only [{_AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
        errors.invalid(path, internal.spelled_schema(schema), text)


def _check_scale(scale: Obj | None, path: str, errors: Errors) -> None:
    if scale is None:
        return
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(field, "")
        if not value:
            errors.required(f"{path}.{field}")
        elif not _check_simple_path(value, f"{path}.{field}", errors) and not value.startswith(root):
            errors.invalid(f"{path}.{field}", value, f"should be a json path under {root[:-1]}")
    selector = scale.get("labelSelectorPath")
    where = f"{path}.labelSelectorPath"
    if selector and not _check_simple_path(selector, where, errors) and not selector.startswith((".spec.", ".status.")):
        errors.invalid(where, selector, "should be a json path under either .spec or .status")


def _check_simple_path(value: str, path: str, errors: Errors) -> bool:
    """Add an error and return True unless the path starts as paths must."""
    if not value.startswith("."):
        errors.invalid(path, value, "must be a simple json path starting with .")
        return True
    return False


def _check_column(column: Obj, path: str, errors: Errors) -> None:
    if not column.get("name"):
        errors.required(f"{path}.name")
    choices = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("type"):
        errors.required(f"{path}.type", choices)
    elif column["type"] not in _COLUMN_TYPES:
        errors.invalid(f"{path}.type", column["type"], choices)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        errors.invalid(f"{path}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.get("jsonPath"):
        errors.required(f"{path}.JSONPath")
    else:
        _check_simple_path(column["jsonPath"], f"{path}.JSONPath", errors)


def _check_selectable(fields: list[Obj], schema: Obj | None, path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        value, where = field.get("jsonPath", ""), f"{path}[{index}].jsonPath"
        if not value:
            errors.required(where)
            continue
        try:
            keys, type_ = field_at(value, schema or {}, takes_brackets=False)
        except PathError as error:
            errors.invalid(where, value, f"is an invalid path: {error}")
            continue
        if keys[0] == "metadata":
            errors.invalid(where, value, "must not point to fields in metadata")
        if type_ not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.invalid(where, value, text)
        if value in seen:
            errors.duplicate(where, value)
        seen.add(value)
    if len(seen) > _MAX_SELECTABLE:
        errors.too_many(path, len(seen), _MAX_SELECTABLE)


def _check_stored_versions(stored: list[str] | None, versions: list[Obj], errors: Errors) -> None:
    path = "status.storedVersions"
    if not stored:
        errors.invalid(path, stored, "must have at least one stored version")
        return
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            errors.invalid(path, stored, f"must have the storage version {version.get('name')}")
    called = {version.get("name") for version in versions}
    for index, name in enumerate(stored):
        if name not in called:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            errors.invalid(f"{path}[{index}]", name, text)


def _check_preserve(spec: Obj, errors: Errors) -> None:
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.invalid("spec.preserveUnknownFields", True, text)


def _schema(version: Obj) -> Obj | None:
    found: Obj | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def _status(version: Obj) -> Obj | None:
    found: Obj | None = (version.get("subresources") or {}).get("status")
    return found
