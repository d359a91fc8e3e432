"""All functions by name: those of every version up to 1.36 (k8s.io/apiserver/pkg/cel/environment/base.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead.cel.functions import (
    addresses,
    authorizer,
    formats,
    lists,
    optionals,
    patches,
    quantities,
    regex,
    standard,
    strings,
    times,
)
from fairlead.cel.functions.overloads import Overload

_LIBRARIES: Final = (
    standard,
    times,
    strings,
    lists,
    optionals,
    regex,
    quantities,
    addresses,
    formats,
    authorizer,
    patches,
)


def _by_name() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for overload in library.overloads():
            found.setdefault(overload.function, []).append(overload)
    return found


OVERLOADS: Final[Mapping[str, Sequence[Overload]]] = _by_name()
