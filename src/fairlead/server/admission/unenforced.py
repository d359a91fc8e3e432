"""Warns about objects that are stored but not enforced, so that nobody relies on them.

Every kind is served, but Fairlead does not act on all of them yet. A write that asks for something which is not done
is accepted, as the API demands, and answered with a `Warning` that says so. docs/compatibility.md lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource

AGGREGATION: Final = "requests are not forwarded to aggregated API servers"
CLAIMS: Final = "dynamic resources are not allocated"

#: Kinds of which no object is enforced, by group and kind.
_BY_KIND: Final[Mapping[tuple[str, str], str]] = {
    ("resource.k8s.io", "ResourceClaim"): CLAIMS,
    ("resource.k8s.io", "ResourceClaimTemplate"): CLAIMS,
}


def _of_api_service(obj: Obj) -> list[str]:
    return [AGGREGATION] if obj["spec"].get("service") else []


#: Kinds of which some objects are not enforced.
_BY_OBJECT: Final[Mapping[tuple[str, str], Callable[[Obj], list[str]]]] = {
    ("apiregistration.k8s.io", "APIService"): _of_api_service,
}


def unenforced(resource: Resource, obj: Obj) -> list[str]:
    """What of this valid object is not enforced, as texts for `Warning` headers."""
    key = resource.group, resource.kind
    if (text := _BY_KIND.get(key)) is not None:
        return [f"Fairlead stores this {resource.kind}, but {text}"]
    if (look := _BY_OBJECT.get(key)) is not None:
        return [f"Fairlead stores this {resource.kind}, but {text}" for text in look(obj)]
    return []
