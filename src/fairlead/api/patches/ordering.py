"""The order of merged lists: what the patch names keeps the patch's order, the rest keeps the server's.

Both are woven together by where the elements stood on the server. See `normalizeElementOrder` and `mergeSortedSlice`
in k8s.io/apimachinery 1.36, pkg/util/strategicpatch/patch.go, and the design "preserve order in strategic merge patch".
"""

from __future__ import annotations

from typing import Any

from fairlead.api.patches.bodies import PatchDoesNotApply, PatchFailed
from fairlead.golang.values import printed, type_of


def same_kind(*lists: list[Any]) -> type:
    """The one type that all elements have; lists of lists, of nothing and of several types cannot be merged."""
    kinds = {type(element) for elements in lists for element in elements}
    if not kinds:
        raise PatchFailed("no elements in any of the given slices")
    if len(kinds) > 1:
        raise PatchFailed(f"list element types are not identical: {printed(list(lists))}")
    kind = kinds.pop()
    if kind is list:
        raise PatchDoesNotApply  # "lists of lists are not supported", which upstream does not tell
    return kind


def key_of(element: Any, merge_key: str) -> Any:
    """What identifies an element: itself, or its merge key."""
    if not merge_key:
        return _hashable(element)
    if not isinstance(element, dict):
        raise PatchFailed(f"expected a map[string]interface {{}}, but received a {type_of(element)}")
    if merge_key not in element:
        lacking = f"does not contain declared merge key: {merge_key}"
        raise PatchFailed(f"map: {printed(element)} {lacking}", why=f"an element of a list {lacking}")
    return _hashable(element[merge_key])


def _hashable(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise PatchFailed(f"runtime error: hash of unhashable type {type_of(value)}")
    return value


def split(merged: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The elements that the patch (or the order it gives) names, and those that only the server has."""
    named = {key_of(element, merge_key) for element in patch}
    ours: list[Any] = []
    theirs: list[Any] = []
    for element in merged:
        (ours if key_of(element, merge_key) in named else theirs).append(element)
    return ours, theirs


def in_order(
    ours: list[Any], theirs: list[Any], patch_order: list[Any], server_order: list[Any], merge_key: str
) -> list[Any]:
    """Both parts sorted, then woven: an element of theirs goes in front of the first of ours that it preceded."""
    served = _ranks(server_order, merge_key)
    wanted = _ranks(patch_order, merge_key)
    ours = sorted(ours, key=lambda element: wanted.get(key_of(element, merge_key), -1))
    theirs = sorted(theirs, key=lambda element: served.get(key_of(element, merge_key), -1))
    woven: list[Any] = []
    waiting = iter(theirs)
    their = next(waiting, None)
    for our in ours:
        rank = served.get(key_of(our, merge_key))
        while their is not None and rank is not None and served.get(key_of(their, merge_key), rank) < rank:
            woven.append(their)
            their = next(waiting, None)
        woven.append(our)
    if their is not None:
        woven += [their, *waiting]
    return woven


def _ranks(order: list[Any], merge_key: str) -> dict[Any, int]:
    ranks: dict[Any, int] = {}
    for index, element in enumerate(order):
        ranks.setdefault(key_of(element, merge_key), index)
    return ranks
