"""JSON patch (RFC 6902), with the habits of `gopkg.in/evanphx/json-patch.v4` (patch.go).

`replace` of a missing key adds it, negative indices count from the end, `copy` of a missing key copies null, whatever
precedes the first slash of a path is ignored. Why a patch does not apply is never told (`PatchDoesNotApply`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.encoded import copied
from fairlead.api.errors import BadRequest, EntityTooLarge
from fairlead.api.objects import Obj
from fairlead.api.patches.bodies import Parse, PatchDoesNotApply, read, size_of
from fairlead.golang.values import unmarshal_error

MAX_OPERATIONS: Final = 10000
#: What all `copy` operations of a patch together may add (`JSONPatchMaxCopyBytes`).
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024

_INDEX: Final = re.compile("[+-]?[0-9]{1,18}").fullmatch
_TEXTS: Final = ("op", "path", "from")
_FIELDS: Final = frozenset({*_TEXTS, "value"})


class JsonPatch(msgspec.Struct, frozen=True):
    operations: tuple[Obj, ...]
    #: Strict decoding errors (`json patch unknown field "[0].x"`): warnings, or a refusal under `Strict`.
    unknown: tuple[str, ...] = ()


def decode_json_patch(body: bytes, *, lenient: bool = False, parse: Parse | None = None) -> JsonPatch:
    """The patch in a body. `lenient` is `fieldValidation=Ignore`, where only the patch library looks at it."""
    prefix = "" if lenient else "error decoding patch: "
    list_type, item_type = (
        ("jsonpatch.Patch", "jsonpatch.Operation") if lenient else ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    )
    operations = read(body, parse, prefix)
    if operations is None:
        operations = []
    if not isinstance(operations, list):
        raise BadRequest(prefix + unmarshal_error(operations, list_type))
    unknown: list[str] = []
    for index, operation in enumerate(operations):
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise BadRequest(prefix + unmarshal_error(operation, item_type))
        if not lenient:
            _check_texts(operation, prefix)
            unknown += [f'json patch unknown field "[{index}].{key}"' for key in operation if key not in _FIELDS]
    if len(operations) > MAX_OPERATIONS:
        raise EntityTooLarge(
            "Request entity is too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}"
        )
    return JsonPatch(tuple(operation or {} for operation in operations), tuple(unknown))


def _check_texts(operation: Obj, prefix: str) -> None:
    for key in _TEXTS:
        value = operation.get(key)
        if value is not None and not isinstance(value, str):
            what = unmarshal_error(value, "string").replace("Go value", f"Go struct field jsonPatchOp.{key}")
            raise BadRequest(prefix + what)


def apply_json_patch(original: Obj, patch: JsonPatch) -> Any:
    """The patched document; a patch may well turn it into something that is no object."""
    document = _Document(copied(original))
    for operation in patch.operations:
        kind = operation.get("op")
        run = _OPERATIONS.get(kind) if isinstance(kind, str) else None
        try:
            if run is None:
                raise PatchDoesNotApply
            run(document, operation)
        except PatchDoesNotApply as error:
            error.why = _complaint(operation)
            raise
    return document.root


def _complaint(operation: Obj) -> str:
    """What the library says of an operation that cannot be done."""
    kind, path = operation.get("op"), operation.get("path")
    if kind not in list(_OPERATIONS):
        return f"Unexpected kind: {kind}"
    if kind == "test":
        return f"testing value {path} failed: test failed"
    return f'{kind} operation does not apply: doc is missing path: "{path}": missing value'


class _Document:
    """The document under work, and how much was copied within it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied_bytes = 0

    def place(self, pointer: str) -> tuple[Any, str]:
        """The container that a pointer ends in, and the key or index within it."""
        _, *parts = pointer.split("/")
        if not parts:
            raise PatchDoesNotApply
        container = self.root
        for part in parts[:-1]:
            container = _get(container, _unescaped(part))
            if not isinstance(container, dict | list):
                raise PatchDoesNotApply
        return container, _unescaped(parts[-1])


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def _text(operation: Obj, key: str) -> str:
    value = operation.get(key)
    if not isinstance(value, str):
        raise PatchDoesNotApply
    return value


def _index(key: str, length: int) -> int:
    """The index that a key means in a list of that length; negative ones count from the end."""
    if not _INDEX(key):
        raise PatchDoesNotApply
    index = int(key)
    if index < 0:
        index += length
    if not 0 <= index < length:
        raise PatchDoesNotApply
    return index


def _get(container: Any, key: str) -> Any:
    """The value there; a missing key of an object is null, a missing index is an error."""
    return container.get(key) if isinstance(container, dict) else container[_index(key, len(container))]


def _insert(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, len(container) + 1), value)


def _delete(container: Any, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise PatchDoesNotApply


def _add(document: _Document, operation: Obj) -> None:
    container, key = document.place(_text(operation, "path"))
    _insert(container, key, copied(operation.get("value")))


def _remove(document: _Document, operation: Obj) -> None:
    _delete(*document.place(_text(operation, "path")))


def _replace(document: _Document, operation: Obj) -> None:
    pointer, value = _text(operation, "path"), copied(operation.get("value"))
    if not pointer:
        if not isinstance(value, dict | list):
            raise PatchDoesNotApply
        document.root = value
        return
    container, key = document.place(pointer)
    container[key if isinstance(container, dict) else _index(key, len(container))] = value


def _move(document: _Document, operation: Obj) -> None:
    container, key = document.place(_text(operation, "from"))
    value = _get(container, key)
    _delete(container, key)
    container, key = document.place(_text(operation, "path"))
    _insert(container, key, value)


def _copy(document: _Document, operation: Obj) -> None:
    value = _get(*document.place(_text(operation, "from")))
    container, key = document.place(_text(operation, "path"))
    document.copied_bytes += size_of(value)
    if document.copied_bytes > MAX_COPIED_BYTES:
        raise PatchDoesNotApply
    _insert(container, key, copied(value))


def _test(document: _Document, operation: Obj) -> None:
    pointer = _text(operation, "path")
    value = _get(*document.place(pointer)) if pointer else document.root
    if not _equal(value, operation.get("value")):
        raise PatchDoesNotApply


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON: unlike Python's, `1` is neither `1.0` nor `true`."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


_OPERATIONS: Final[Mapping[str, Callable[[_Document, Obj], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
