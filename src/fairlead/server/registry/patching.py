"""From a PATCH body to the desired object.

The formats themselves are pure functions of `api/patches`; here they meet the kind: its schema for strategic
merges, and what strict field validation says of the patch itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.api.errors import ApiError, BadRequest, UnsupportedMediaType
from fairlead.api.objects import Obj
from fairlead.api.patches import undecodable
from fairlead.api.patches.json import JsonPatch, apply_json_patch, decode_json_patch
from fairlead.api.patches.merge import apply_merge_patch, decode_merge_patch
from fairlead.api.patches.strategic import apply_strategic_patch, decode_strategic_patch
from fairlead.api.verbs import PatchType
from fairlead.golang.json import may_have_duplicates, parse, parse_pairs
from fairlead.golang.values import printed
from fairlead.server.apply.bodies import decode_config, unconvertible
from fairlead.server.codec import duplicates
from fairlead.server.codec.body_types import BodyType
from fairlead.server.codec.schemas import patch_schema
from fairlead.server.context import Desired

#: Custom kinds have no strategic merge: their schemas declare no merge keys.
CUSTOM_PATCHES = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
)


class DecodedPatch(msgspec.Struct, frozen=True):
    """A patch as `desired_of` takes it, and what is wrong with the text itself."""

    body: Any
    strict_errors: Sequence[str] = ()
    repeated_keys: Sequence[str] = ()


def decode_patch(body: bytes, type_: PatchType, field_validation: str) -> DecodedPatch:
    """The patch in a request body."""
    lenient = field_validation == "Ignore"
    if type_ is PatchType.JSON:
        operations = decode_json_patch(body, parse=parse, lenient=lenient)
        repeated = [f"json patch {problem}" for problem in _repeated(body, operations.operations)]
        return DecodedPatch(operations, [*repeated, *operations.unknown])
    if type_ is PatchType.MERGE:
        merge = decode_merge_patch(body, parse=parse, lenient=lenient)
        return DecodedPatch(merge, _repeated(body, merge))
    if type_ is PatchType.STRATEGIC:
        strategic = decode_strategic_patch(body, parse=parse)
        return DecodedPatch(strategic, _repeated(body, strategic))
    if type_ is PatchType.APPLY:
        config, repeated_keys = decode_config(body)
        return DecodedPatch(config, repeated_keys=repeated_keys)
    raise UnsupportedMediaType(f"{type_} is not supported yet")


def _repeated(body: bytes, patch: Any) -> list[str]:
    """What strict decoding says about keys of the patch that come twice."""
    return duplicates.merged(parse_pairs(body), "")[1] if may_have_duplicates(body, patch) else []


def desired_of(definition: str, patch: Any, type_: PatchType) -> Desired:
    """The function from the present object to the desired one. `definition` names the schema of a strategic merge."""
    if type_ is PatchType.JSON:
        operations = patch if isinstance(patch, JsonPatch) else JsonPatch(tuple(patch))
        return lambda old: _object(apply_json_patch(old, operations))
    if type_ is PatchType.MERGE:
        return lambda old: apply_merge_patch(old, patch)
    if type_ is PatchType.STRATEGIC:
        if not definition:
            raise UnsupportedMediaType(CUSTOM_PATCHES)
        schema = patch_schema(definition)
        return lambda old: apply_strategic_patch(old, patch, schema)
    raise UnsupportedMediaType(f"{type_} is not supported yet")


def _object(value: Any) -> Obj:
    if not isinstance(value, dict):
        raise BadRequest("the patched document is not an object")
    return value


def check_kind(patched: Obj, target: BodyType) -> None:
    """Refuse a patch that changes the kind of the document; a document without one is of the kind of the endpoint.

    A strategic merge happens on Go values, which know what they are: there the kind is overlooked.
    """
    kind, api_version = patched.get("kind") or target.kind, patched.get("apiVersion") or target.api_version
    if target.definition and isinstance(kind, str) and isinstance(api_version, str):
        target.check(patched, kind, api_version)


def unreadable(patch: Any, type_: PatchType, sent: Obj, why: str) -> ApiError:
    """The refusal of a patch whose result is not an object of the kind.

    JSON and merge patches are judged as the document that they make; a strategic merge happens on Go values, so its
    errors are those of restoring them (apimachinery `runtime/converter.go`).
    """
    if type_ is PatchType.APPLY:
        return unconvertible(patch, why)
    if type_ is PatchType.STRATEGIC:
        return undecodable(printed(patch), _restoring(why))
    return undecodable(msgspec.json.encode(sent, order="sorted").decode(), why)


_MISMATCH = re.compile(r"cannot unmarshal (\w+) into Go struct field \S+ of type (\S+)$")
_GO_KINDS = {"string": "string", "number": "int64", "bool": "bool", "object": "map", "array": "slice"}


def _restoring(why: str) -> str:
    found = _MISMATCH.search(why)
    if found is None:
        return why
    source, target = _GO_KINDS.get(found[1], found[1]), found[2]
    if target.startswith("map["):
        return f"cannot restore map from {source}"
    if target.startswith("[]"):
        return f"cannot restore slice from {source}"
    if "." in target:
        return f"cannot restore struct from: {source}"
    return f"cannot convert {source} to {target}"
