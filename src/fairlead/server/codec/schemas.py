"""The OpenAPI definitions of the built-in kinds, and how their lists and maps are merged.

One source of truth: the definitions of the compatibility version that the package kubernetes-validate ships. Served
OpenAPI, strategic merge and server-side apply read them here; the facts that OpenAPI lacks are in `wire`. They are
1.3 MB, so `tools/build_hook.py` packs each of them by itself, and none is unpacked before it is asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import KeysView
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from fairlead.api.objects import Obj

_FILE: Final = "definitions.msgpack"  # made when Fairlead is built: name to compressed JSON
_REF: Final = "#/$defs/"
#: The OpenAPI type "or null" is how kubernetes-validate says that a value may be left out.
_NULL: Final = "null"


class DefinitionsMissing(Exception):
    """Building Fairlead makes the definitions; this copy runs from sources that were never built."""


@cache
def _packed() -> dict[str, bytes]:
    path = files(__package__).joinpath(_FILE)
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=dict[str, bytes])
    except FileNotFoundError:
        raise DefinitionsMissing(
            f"{path} is not there: run `pip install -e .` in the checkout, which makes it, or install Fairlead."
        ) from None


def definitions() -> KeysView[str]:
    """The names of all definitions."""
    return _packed().keys()


@cache
def definition(name: str) -> Obj:
    """One definition; shared, so nobody may change it. KeyError if there is none of that name."""
    found: Obj = msgspec.json.decode(zlib.decompress(_packed()[name]))
    return found


class Schema(msgspec.Struct, frozen=True):
    """A place in the definitions: what a value there looks like, and how the field that has it is merged."""

    node: Obj  # what the field says of itself: merge keys, list types
    body: Obj  # what its type says: properties, items

    def field(self, name: str) -> Schema | None:
        """The schema of a field, or of every value of a map; None if there is no such field."""
        found = self.body.get("properties", {}).get(name) or self.body.get("additionalProperties")
        return _schema(found) if found else None

    def items(self) -> Schema | None:
        """The schema of the elements of a list."""
        found = self.body.get("items")
        return _schema(found) if found else None

    @property
    def type(self) -> str:
        """`object`, `array`, `string`, `integer`, `number`, `boolean`; empty where anything may be."""
        declared = self.body.get("type", "")
        return declared if isinstance(declared, str) else next((name for name in declared if name != _NULL), "")

    @property
    def is_map(self) -> bool:
        """Whether this is an object whose keys are data."""
        return "additionalProperties" in self.body

    # -- strategic merge

    @property
    def merge_key(self) -> str | None:
        key: str | None = self.node.get("x-kubernetes-patch-merge-key")
        return key

    @property
    def strategies(self) -> frozenset[str]:
        return frozenset(self.node.get("x-kubernetes-patch-strategy", "").split(",")) - {""}

    # -- server-side apply

    @property
    def list_type(self) -> str:
        """`atomic` (also where nothing is said), `set` or `map`."""
        list_type: str = self.node.get("x-kubernetes-list-type", "atomic")
        return list_type

    @property
    def list_map_keys(self) -> tuple[str, ...]:
        """The fields that together identify an element of a list of type `map`."""
        return tuple(self.node.get("x-kubernetes-list-map-keys", ()))


@cache
def schema_of(name: str) -> Schema:
    """The schema of a definition."""
    body = definition(name)
    return Schema(body, body)


#: What `api.patches` asks of a kind is a part of a schema.
patch_schema = schema_of


def _schema(node: Obj) -> Schema:
    ref = node.get("$ref", "")
    return Schema(node, definition(ref.removeprefix(_REF)) if ref else node)
