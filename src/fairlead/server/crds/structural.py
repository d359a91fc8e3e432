"""Which schemas are structural, that is: say of every field what it is outside of any condition (KEP-1002).

Pruning, defaulting, server-side apply and OpenAPI all need to know a field's type without looking at a value, so a
schema that leaves it to an `anyOf` is refused. Rules and texts: validation.go and complete.go in
apiextensions-apiserver/pkg/apiserver/schema.
"""

from __future__ import annotations

from fairlead.api.fields import Errors, under
from fairlead.api.objects import Obj
from fairlead.server.crds.values import pattern_error

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_MISSING_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_META_KINDS = ("kind", "apiVersion")

_UNDEFINED = "must be undefined to be structural"

#: Keyword of a schema inside a value validation, and why it may not be there.
_FORBIDDEN_IN_CONDITIONS = {
    "type": "must be empty to be structural",
    "additionalProperties": _UNDEFINED,
    "default": _UNDEFINED,
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": _UNDEFINED,
    "x-kubernetes-map-type": _UNDEFINED,
    "x-kubernetes-validations": "must be empty to be structural",
}


def check_structural(schema: Obj, path: str) -> Errors:
    """Every place where the schema is not structural, in the order of the texts."""
    errors = Errors()
    _check_node(schema, path, "root", errors)
    _check_complete(schema, schema, path, path, errors)
    return Errors(sorted(errors, key=lambda error: f"{error.field}: {error.message}"))


def _check_node(schema: Obj, path: str, level: str, errors: Errors) -> None:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        errors.required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        _check_node(items, under(path, ".items"), "item", errors)
    for key, below in (schema.get("properties") or {}).items():
        _check_node(below, under(path, f".properties[{key}]"), "field", errors)
    if additional is not None:
        if level == "root":
            errors.forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, dict):
            _check_node(additional, under(path, ".additionalProperties"), "field", errors)
    _check_extensions(schema, path, errors)
    all_of = schema.get("allOf") or []
    _check_conditions(
        schema,
        path,
        errors,
        skip_any_of=schema.get("anyOf") == _INT_OR_STRING,
        skip_first_all_of=bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING,
    )
    _check_type(schema, path, level, errors)
    _check_metadata(schema, path, level, errors)


def _check_extensions(schema: Obj, path: str, errors: Errors) -> None:
    if schema.get("x-kubernetes-int-or-string"):
        for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(key):
                errors.invalid(f"{path}.{key}", True, "must be false if x-kubernetes-int-or-string is true")


def _check_type(schema: Obj, path: str, level: str, errors: Errors) -> None:
    type_ = schema.get("type", "")
    embedded, preserves = _is(schema, "embedded-resource"), _is(schema, "preserve-unknown-fields")
    if embedded and type_ != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        if type_:
            errors.invalid(f"{path}.type", type_, detail)
        else:
            errors.required(f"{path}.type", detail)
    elif not type_ and not _is(schema, "int-or-string") and not preserves:
        errors.required(f"{path}.type", _MISSING_TYPE[level])
    if embedded and schema.get("additionalProperties") is not None:
        errors.forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
    if level == "root" and type_ and type_ != "object":
        errors.invalid(f"{path}.type", type_, "must be object at the root")
    if embedded and not preserves and not schema.get("properties"):
        errors.required(
            f"{path}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        )


def _check_metadata(schema: Obj, path: str, level: str, errors: Errors) -> None:
    """Type and metadata mean the same everywhere; a schema may only narrow names."""
    properties = schema.get("properties") or {}
    is_resource = level == "root" or _is(schema, "embedded-resource")
    for key in _META_KINDS:
        if is_resource and key in properties and properties[key].get("type") != "string":
            errors.invalid(f"{path}.properties[{key}].type", properties[key].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    below = f"{path}.properties[metadata]"
    if is_resource and metadata.get("type") != "object":
        errors.invalid(f"{below}.type", metadata.get("type", ""), "must be object")
    keywords = {key for key, value in metadata.items() if value} - {"type", "default"}
    names_only = set(metadata.get("properties") or ()) <= {"name", "generateName"}
    if level == "root" and keywords - ({"properties"} if names_only else set()):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.forbidden(below, detail)


def _check_conditions(
    schema: Obj, path: str, errors: Errors, *, skip_any_of: bool = False, skip_first_all_of: bool = False
) -> None:
    if not skip_any_of:
        for index, condition in enumerate(schema.get("anyOf") or ()):
            _check_condition(condition, under(path, f".anyOf[{index}]"), errors)
    for index, condition in enumerate(schema.get("allOf") or ()):
        _check_condition(
            condition, under(path, f".allOf[{index}]"), errors, skip_any_of=skip_first_all_of and index == 0
        )
    for index, condition in enumerate(schema.get("oneOf") or ()):
        _check_condition(condition, under(path, f".oneOf[{index}]"), errors)
    if schema.get("not") is not None:
        _check_condition(schema["not"], under(path, ".not"), errors)
    pattern = schema.get("pattern")
    if pattern and (error := pattern_error(pattern)):
        errors.invalid(f"{path}.pattern", pattern, error)


def _check_condition(schema: Obj, path: str, errors: Errors, *, skip_any_of: bool = False) -> None:
    """A schema below anyOf, allOf, oneOf or not: it may restrict values, and nothing else."""
    _check_conditions(schema, path, errors, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), dict):
        _check_condition(schema["items"], under(path, ".items"), errors)
    properties = schema.get("properties") or {}
    for key, below in properties.items():
        _check_condition(below, under(path, f".properties[{key}]"), errors)
    for key, detail in _FORBIDDEN_IN_CONDITIONS.items():
        if _says(schema, key, detail):
            errors.forbidden(f"{path}.{key}", detail)
    if "metadata" in properties:
        errors.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _check_complete(schema: Obj, structure: Obj, where: str, path: str, errors: Errors) -> None:
    """Every field that a condition at the root names must be a field of the structure too."""
    if schema.get("not") is not None:
        _check_named(schema["not"], structure, where, under(path, ".not"), errors)
    for key in ("allOf", "anyOf", "oneOf"):
        for index, condition in enumerate(schema.get(key) or ()):
            _check_named(condition, structure, where, under(path, f".{key}[{index}]"), errors)


def _check_named(schema: Obj, structure: Obj | None, where: str, path: str, errors: Errors) -> None:
    if structure is None:
        errors.required(where, f"because it is defined in {path}")
        return
    _check_complete(schema, structure, where, path, errors)
    if isinstance(schema.get("items"), dict):
        _check_named(schema["items"], structure.get("items"), under(where, ".items"), under(path, ".items"), errors)
    for key, below in (schema.get("properties") or {}).items():
        found = (structure.get("properties") or {}).get(key)
        _check_named(below, found, under(where, f".properties[{key}]"), under(path, f".properties[{key}]"), errors)


def _says(schema: Obj, key: str, detail: str) -> bool:
    """Whether a schema says something by a keyword: where upstream holds a pointer, a zero is something too."""
    value = schema.get(key)
    if key == "additionalProperties" and value is False:
        return False  # it forbids what structural schemas do not have anyway, so upstream forgets it
    return value is not None if detail is _UNDEFINED else bool(value)


def _is(schema: Obj, extension: str) -> bool:
    return bool(schema.get(f"x-kubernetes-{extension}"))
