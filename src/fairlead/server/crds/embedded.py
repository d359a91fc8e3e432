"""Objects inside custom objects (`x-kubernetes-embedded-resource`): they need apiVersion and kind, as any object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from fairlead.api import names
from fairlead.api.fields import quoted, under
from fairlead.golang.values import unmarshal_error
from fairlead.server.codec.normalise import DecodeReport, walker
from fairlead.server.codec.wire import OBJECT_META
from fairlead.server.crds.schema import SchemaNode
from fairlead.server.crds.values import Problems

#: Adds what is wrong with the metadata of the object at a path. Whoever has the rules hands them in: they stand beside
#: those of the built-in kinds, a CRD among them.
MetaRules: TypeAlias = Callable[[dict[str, Any], str, Problems], None]


def has_embedded(node: SchemaNode) -> bool:
    """Whether objects of this schema can hold others, so that most schemas cost no second walk."""
    below = [*node.properties.values(), node.items, node.values]
    return node.is_embedded or any(has_embedded(child) for child in below if child is not None)


def check_embedded(
    value: Any, node: SchemaNode | None, found: Problems, path: str = "", *, rules: MetaRules | None = None
) -> None:
    if node is None:
        return
    if isinstance(value, dict):
        if node.is_embedded:
            _check_resource(value, path, found, rules)
        for key, item in value.items():
            if (below := node.properties.get(key)) is not None:
                check_embedded(item, below, found, under(path, f".{key}"), rules=rules)
            else:
                check_embedded(item, node.values, found, under(path, f"[{key}]"), rules=rules)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_embedded(item, node.items, found, under(path, f"[{index}]"), rules=rules)


def coerce_embedded(value: Any, node: SchemaNode | None, unknown: list[str], path: str = "") -> str:
    """Give the metadata of embedded objects its form; the first thing that cannot have it, if any.

    What is dropped is added to `unknown`. Source: pkg/apiserver/schema/objectmeta/{algorithm,coerce}.go.
    """
    if node is None:
        return ""
    below: list[tuple[Any, SchemaNode | None, str]] = []
    if isinstance(value, dict):
        if node.is_embedded and (wrong := _coerce_resource(value, unknown, path)):
            return wrong
        below = [
            (item, node.properties.get(key) or node.values, f".{key}" if key in node.properties else f"[{key}]")
            for key, item in value.items()
        ]
    elif isinstance(value, list):
        below = [(item, node.items, f"[{index}]") for index, item in enumerate(value)]
    found = (coerce_embedded(item, item_node, unknown, path + where) for item, item_node, where in below)
    return next((problem for problem in found if problem), "")


def _coerce_resource(value: dict[str, Any], unknown: list[str], path: str) -> str:
    for key in ("apiVersion", "kind"):
        if key in value and not isinstance(value[key], str):
            where = f"{path}.{key}".removeprefix(".")
            return f"{where}: Invalid value: {quoted(value[key])}: must be a string"
    meta, where = value.get("metadata"), f"{path}.metadata".removeprefix(".")
    if meta is None:
        return ""
    if not isinstance(meta, dict):
        return f"{where}: Invalid value: {quoted(meta)}: {unmarshal_error(meta, 'v1.ObjectMeta')}"
    report = DecodeReport()
    sent = quoted(meta)
    walker(OBJECT_META)(meta, None, report)
    unknown += [f"{where}.{name}" for name in report.unknown]
    return f"{where}: Invalid value: {sent}: {report.mismatch}" if report.mismatch else ""


def _check_resource(value: dict[str, Any], path: str, found: Problems, rules: MetaRules | None) -> None:
    for key in ("apiVersion", "kind"):
        type_value = value.get(key)
        where = f"{path}.{key}"
        if key not in value:
            found.report("FieldValueRequired", where, "Required value")
        elif not isinstance(type_value, str):
            found.invalid(where, type_value, "must be a string")
        elif not type_value:
            found.invalid(where, type_value, "must not be empty")
        elif key == "apiVersion" and type_value.count("/") > 1:
            found.invalid(where, type_value, f"unexpected GroupVersion string: {type_value}")
        elif key == "kind" and (wrong := names.dns1035_label(type_value.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            found.invalid(where, type_value, text)
    meta = value.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        found.invalid(f"{path}.metadata", meta, "expected object")
    elif meta is not None and rules is not None:
        rules(meta, f"{path}.metadata", found)
