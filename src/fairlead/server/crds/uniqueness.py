"""Lists that are sets or maps (`x-kubernetes-list-type`) have no item twice.

Server-side apply knows their items by value or by key; it could not tell two of one identity apart.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.fields import under
from fairlead.server.crds.schema import SchemaNode
from fairlead.server.crds.values import Problems, printed

_sorted_json = msgspec.json.Encoder(order="sorted").encode


def check_unique(value: Any, node: SchemaNode | None, found: Problems, path: str = "") -> None:
    """Add every repetition in the lists below, once each."""
    if node is None:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list):
                if (below := node.properties.get(key)) is not None:
                    check_unique(item, below, found, under(path, f".{key}"))
                elif node.values is not None:
                    check_unique(item, node.values, found, under(path, f"[{key}]"))
    elif isinstance(value, list):
        if node.list_type == "set":
            _report(value, path, found)
        elif node.list_type == "map":
            _check_map(value, node.list_map_keys, path, found)
        for index, item in enumerate(value):
            check_unique(item, node.items, found, under(path, f"[{index}]"))


def _check_map(items: list[Any], keys: tuple[str, ...], path: str, found: Problems) -> None:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            found.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    _report([{key: item[key] for key in keys if key in item} if item else {} for item in items], path, found)


def _report(identities: list[Any], path: str, found: Problems) -> None:
    """Report the second occurrence of each identity."""
    seen: dict[bytes, int] = {}
    for index, identity in enumerate(identities):
        key = _sorted_json(identity)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            found.report("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {printed(identity)}")
