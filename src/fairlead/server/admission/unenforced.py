"""Warns about objects that are stored but not enforced, so that nobody relies on them.

Every kind is served, but Fairlead does not act on all of them yet. A write that asks for something which is not done
is accepted, as the API demands, and answered with a `Warning` that says so. docs/compatibility.md lists all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource

CLAIMS: Final = "dynamic resources are not allocated"

#: Kinds of which no object is enforced, by group and kind.
_BY_KIND: Final[Mapping[tuple[str, str], str]] = {
    ("resource.k8s.io", "ResourceClaim"): CLAIMS,
    ("resource.k8s.io", "ResourceClaimTemplate"): CLAIMS,
}


def unenforced(resource: Resource, obj: Obj) -> list[str]:
    """What of this valid object is not enforced, as texts for `Warning` headers."""
    text = _BY_KIND.get((resource.group, resource.kind))
    return [] if text is None else [f"Fairlead stores this {resource.kind}, but {text}"]
