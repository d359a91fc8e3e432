"""Objects inside custom objects (`x-kubernetes-embedded-resource`): they must say what they are, as any object must."""

from __future__ import annotations

from typing import Any

from fairlead.api import names
from fairlead.server.crds.schema import Node
from fairlead.server.crds.values import Problems


def has_embedded(node: Node) -> bool:
    """Whether objects of this schema can hold others, so that most schemas cost no second walk."""
    below = [*node.properties.values(), node.items, node.values]
    return node.is_embedded or any(has_embedded(one) for one in below if one is not None)


def check_embedded(value: Any, node: Node | None, found: Problems, path: str = "") -> None:
    if node is None:
        return
    if isinstance(value, dict):
        if node.is_embedded:
            _check_resource(value, path, found)
        for key, one in value.items():
            if (below := node.properties.get(key)) is not None:
                check_embedded(one, below, found, f"{path}.{key}")
            else:
                check_embedded(one, node.values, found, f"{path}[{key}]")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            check_embedded(one, node.items, found, f"{path}[{index}]")


def _check_resource(value: dict[str, Any], path: str, found: Problems) -> None:
    for key in ("apiVersion", "kind"):
        said = value.get(key)
        where = f"{path}.{key}"
        if key not in value:
            found.report("FieldValueRequired", where, "Required value")
        elif not isinstance(said, str):
            found.invalid(where, said, "must be a string")
        elif not said:
            found.invalid(where, said, "must not be empty")
        elif key == "apiVersion" and said.count("/") > 1:
            found.invalid(where, said, f"unexpected GroupVersion string: {said}")
        elif key == "kind" and (wrong := names.dns1035_label(said.lower())):
            text = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            found.invalid(where, said, text)
    meta = value.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        found.invalid(f"{path}.metadata", meta, "expected object")
