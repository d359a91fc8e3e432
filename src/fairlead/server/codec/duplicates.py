"""How Go decodes a JSON document with duplicate keys.

Go decodes the second value into the first one: structs and maps are merged, everything else is replaced. Strict
decoding tells of it, together with unknown fields and in the order of the document. It is rare, so it has its own slow
walk over the document, and the walkers in `normalise` need not know of it.
"""

from __future__ import annotations

from typing import Any

from fairlead.api.objects import Obj
from fairlead.golang.json import Pairs
from fairlead.golang.quoting import go_quote
from fairlead.server.codec import wire
from fairlead.server.codec.normalise import MOST_STRICT_ERRORS, Path, spelled
from fairlead.server.codec.wire import WireType


def merged(document: Any, definition: str) -> tuple[Any, list[str]]:
    """The document as dicts, and what strict decoding objects to.

    Without a definition (custom resources) no field is unknown. With one, unknown fields are dropped, because whoever
    normalises the object would tell of them again.
    """
    walk = _Walk()
    value = walk.value(document, wire.wire_type_of(definition) if definition else None, None)
    return value, list(walk.errors)


class _Walk:
    """One pass over a document; `errors` is an ordered set."""

    def __init__(self) -> None:
        self.errors: dict[str, None] = {}

    def value(self, value: Any, shape: WireType | None, path: Path) -> Any:
        if isinstance(value, Pairs):
            return self._object(value, shape, path)
        if isinstance(value, list):
            element = shape.element if shape and shape.form == "list" else None
            return [self.value(item, element, (path, index, "")) for index, item in enumerate(value)]
        return value

    def _object(self, pairs: Pairs, shape: WireType | None, path: Path) -> Obj:
        if shape is not None and shape.form not in ("struct", "map"):
            return {key: _plain(item) for key, item in pairs}
        fields = wire.fields(shape.definition) if shape and shape.form == "struct" else None
        obj: Obj = {}
        for key, item in pairs:
            if fields is not None and key not in fields:
                self._report("unknown", path, key)
                continue
            if key in obj:
                self._report("duplicate", path, key)
            below = fields[key].shape if fields is not None else shape and shape.element
            value = self.value(item, below, (path, key, ""))
            obj[key] = _overlaid(obj.get(key), value, below) if fields is not None else value
        return obj

    def _report(self, problem: str, path: Path, key: str) -> None:
        if len(self.errors) < MOST_STRICT_ERRORS:
            self.errors[f"{problem} field {go_quote(spelled((path, key, '')))}"] = None


def _overlaid(old: Any, new: Any, shape: WireType | None) -> Any:
    """The value of a field after a second value was decoded into it. Objects are changed in place."""
    if not isinstance(old, dict) or not isinstance(new, dict) or shape is None:
        return old if new is None and shape is not None and not shape.is_nullable else new
    if shape.form not in ("map", "struct"):
        return new
    fields = wire.fields(shape.definition) if shape.form == "struct" else None
    for key, value in new.items():
        old[key] = _overlaid(old.get(key), value, fields[key].shape) if fields is not None else value
    return old


def _plain(value: Any) -> Any:
    """The value with dicts again, of the duplicates the last one."""
    if isinstance(value, Pairs):
        return {key: _plain(item) for key, item in value}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
