"""What a real node makes of each field of a pod: it refuses a pod that has a field it does not honour, and names it.

`pod_fields.txt` has a row for every field of a PodSpec. What has none counts as a promise that would be broken: that is
what Kubernetes invents next. A value that asks for nothing (false, empty) is no promise, unless the row names it. A
node without root honours less: `pod_fields_of_user.txt` has the rows that are others there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.admission import Refusal

UNSUPPORTED: Final = "UnsupportedField"
ROOT: Final = "PodSpec"


class Verdict(StrEnum):
    WORKS = "works"
    #: It does, within a limit that the note tells.
    LIMITED = "limited"
    REFUSED = "refused"


class Field(msgspec.Struct, frozen=True):
    """What becomes of a field."""

    name: str
    #: The type of its value, or of the values in its list, where that has fields which are looked at.
    type: str
    verdict: Verdict
    #: The values that are refused; none where all are.
    values: tuple[str, ...] = ()
    note: str = ""

    def refuses(self, value: Any) -> str:
        """Which value is refused; empty if this one is not, `*` if any would be."""
        if self.verdict is not Verdict.REFUSED:
            return ""
        if not self.values:
            return "" if _asks_for_nothing(value) else "*"
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return text if any(fnmatchcase(text, pattern) for pattern in self.values) else ""


#: The fields of a type by name.
Fields = Mapping[str, Field]


@cache
def fields() -> Mapping[str, Fields]:
    """Those of all types, in the order of the file."""
    return _read("pod_fields.txt")


@cache
def fields_of_user() -> Mapping[str, Fields]:
    """What differs on the node of a user without root."""
    return _read("pod_fields_of_user.txt")


@cache
def all_fields_of_user() -> Mapping[str, Fields]:
    other = fields_of_user()
    return {type_: {**known, **other.get(type_, {})} for type_, known in fields().items()}


def _read(name: str) -> Mapping[str, Fields]:
    found: dict[str, dict[str, Field]] = {}
    current: dict[str, Field] = {}
    for line in files(__package__).joinpath(name).read_text("utf-8").splitlines():
        if line.startswith("  "):
            field = _field(line)
            current[field.name] = field
        elif line and not line.startswith("#"):
            current = found[line] = {}
    return found


def refusal(manifest: Obj, *, has_root: bool = True) -> Refusal | None:
    """Why this node does not take the pod; None if it honours all that the pod says."""
    every = fields() if has_root else all_fields_of_user()
    field = next(_refused(manifest["spec"], ROOT, every, "spec"), "")
    return Refusal(UNSUPPORTED, f"{field} is not supported by this node") if field else None


def _refused(values: Obj, type_: str, every: Mapping[str, Fields], path: str) -> Iterator[str]:
    for name, value in values.items():
        here = f"{path}.{name}"
        if (field := every[type_].get(name)) is None:
            if not _asks_for_nothing(value):
                yield here
            continue
        if refused := field.refuses(value):
            yield here if refused == "*" else f"{here} {refused}"
        elif field.type and isinstance(value, dict):
            yield from _refused(value, field.type, every, here)
        elif field.type and isinstance(value, list):
            for index, entry in enumerate(value):
                yield from _refused(entry, field.type, every, f"{here}[{index}]")


def _asks_for_nothing(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})


def _field(line: str) -> Field:
    names, verdict, note = (*(part.strip() for part in line.split("|", 2)), "")[:3]
    name, _, type_ = names.partition(" ")
    kind, *values = verdict.split()
    return Field(name, type_, Verdict(kind), tuple(values), note)
