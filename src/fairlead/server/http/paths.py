"""The grammar of Kubernetes API paths, parsed once.

    /api/v1/…  /apis/GROUP/VERSION/…
        namespaces/NS/PLURAL[/NAME[/SUBRESOURCE]]
        PLURAL[/NAME[/SUBRESOURCE]]
        watch/…                                   (the old spelling of ?watch=1)

Everything else (discovery, health, OpenAPI) is an exact path or a prefix of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """What a resource path points at."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    is_watch: bool = False


#: What may follow a namespace's name and is not a kind: its own subresources.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


def parse(path: str) -> Target | None:
    """The target of a resource path, or None if the path is not one."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    is_watch = rest[0] == "watch"
    if is_watch:
        rest = rest[1:]
        if not rest:
            return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if not all(rest):
        return None
    plural, name, subresource = rest[0], rest[1] if len(rest) > 1 else "", "/".join(rest[2:])
    return Target(group, version, plural, namespace, name, subresource, is_watch)
