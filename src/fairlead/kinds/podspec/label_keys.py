"""`matchLabelKeys` and `mismatchLabelKeys`: labels whose values a pod shares with those it is compared to, or not.

The server merges them into the selector beside them when a pod is created (`creation.py`), so here each is expected
there once; twice means that the user asked for the label too.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.fields import Errors
from fairlead.api.names import qualified_name
from fairlead.api.objects import Obj
from fairlead.kinds.rules import check

_TWICE = "exists in both matchLabelKeys and labelSelector"


def validate_label_keys(owner: Obj, path: str, errors: Errors) -> None:
    """The keys of an affinity term or of a spread constraint."""
    match, mismatch = owner.get("matchLabelKeys"), owner.get("mismatchLabelKeys")
    if not match and not mismatch:
        return
    selector = owner.get("labelSelector")
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
            continue
        for i, key in enumerate(keys or ()):
            check(errors, f"{path}.{field}[{i}]", key, qualified_name)
    if selector is not None:
        _validate_asked_once(match or (), selector, path, errors)
    both = set(match or ()).intersection(mismatch or ())
    for i, key in enumerate(match or ()):
        if key in both:
            errors.invalid(f"{path}.matchLabelKeys[{i}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _validate_asked_once(match: Sequence[str], selector: Obj, path: str, errors: Errors) -> None:
    positions = {key: i for i, key in enumerate(match)}
    seen = set(selector.get("matchLabels") or ())
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in positions and key in seen:
            errors.invalid(f"{path}[{positions[key]}]", key, _TWICE)
        seen.add(key)
