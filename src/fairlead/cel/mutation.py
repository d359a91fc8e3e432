"""Types with which expressions describe changes: `Object{spec: Object.spec{replicas: 3}}`, `JSONPatch{op: "add", …}`.

An object type is called by the path of its field, and takes any field: nothing is known of the object that is meant.
Source: k8s.io/apiserver/pkg/cel/mutation (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead.cel.errors import CelError
from fairlead.cel.parsing import parse
from fairlead.cel.syntax import ListLiteral, MapLiteral, Node, ObjectLiteral, parts
from fairlead.cel.types import DYN, STRING, ObjectField, ObjectType, Type, list_of
from fairlead.cel.values import Duration, Opaque, OptionalValue, Timestamp, TypeName
from fairlead.golang import base64

_OBJECT: Final = "Object"


class _AnyField(dict[str, ObjectField]):
    """Every field there may be, of any type."""

    def get(self, name: str, default: Any = None) -> ObjectField:
        return ObjectField(name, DYN)


#: What an apply configuration is, and an operation of a JSON patch.
APPLY_CONFIGURATION: Final = ObjectType.named(_OBJECT, _AnyField())
JSON_PATCH: Final = ObjectType.named(
    "JSONPatch",
    {key: ObjectField(key, STRING) for key in ("op", "path", "from")} | {"value": ObjectField("value", DYN)},
)
JSON_PATCHES: Final[Type] = list_of(JSON_PATCH)


class MutationTypes(Mapping[str, ObjectType]):
    """The types by name."""

    def __getitem__(self, name: str) -> ObjectType:
        if name == _OBJECT:
            return APPLY_CONFIGURATION
        if name == JSON_PATCH.name:
            return JSON_PATCH
        if name.startswith(f"{_OBJECT}."):
            return ObjectType.named(name, _AnyField())
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((_OBJECT, JSON_PATCH.name))

    def __len__(self) -> int:
        return 2


def misnamed(source: str) -> str:
    """What is wrong with the names of objects within objects, which must be those of their fields; "" if nothing is."""
    waiting: list[tuple[Node, str]] = [(parse(source), "")]
    while waiting:
        node, path = waiting.pop()
        if isinstance(node, ObjectLiteral):
            if path and node.type_name != path:
                wanted = f'expected "{path}", which matches field name path from root Object type'
                return f'type mismatch: unexpected type name "{node.type_name}", {wanted}'
            is_object = node.type_name.partition(".")[0] == _OBJECT
            for entry in node.entries:
                name = getattr(entry.key, "name", "")
                waiting.append((entry.value, f"{node.type_name}.{name}" if is_object else ""))
        elif isinstance(node, ListLiteral):
            waiting += [(element, path) for element in node.elements]
        elif isinstance(node, MapLiteral):
            waiting += [(entry.value, path) for entry in node.entries]
        else:
            waiting += [(part, "") for part in parts(node)]
    return ""


def to_json(value: Any) -> Any:
    """A value as JSON has it. CelError for one that JSON does not know."""
    match value:
        case dict():
            for key in value:
                if not isinstance(key, str):
                    raise CelError(f"map key {key} is not string")
            return {key: to_json(item) for key, item in value.items()}
        case list():
            return [to_json(item) for item in value]
        case bytes():
            return base64.encode(value)
        case Timestamp() | Duration():
            return str(value)
        case OptionalValue():
            return to_json(value.value) if value.is_present else None
        case Opaque() | TypeName():
            raise CelError(f"{type(value).__name__} could not marshal to JSON")
    return value
