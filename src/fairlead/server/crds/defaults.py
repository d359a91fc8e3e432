"""A default must be what the schema would accept: nothing else may fill it in.

Type and metadata of an object have rules of their own, which a default may only break together with what is around it:
it is tried out in an object that has nothing else. Source: apiextensions-apiserver/pkg/apiserver/schema/defaulting/
validation.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api.encoded import copied
from fairlead.api.errors import Cause
from fairlead.api.fields import Errors, aggregated, under
from fairlead.api.objects import Obj
from fairlead.server.crds.cel_rules import KEYWORD, RuleNode, ask_alone, compile_rules
from fairlead.server.crds.embedded import check_embedded, coerce_embedded
from fairlead.server.crds.embedded_meta import check_metadata
from fairlead.server.crds.pruning import prune
from fairlead.server.crds.schema import ABSENT, SchemaNode, compile_schema, each_schema
from fairlead.server.crds.values import Problems, ValueCheck, printed, validate

_META: Final = ("apiVersion", "kind", "metadata")


def check_defaults(schema: Obj, path: str, errors: Errors) -> None:
    """Every default by type and form, without unknown fields."""
    if any(node.get("default") is not None for node in each_schema(schema)):
        root = replace(compile_schema(schema), is_embedded=True)
        _check(schema, root, ValueCheck(schema), _Place(root, _resource), path, errors)


def ask_defaults(schema: Obj, path: str, errors: Errors) -> None:
    """Every default by the rules in CEL of a schema whose rules compile."""
    _, is_needed = _survey(schema)
    rules = compile_rules(schema) if is_needed else None
    if rules is None:
        return
    found = Problems()
    ask_alone(_judged(schema, rules, path), found)
    errors.extend(found)


class _Place(msgspec.Struct, frozen=True):
    """Where a default is: in which object, what it makes of it alone, and whether it is a part of type or metadata."""

    root: SchemaNode
    whole: Callable[[Any], Obj]
    is_meta: bool = False

    def below(self, key: str, node: SchemaNode) -> _Place:
        is_meta = self.is_meta or (node.is_embedded and key in _META)
        return _Place(self.root, lambda value: self.whole({key: value}), is_meta)

    def item(self) -> _Place:
        return _Place(self.root, lambda value: self.whole([value]), self.is_meta)


def _resource(value: Obj) -> Obj:
    return {"kind": "Validation", "apiVersion": "validation/v1"} | value


def _check(schema: Obj, node: SchemaNode, check: ValueCheck, place: _Place, path: str, errors: Errors) -> None:
    if node.is_embedded:
        place = _Place(node, _resource)
    if node.default is not ABSENT:
        errors.extend(_problems(node, check, place, f"{path}.default"))
    if node.items is not None and check.items is not None:
        _check(schema["items"], node.items, check.items, place.item(), under(path, ".items"), errors)
    for key, below in (schema.get("properties") or {}).items():
        here = under(path, f".properties[{key}]")
        _check(below, node.properties[key], check.properties[key], place.below(key, node), here, errors)


def _problems(node: SchemaNode, check: ValueCheck, place: _Place, path: str) -> list[Cause]:
    if place.is_meta:
        wrong = _wrong_metadata(place.whole(copied(node.default)), place.root)
        problems = [_invalid(node, path, f"must result in valid metadata: {wrong}")] if wrong else []
        return problems or list(validate(check, node.default, path))
    pruned = copied(node.default)
    unknown = [_invalid(node, path, "must not have unknown fields")] if _has_unknown(pruned, node) else []
    return unknown + (_wrong_resources(node, path) or list(validate(check, node.default, path)))


def _invalid(node: SchemaNode, path: str, text: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {printed(node.default)}: {text}", path)


def _has_unknown(value: Any, node: SchemaNode) -> bool:
    return bool(prune(value, node, is_resource=node.is_embedded))


def _wrong_metadata(obj: Obj, root: SchemaNode) -> str:
    if wrong := coerce_embedded(obj, root, []):
        return wrong
    found = Problems()
    check_embedded(obj, root, found, rules=check_metadata)
    return aggregated(found) if found else ""


def _wrong_resources(node: SchemaNode, path: str) -> list[Cause]:
    """What is wrong with type and metadata of the objects in a default."""
    value = copied(node.default)
    if wrong := coerce_embedded(value, node, []):
        where, _, text = wrong.partition(": ")
        return [Cause("FieldValueInvalid", text, f"{path}.{where}")]
    found = Problems(path)
    check_embedded(value, node, found, rules=check_metadata)
    return list(found)


def _survey(schema: Obj) -> tuple[bool, bool]:
    """Whether there are rules about this place or one below it, and whether about any default."""
    below = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    found = [_survey(each) for each in below if isinstance(each, dict)]
    has_rules = bool(schema.get(KEYWORD)) or any(rules for rules, _ in found)
    return has_rules, has_rules and (schema.get("default") is not None or any(judged for _, judged in found))


def _judged(schema: Obj, rules: RuleNode, path: str) -> Iterator[tuple[RuleNode, Any, str]]:
    """The defaults about which there are rules, and where they are."""
    if (default := schema.get("default")) is not None:
        yield rules, default, f"{path}.default"
    if isinstance(schema.get("items"), dict) and rules.items is not None:
        yield from _judged(schema["items"], rules.items, under(path, ".items"))
    for key, below in (schema.get("properties") or {}).items():
        if key in rules.properties:
            yield from _judged(below, rules.properties[key], under(path, f".properties[{key}]"))
