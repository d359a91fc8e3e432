"""All containers of a pod, of whatever kind, in the order in which upstream visits them (VisitContainersWithPath)."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.objects import Obj

_LISTS = ("initContainers", "containers", "ephemeralContainers")


def each_container(spec: Obj) -> Iterator[Obj]:
    for kind in _LISTS:
        yield from spec.get(kind) or ()


def each_with_path(spec: Obj, path: str) -> Iterator[tuple[Obj, str]]:
    for kind in _LISTS:
        for i, container in enumerate(spec.get(kind) or ()):
            yield container, f"{path}.{kind}[{i}]"
