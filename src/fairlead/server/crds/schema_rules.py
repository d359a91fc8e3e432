"""What a CRD's schema may say at all, structural or not: supported keywords, list types, rules.

Texts: `ValidateCustomResourceDefinitionOpenAPISchema` in apiextensions-apiserver/pkg/apis/apiextensions/validation.
CEL rules are only checked for their form here; `cel_rules.py` compiles them.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from fairlead.api.fields import Errors, under
from fairlead.api.objects import Obj
from fairlead.server.crds.paths import PathError, field_at
from fairlead.server.crds.schema import each_schema, schemas_within

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META_FIELDS = frozenset({"metadata", "kind", "apiVersion"})
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NEW_LINE = re.compile(r"[\n\r]")

#: Keywords of JSON Schema that Kubernetes has never supported, and how the refusal spells them.
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
#: Those that upstream holds by a pointer, so that a zero is refused as well.
_UNSUPPORTED_IF_SET = ("additionalItems", "dependencies", "$ref")
_CONDITIONS = ("allOf", "oneOf", "anyOf")


class _Place(msgspec.Struct, frozen=True):
    """What the place of a schema in its parents forbids."""

    #: The schemas that have something unsupported in them, by identity.
    unsupported: frozenset[int]
    allows_default: bool = True
    why_no_default: str = ""
    is_inside_meta: bool = False

    def without_defaults(self, why: str) -> _Place:
        return replace(self, allows_default=False, why_no_default=why)


def check_schema(schema: Obj, path: str, unsupported: frozenset[int], errors: Errors) -> None:
    """Add everything that is wrong with the schema at the root of a version."""
    _check(schema, path, _Place(unsupported), errors, is_root=True)


def unsupported_in(schema: Obj) -> frozenset[int]:
    """The schemas in this one, by identity, that say or hold what has no place in a structural one.

    Nobody asks whether such a schema is structural.
    """
    found: set[int] = set()
    for node in reversed(list(each_schema(schema))):
        if _says_unsupported(node) or any(id(below) in found for below in schemas_within(node)):
            found.add(id(node))
    return frozenset(found)


def _says_unsupported(schema: Obj) -> bool:
    return (
        isinstance(schema.get("items"), list)
        or schema.get("x-kubernetes-preserve-unknown-fields") is False
        or any(schema.get(key) for key in ("$schema", *_UNSUPPORTED))
        or schema.get("additionalItems") is not None
    )


def _check(schema: Obj, path: str, context: _Place, errors: Errors, is_root: bool = False) -> None:
    _check_keywords(schema, path, context, errors)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.forbidden(f"{path}.uniqueItems", detail)
    _check_below(schema, path, context, errors, is_root)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    _check_map_type(schema, path, errors)
    _check_list_type(schema, path, errors)
    if schema.get("x-kubernetes-list-type") == "map":
        _check_list_map(schema, path, errors)
    _check_identities(schema, path, errors)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        _check_rule(rule, schema, context, f"{path}.x-kubernetes-validations[{index}]", errors)


def _check_keywords(schema: Obj, path: str, context: _Place, errors: Errors) -> None:
    type_ = schema.get("type")
    if type_ and type_ not in _TYPES:
        errors.not_supported(f"{path}.type", type_, _TYPES)
    if schema.get("default") is not None and not context.allows_default:
        errors.forbidden(f"{path}.default", f"must not be set {context.why_no_default}".rstrip())
    for key in _UNSUPPORTED:
        if schema.get(key) or (key in _UNSUPPORTED_IF_SET and schema.get(key) is not None):
            errors.forbidden(f"{path}.{key}", f"{key} is not supported")
    if type_ == "null":
        errors.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if context.is_inside_meta and schema.get("x-kubernetes-embedded-resource"):
        errors.forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")


def _check_below(schema: Obj, path: str, context: _Place, errors: Errors, is_root: bool) -> None:
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    if additional is not None and additional is not True and properties:
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(additional, dict):
        why = "inside additionalProperties applying to object metadata"
        below = context.without_defaults(why) if context.is_inside_meta else context
        _check(additional, under(path, ".additionalProperties"), below, errors)
    is_resource = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    for key, child in properties.items():
        below = context
        if is_resource and key in _META_FIELDS:
            below = replace(context, is_inside_meta=True)
            below = below.without_defaults(f"in top-level {key}") if is_root else below
        _check(child, under(path, f".properties[{key}]"), below, errors)
    if schema.get("not") is not None:
        _check(schema["not"], under(path, ".not"), context, errors)
    for keyword in _CONDITIONS:
        for index, child in enumerate(schema.get(keyword) or ()):
            _check(child, under(path, f".{keyword}[{index}]"), context, errors)
    if isinstance(schema.get("items"), dict):
        _check(schema["items"], under(path, ".items"), context, errors)


def _check_map_type(schema: Obj, path: str, errors: Errors) -> None:
    map_type, type_ = schema.get("x-kubernetes-map-type"), schema.get("type", "")
    if map_type is None:
        return
    _require_type(type_, "object", "x-kubernetes-map-type", path, errors)
    if map_type not in ("atomic", "granular"):
        errors.not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _check_list_type(schema: Obj, path: str, errors: Errors) -> None:
    list_type, type_ = schema.get("x-kubernetes-list-type"), schema.get("type", "")
    items = schema.get("items")
    if list_type is not None and type_ != "array":
        _require_type(type_, "array", "x-kubernetes-list-type", path, errors)
    elif list_type == "set" and isinstance(items, dict):
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        item_list, item_map = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
        if items.get("type") == "array" and item_list not in (None, "atomic"):
            errors.invalid(f"{path}.items.x-kubernetes-list-type", item_list, detail)
        elif items.get("type") == "object" and item_map != "atomic":
            errors.invalid(f"{path}.items.x-kubernetes-map-type", item_list, detail)
    if list_type not in (None, "atomic", "set", "map"):
        errors.not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"), sort=False)
    if schema.get("x-kubernetes-list-map-keys") and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        if list_type is None:
            errors.required(f"{path}.x-kubernetes-list-type", detail)
        else:
            errors.invalid(f"{path}.x-kubernetes-list-type", list_type, detail)


def _require_type(type_: str, required: str, because: str, path: str, errors: Errors) -> None:
    detail = f"must be {required} if {because} is specified"
    if not type_:
        errors.required(f"{path}.type", detail)
    elif type_ != required:
        errors.invalid(f"{path}.type", type_, detail)


def _check_list_map(schema: Obj, path: str, errors: Errors) -> None:
    keys, items = schema.get("x-kubernetes-list-map-keys") or [], schema.get("items")
    keys_path = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        errors.required(keys_path, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        errors.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        errors.invalid(f"{path}.items.type", items.get("type", ""), detail)
        return
    properties = items.get("properties") or {}
    seen: set[str] = set()
    for key in keys:
        if key not in properties:
            errors.invalid(keys_path, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.invalid(f"{path}.items.properties[{key}].type", "object", detail)
        if key in seen:
            errors.invalid(keys_path, keys, "must not contain duplicate entries")
        seen.add(key)


def _check_identities(schema: Obj, path: str, errors: Errors) -> None:
    """Items of sets and list maps must always have an identity."""
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if list_type not in ("set", "map") or not isinstance(items, dict):
        return
    if items.get("nullable"):
        errors.forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type == "set":
        return
    properties, required = items.get("properties") or {}, set(items.get("required") or ())
    named = "this property is in x-kubernetes-list-map-keys, so it"
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        if (found := properties.get(key)) is None:
            continue
        below = f"{path}.items.properties[{key}]"
        if key not in required and found.get("default") is None:
            errors.required(f"{below}.default", f"{named} must have a default or be a required property")
        if found.get("nullable"):
            errors.forbidden(f"{below}.nullable", f"{named} cannot be nullable")


def _check_rule(rule: Obj, schema: Obj, context: _Place, path: str, errors: Errors) -> None:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        errors.required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        errors.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _NEW_LINE.search(message.strip()):
        errors.invalid(f"{path}.message", message, "must not contain line breaks")
    elif _NEW_LINE.search(text) and not message.strip():
        errors.required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        errors.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        errors.not_supported(f"{path}.reason", rule["reason"], _REASONS)
    field = rule.get("fieldPath", "")
    if field and not field.strip():
        errors.invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if _NEW_LINE.search(field):
        errors.invalid(f"{path}.fieldPath", field, "must not contain line breaks")
    if field and id(schema) not in context.unsupported and not _is_path(field, schema):
        errors.invalid(f"{path}.fieldPath", field, "must be a valid path")


def _is_path(path: str, schema: Obj) -> bool:
    try:
        field_at(path, schema)
    except PathError:
        return False
    return True
