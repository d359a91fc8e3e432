"""Strategic merge patch: a merge patch that knows which lists are sets and which are maps in disguise.

Lists marked `merge` are merged by their key instead of being replaced; directives in the patch (`$patch`,
`$deleteFromPrimitiveList/…`, `$setElementOrder/…`, `$retainKeys`) say what a plain merge cannot. Semantics, orders and
messages are those of k8s.io/apimachinery 1.36, pkg/util/strategicpatch/patch.go; which error has which code is in
`interpretStrategicMergePatchError` (handlers/patch.go of k8s.io/apiserver).
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from fairlead.api.encoded import copied
from fairlead.api.errors import BadRequest
from fairlead.api.objects import Obj
from fairlead.api.patches.bodies import ANY_MAP, Parse, PatchFailed, read
from fairlead.api.patches.merge import drop_nulls
from fairlead.api.patches.ordering import in_order, key_of, same_kind, split
from fairlead.golang.values import printed, type_of, unmarshal_error

_sorted_json = msgspec.json.Encoder(order="sorted").encode

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_LIST: Final = "$deleteFromPrimitiveList"
_ORDER: Final = "$setElementOrder"


class PatchSchema(Protocol):
    """What a strategic merge must know of the type of a value."""

    def field(self, name: str) -> PatchSchema | None:
        """The schema of a field; None if the type has no such field, or fields without a schema."""
        ...

    def items(self) -> PatchSchema | None:
        """The schema of the elements of a list."""
        ...

    @property
    def merge_key(self) -> str | None:
        """`x-kubernetes-patch-merge-key` of the field."""
        ...

    @property
    def strategies(self) -> frozenset[str]:
        """`x-kubernetes-patch-strategy` of the field: merge, replace, retainKeys."""
        ...


def decode_strategic_patch(body: bytes, *, parse: Parse | None = None) -> Obj:
    """The patch in a body."""
    patch = read(body, parse)
    if patch is None:
        return {}
    if not isinstance(patch, dict):
        raise BadRequest(unmarshal_error(patch, ANY_MAP))
    return patch


def apply_strategic_patch(original: Obj, patch: Obj, schema: PatchSchema) -> Obj:
    return _merged(copied(original), copied(patch), schema)


def _merged(original: Obj, patch: Obj, schema: PatchSchema | None) -> Obj:
    """The patch merged into the original. Both may be torn apart: they are copies."""
    if _DIRECTIVE in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _merge_ordered(original, patch, key, schema)
    for key, value in patch.items():
        if key.startswith(_DELETE_LIST):
            _merge_deletions(original, _target(key, _DELETE_LIST), value)
        elif value is None:
            original.pop(key, None)
        else:
            _merge_field(original, key, value, schema)
    return original


def _directed(patch: Obj) -> Obj:
    """A map that says itself what to do with the original."""
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        del patch[_DIRECTIVE]
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: Obj) -> PatchFailed:
    unknown = f"unknown patch type: {printed(directive)}"
    return PatchFailed(f"{unknown} in map: {printed(patch)}", why=unknown)


def _retain_keys(original: Obj, patch: Obj) -> None:
    """`$retainKeys`: drop from the original whatever is not listed."""
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    kept = {key for key in retained if isinstance(key, str)} if isinstance(retained, list) else set()
    if not isinstance(retained, list) or any(
        value is not None and key not in kept and not key.startswith((_DELETE_LIST, _ORDER))
        for key, value in patch.items()
    ):
        raise BadRequest("invalid patch format of retainKeys")
    for key in [key for key in original if key not in kept]:
        del original[key]


def _target(key: str, directive: str) -> str:
    """The field that `$directive/field` is about."""
    prefix, slash, field = key.partition("/")
    if prefix != directive or not slash:
        what = "primitive list" if directive == _DELETE_LIST else "setElementOrder list"
        raise BadRequest(f"invalid patch format of {what}")
    return field


def _merge_deletions(original: Obj, field: str, deleted: Any) -> None:
    """`$deleteFromPrimitiveList/field`: take these values out of the list."""
    current = original.get(field)
    if deleted is None:
        original.pop(field, None)
    elif isinstance(current, list) and isinstance(deleted, list):
        if current or deleted:
            same_kind(current, deleted)
        gone = {_form(value) for value in deleted}
        original[field] = [value for value in current if _form(value) not in gone]


def _form(value: Any) -> Any:
    """What equal values have in common, as a key of a set."""
    return _sorted_json(value) if isinstance(value, dict | list) else value


def _merge_field(original: Obj, key: str, value: Any, schema: PatchSchema | None) -> None:
    current = original.get(key)
    if isinstance(value, dict) and isinstance(current, dict):
        sub = _schema_of(schema, key)
        original[key] = value if "replace" in sub.strategies else _merged(current, value, sub)
    elif isinstance(value, list) and isinstance(current, list):
        original[key] = _merge_lists(current, value, _schema_of(schema, key))
    else:
        drop_nulls(value)
        if _strip_directives(value):
            original[key] = value
        else:
            original.pop(key, None)


def _schema_of(schema: PatchSchema | None, key: str) -> PatchSchema:
    found = schema.field(key) if schema is not None else None
    if found is None:
        raise PatchFailed(f'unable to find api field "{key}"')
    return found


def _strip_directives(value: Any) -> bool:
    """Take everything with a directive out of a value that is added as it is; False if it is one itself."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return False
        for key in [key for key, member in value.items() if not _strip_directives(member)]:
            del value[key]
    elif isinstance(value, list):
        value[:] = [member for member in value if _strip_directives(member)]
    return True


