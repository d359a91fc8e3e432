"""The form in which upstream validates a CRD: its unversioned type, printed as Go would print it.

What all versions have in common is moved to the top there, so that the schema of a CRD with one version is
`spec.validation.openAPIV3Schema`, and an error about `spec.versions` shows Go field names and no schema. Users see
both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.api.objects import Obj

SCHEMA, SUBRESOURCES = "schema", "subresources"
COLUMNS, SELECTABLE = "additionalPrinterColumns", "selectableFields"

#: Go name, JSON name and zero value of each field of the internal JSONSchemaProps, in the order of the struct.
_SCHEMA_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("ID", "id", ""),
    ("Schema", "$schema", ""),
    ("Ref", "$ref", None),
    ("Description", "description", ""),
    ("Type", "type", ""),
    ("Nullable", "nullable", False),
    ("Format", "format", ""),
    ("Title", "title", ""),
    ("Default", "default", None),
    ("Maximum", "maximum", None),
    ("ExclusiveMaximum", "exclusiveMaximum", False),
    ("Minimum", "minimum", None),
    ("ExclusiveMinimum", "exclusiveMinimum", False),
    ("MaxLength", "maxLength", None),
    ("MinLength", "minLength", None),
    ("Pattern", "pattern", ""),
    ("MaxItems", "maxItems", None),
    ("MinItems", "minItems", None),
    ("UniqueItems", "uniqueItems", False),
    ("MultipleOf", "multipleOf", None),
    ("Enum", "enum", None),
    ("MaxProperties", "maxProperties", None),
    ("MinProperties", "minProperties", None),
    ("Required", "required", None),
    ("Items", "items", None),
    ("AllOf", "allOf", None),
    ("OneOf", "oneOf", None),
    ("AnyOf", "anyOf", None),
    ("Not", "not", None),
    ("Properties", "properties", None),
    ("AdditionalProperties", "additionalProperties", None),
    ("PatternProperties", "patternProperties", None),
    ("Dependencies", "dependencies", None),
    ("AdditionalItems", "additionalItems", None),
    ("Definitions", "definitions", None),
    ("ExternalDocs", "externalDocs", None),
    ("Example", "example", None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    ("XIntOrString", "x-kubernetes-int-or-string", False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", None),
    ("XListType", "x-kubernetes-list-type", None),
    ("XMapType", "x-kubernetes-map-type", None),
    ("XValidations", "x-kubernetes-validations", None),
)


_LISTS_OF_SCHEMAS = frozenset({"AllOf", "OneOf", "AnyOf"})
_MAPS_OF_SCHEMAS = frozenset({"Properties", "PatternProperties", "Definitions"})
_RULE_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)
_COLUMN_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("Name", "name", ""),
    ("Type", "type", ""),
    ("Format", "format", ""),
    ("Description", "description", ""),
    ("Priority", "priority", 0),
    ("JSONPath", "jsonPath", ""),
)
_SCALE_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("SpecReplicasPath", "specReplicasPath", ""),
    ("StatusReplicasPath", "statusReplicasPath", ""),
    ("LabelSelectorPath", "labelSelectorPath", None),
)


def shared(versions: list[Obj]) -> frozenset[str]:
    """The fields on which all versions agree, so that they stand at the top instead."""
    return frozenset(
        field
        for field in (SCHEMA, SUBRESOURCES, COLUMNS, SELECTABLE)
        if versions and all((version.get(field) or None) == (versions[0].get(field) or None) for version in versions)
    )


def spelled_versions(versions: list[Obj] | None) -> list[Obj] | None:
    """`spec.versions` as errors show it."""
    if versions is None:
        return None
    above = shared(versions)
    return [
        _spelled_version({key: value for key, value in version.items() if key not in above}) for version in versions
    ]


def spelled_schema(schema: Obj) -> Obj:
    """A schema as errors show it: every field of the struct, set or not."""
    return {go: _spelled_value(go, schema.get(json, zero)) for go, json, zero in _SCHEMA_FIELDS}


def spelled_rule(rule: Mapping[str, Any]) -> Obj:
    """A validation rule as errors show it."""
    return _spelled(rule, _RULE_FIELDS)


def set_keywords(schema: Obj) -> list[str]:
    """The fields that a schema sets, in the order of the struct: zero counts where a pointer holds it."""
    return [go for go, json, zero in _SCHEMA_FIELDS if schema.get(json, zero) not in (None, zero)]


def _spelled_version(version: Obj) -> Obj:
    schema, subresources = version.get(SCHEMA), version.get(SUBRESOURCES)
    columns, selectable = version.get(COLUMNS), version.get(SELECTABLE)
    return {
        "Name": version.get("name", ""),
        "Served": version.get("served", False),
        "Storage": version.get("storage", False),
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": schema and {"OpenAPIV3Schema": spelled_schema(schema["openAPIV3Schema"])},
        "Subresources": subresources and _spelled_subresources(subresources),
        "AdditionalPrinterColumns": columns and [_spelled(item, _COLUMN_FIELDS) for item in columns],
        "SelectableFields": selectable and [{"JSONPath": item.get("jsonPath", "")} for item in selectable],
    }


def _spelled_subresources(subresources: Obj) -> Obj:
    scale = subresources.get("scale")
    return {"Status": subresources.get("status"), "Scale": scale and _spelled(scale, _SCALE_FIELDS)}


def _spelled(obj: Mapping[str, Any], fields: tuple[tuple[str, str, Any], ...]) -> Obj:
    return {go: obj.get(json, zero) for go, json, zero in fields}


def _spelled_value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _LISTS_OF_SCHEMAS:
        return [spelled_schema(item) for item in value]
    if name in _MAPS_OF_SCHEMAS:
        return {key: spelled_schema(value[key]) for key in sorted(value)}
    if name == "Not":
        return spelled_schema(value)
    if name == "Items":
        return {"Schema": spelled_schema(value), "JSONSchemas": None}
    if name in ("AdditionalProperties", "AdditionalItems"):
        is_schema = isinstance(value, dict)
        return {"Allows": is_schema or value, "Schema": spelled_schema(value) if is_schema else None}
    if name == "XValidations":
        return [_spelled(item, _RULE_FIELDS) for item in value]
    if name == "ExternalDocs":
        return {"Description": value.get("description", ""), "URL": value.get("url", "")}
    return value
