"""What the rules of a schema could cost at most, which Kubernetes limits when a definition is written.

Source: apiextensions-apiserver/pkg/apis/apiextensions/validation/{cel_validation,validation}.go (1.36).
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.cel.sizes import REQUEST_BYTES, Place, bounded

#: What one rule may cost for one object, and all rules of a schema.
_MOST_A_RULE: Final = 10_000_000
_MOST_A_SCHEMA: Final = 100_000_000
_MOST_TOLD: Final = 4
_ADVICE: Final = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings"
)


class SchemaCost(msgspec.Struct):
    """The rules of one schema, added up."""

    total: int = 0
    #: The paths of those that are not negligible, the most expensive first.
    expensive: list[tuple[int, str]] = msgspec.field(default_factory=list)

    def note(self, cost: int, path: str) -> None:
        self.total = bounded(self.total + cost)
        if cost >= _MOST_A_SCHEMA // 100:
            self.expensive = sorted([*self.expensive, (cost, path)], key=lambda entry: -entry[0])[:_MOST_TOLD]

    def check(self, path: str, errors: Errors) -> None:
        if self.total <= _MOST_A_SCHEMA:
            return
        for _, expensive in self.expensive:
            text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            errors.forbidden(expensive, text)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors.forbidden(path, _exceeds(name, self.total, _MOST_A_SCHEMA))


def check_rule(name: str, cost: int, path: str, errors: Errors) -> None:
    """Refuse an expression that could cost too much by itself."""
    if cost > _MOST_A_RULE:
        errors.forbidden(path, _exceeds(name, cost, _MOST_A_RULE))


def _exceeds(name: str, cost: int, most: int) -> str:
    factor = cost / most
    if factor > 100:
        told = "more than 100x"
    else:
        told = f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {told} ({_ADVICE} are declared)"


def times_below(schema: Obj, times: int | None) -> int | None:
    """How often there can be what a schema holds, if there can be that many of its own; None: nobody says."""
    if times is None:
        return None
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    else:
        return times
    return None if most is None else bounded(times * max(0, most))


def times_in_request(place: Place) -> int:
    """How often there can be a value of that size in the largest request."""
    return REQUEST_BYTES // (place.least_bytes + 1)