def _merge_lists(current: list[Any], patch: list[Any], schema: PatchSchema) -> list[Any]:
    """Merge a list with the patch of it, as its strategy says; new elements come first if nothing orders them."""
    if "merge" not in schema.strategies:
        return patch
    if not current and not patch:
        return current
    merge_key = schema.merge_key or ""
    if same_kind(current, patch) is not dict:
        ours, theirs = split(list(dict.fromkeys(current + patch)), patch, merge_key)
        return in_order(ours, theirs, patch, current, merge_key)
    if not merge_key:
        raise PatchFailed("cannot merge lists without merge key for struct")
    kept, patch = _apply_element_directives(current, patch, merge_key)
    merged = _merge_elements(kept, patch, merge_key, schema.items())
    ours, theirs = split(merged, patch, merge_key)
    return in_order(ours, theirs, patch, kept, merge_key)


def _apply_element_directives(current: list[Obj], patch: list[Obj], merge_key: str) -> tuple[list[Obj], list[Obj]]:
    """Act on the elements that carry `$patch`; what is left of the list, and of its patch."""
    plain = [element for element in patch if _DIRECTIVE not in element]
    is_replaced = False
    deleted = set()
    for element in patch:
        directive = element.get(_DIRECTIVE)
        if _DIRECTIVE not in element:
            continue
        if directive == "delete":
            deleted.add(key_of(element, merge_key))
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise PatchFailed("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(directive, element)
    if is_replaced:
        return plain, []
    return [
        element for element in current if merge_key not in element or _form(element[merge_key]) not in deleted
    ], plain


def _merge_elements(current: list[Obj], patch: list[Obj], merge_key: str, schema: PatchSchema | None) -> list[Obj]:
    merged = list(current)
    places: dict[Any, int] = {}
    for index, element in enumerate(merged):
        if merge_key in element:
            places.setdefault(element[merge_key], index)
    for element in patch:
        key = key_of(element, merge_key)
        place = places.get(key)
        if place is None:
            places[key] = len(merged)
            merged.append(element)
        else:
            merged[place] = _merged(merged[place], element, schema)
    return merged


def _merge_ordered(original: Obj, patch: Obj, key: str, schema: PatchSchema | None) -> None:
    """`$setElementOrder/field`: merge that list now, and put its elements in the given order."""
    order = _list(patch.pop(key))
    field = _target(key, _ORDER)
    has_current, has_patch = field in original, field in patch
    current = _list(original[field]) if has_current else []
    changes = _list(patch[field]) if has_patch else []
    sub = _schema_of(schema, field)
    merge_key = sub.merge_key or ""
    _check_order(changes, order, merge_key)
    if not has_current and not has_patch:
        return
    served = current
    if has_current and has_patch:
        merged = _merge_lists(current, changes, sub)
        served = _served_order(current, changes, merge_key)
    elif has_patch:
        _strip_directives(changes)
        merged = changes
    else:
        merged = current
    ours, theirs = split(merged, order, merge_key)
    same_kind(current, changes)
    original[field] = in_order(ours, theirs, order, served, merge_key)
    patch.pop(field, None)


def _served_order(current: list[Any], changes: list[Any], merge_key: str) -> list[Any]:
    """The order that counts as the server's: upstream deletes in the same array, and what is added moves up."""
    directed = [element for element in changes if isinstance(element, dict) and _DIRECTIVE in element]
    if not merge_key or not directed or any(element[_DIRECTIVE] != "delete" for element in directed):
        return current
    kept, added = _apply_element_directives(current, changes, merge_key)
    known = {key_of(element, merge_key) for element in kept if merge_key in element}
    new = {key_of(element, merge_key): element for element in added if key_of(element, merge_key) not in known}
    return kept + list(new.values())[: len(current) - len(kept)]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PatchFailed(f"expected a []interface {{}}, but received a {type_of(value)}")
    return value


def _check_order(changes: list[Any], order: list[Any], merge_key: str) -> None:
    """What the patch keeps must be a subset of the order, and in that order."""
    if not changes or not order:
        return
    kept = [
        element
        for element in changes
        if not (merge_key and isinstance(element, dict) and element.get(_DIRECTIVE) == "delete")
    ]
    position = 0
    for wanted in order:
        while position < len(kept) and isinstance(kept[position], dict) and _DIRECTIVE in kept[position]:
            position += 1
        if position == len(kept):
            break
        position += key_of(kept[position], merge_key) == key_of(wanted, merge_key)
    if position < len(kept):
        raise PatchFailed(
            f"The order in patch list:\n{printed(changes)}\n doesn't match {_ORDER} list:\n{printed(order)}\n"
        )
