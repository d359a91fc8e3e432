"""JSON merge patch (RFC 7386), as `gopkg.in/evanphx/json-patch.v4` does it (merge.go).

It differs from the RFC in one thing: inside new values nulls are dropped from objects in lists, too.
"""

from __future__ import annotations

from typing import Any

from fairlead.api.encoded import NULL_BYTES, copied
from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.patches.bodies import ANY_MAP, Parse, encode, read
from fairlead.golang.json import decode
from fairlead.golang.json_errors import json_error
from fairlead.golang.values import unmarshal_error


def decode_merge_patch(body: bytes, *, lenient: bool = False, parse: Parse | None = None) -> Obj:
    """The patch in a body. `lenient` is `fieldValidation=Ignore`, where only the patch library looks at it."""
    if lenient and json_error(body) is not None:
        raise BadRequest("Invalid JSON Patch")
    patch = read(body, parse, "error decoding patch: ")
    if patch is not None and not isinstance(patch, dict) and not lenient:
        raise BadRequest(f"error decoding patch: {unmarshal_error(patch, ANY_MAP)}")
    if not isinstance(patch, dict):
        raise BadRequest("Invalid JSON Patch")
    return patch


def apply_merge_patch(original: Obj, patch: Obj) -> Obj:
    encoded = encode(patch)
    merged = copied(original)
    _merge(merged, decode(encoded), may_hold_nulls=NULL_BYTES in encoded)
    return merged


def _merge(into: Obj, patch: Obj, *, may_hold_nulls: bool) -> None:
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
            continue
        current = into.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            _merge(current, value, may_hold_nulls=may_hold_nulls)
            continue
        if may_hold_nulls and not isinstance(current, dict):
            drop_nulls(value)
        into[key] = value


def drop_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, member in value.items() if member is None]:
            del value[key]
        for member in value.values():
            drop_nulls(member)
    elif isinstance(value, list):
        for member in value:
            drop_nulls(member)
