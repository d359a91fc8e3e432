"""The plain-dict form of an API object, and the few things everyone does with one.

Objects are dicts only on the server's write path and where a component gives birth to one;
everywhere else they are bytes (`fairlead.api.encoded`) or frozen views (`fairlead.api.meta`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

#: A JSON object as it came over the wire: keys are field names, values JSON values.
Obj: TypeAlias = dict[str, Any]


def metadata(obj: Obj) -> Obj:
    """The object's metadata, made empty if it has none, so that callers may write to it."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = obj["metadata"] = {}
    return found


def name_of(obj: Obj) -> str:
    return str(metadata(obj).get("name", ""))


def namespace_of(obj: Obj) -> str:
    return str(metadata(obj).get("namespace", ""))
