"""Named formats (`format.dns1123Label().validate(x)`, library/format.go) and semantic versions (library/semver.go)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from fairlead.api import names
from fairlead.cel.errors import CelError
from fairlead.cel.functions import addresses, costs, times
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import BOOL, INT, STRING, list_of, opaque, optional_of
from fairlead.cel.values import NONE, Opaque, OptionalValue, some

_Rule = Callable[[str], Sequence[str]]
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z\-.]+))?(?:\+([0-9A-Za-z\-.]+))?", re.A
)
_LONGEST_VERSION: Final = 256


@dataclass(frozen=True, slots=True)
class NamedFormat(Opaque):
    name: str
    rule: _Rule
    type_name = "kubernetes.NamedFormat"

    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Semver(Opaque):
    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...]
    type_name = "kubernetes.Semver"

    def key(self) -> tuple[object, ...]:
        """Orders versions: those of a prerelease before the release, numbers before words."""
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return self.numbers, not self.prerelease, parts


FORMAT, SEMVER = opaque(NamedFormat), opaque(Semver)


def _read_by(read: Callable[[str], object], text: str) -> _Rule:
    def rule(value: str) -> Sequence[str]:
        try:
            read(value)
        except (CelError, ValueError):
            return [text]
        return []

    return rule


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _uuid(text: str) -> None:
    if not _UUID.fullmatch(text):
        raise ValueError(text)


def _prefix_of(rule: _Rule) -> _Rule:
    """Names that are completed with a suffix may end with a dash (apimachinery's `NameIsDNSSubdomain(name, true)`)."""
    return lambda text: rule(f"{text}a" if text.endswith("-") else text)


_FORMATS: Final[dict[str, _Rule]] = {
    "dns1123Label": names.dns1123_label,
    "dns1123Subdomain": names.dns1123_subdomain,
    "dns1035Label": names.dns1035_label,
    "dns1123LabelPrefix": _prefix_of(names.dns1123_label),
    "dns1123SubdomainPrefix": _prefix_of(names.dns1123_subdomain),
    "dns1035LabelPrefix": _prefix_of(names.dns1035_label),
    "qualifiedName": names.qualified_name,
    "labelValue": names.label_value,
    "uri": _read_by(addresses.read_url, "invalid URI"),
    "uuid": _read_by(_uuid, "does not match the UUID format"),
    "byte": _read_by(_base64, "invalid base64"),
    "date": _read_by(date.fromisoformat, "invalid date"),
    "datetime": _read_by(times.read_timestamp, "invalid datetime"),
}


def overloads() -> Iterator[Overload]:
    for name, rule in _FORMATS.items():
        named = NamedFormat(name, rule)
        yield from functions((f"format.{name}", [], FORMAT, lambda named=named: named))
    yield from functions(("format.named", [STRING], optional_of(FORMAT), _named))
    yield from methods(
        FORMAT,
        ("validate", [STRING], optional_of(list_of(STRING)), _validated),
        cost=lambda _, text: costs.traversal(text),
    )
    yield from functions(
        ("semver", [STRING], SEMVER, semver),
        ("semver", [STRING, BOOL], SEMVER, lambda text, normalize: semver(text, normalize=normalize)),
        ("isSemver", [STRING], BOOL, lambda text: _is_semver(text, False)),
        ("isSemver", [STRING, BOOL], BOOL, lambda text, normalize: _is_semver(text, normalize)),
        cost=costs.target,
    )
    yield from methods(
        SEMVER,
        ("major", [], INT, lambda version: version.numbers[0]),
        ("minor", [], INT, lambda version: version.numbers[1]),
        ("patch", [], INT, lambda version: version.numbers[2]),
        ("isGreaterThan", [SEMVER], BOOL, lambda a, b: a.key() > b.key()),
        ("isLessThan", [SEMVER], BOOL, lambda a, b: a.key() < b.key()),
        ("compareTo", [SEMVER], INT, lambda a, b: (a.key() > b.key()) - (a.key() < b.key())),
    )


def _named(name: str) -> OptionalValue:
    rule = _FORMATS.get(name)
    return NONE if rule is None else some(NamedFormat(name, rule))


def _validated(named: NamedFormat, text: str) -> OptionalValue:
    """What is wrong with a text; none if nothing is."""
    found = list(named.rule(text))
    return some(found) if found else NONE


def semver(text: str, *, normalize: bool = False) -> Semver:
    """Raises CelError."""
    written = _normalized(text) if normalize else text
    found = _SEMVER.fullmatch(written) if len(written) <= _LONGEST_VERSION else None
    parts = tuple(found[4].split(".")) if found and found[4] else ()
    if found is None or any(not part or (part.isdigit() and part != "0" and part[0] == "0") for part in parts):
        raise CelError(f"semver: cannot parse {text[:_LONGEST_VERSION]!r}")
    return Semver((int(found[1]), int(found[2]), int(found[3])), parts)


def _normalized(text: str) -> str:
    """Without a leading v and leading zeros, with as many numbers as there must be."""
    text = text.strip().removeprefix("v")
    end = next((index for index, character in enumerate(text) if character in "-+"), len(text))
    numbers = text[:end].split(".")
    numbers = [number.lstrip("0") or "0" if number.isdigit() else number for number in numbers]
    if end == len(text):
        numbers += ["0"] * (3 - len(numbers))
    return ".".join(numbers) + text[end:]


def _is_semver(text: str, normalize: bool) -> bool:
    try:
        semver(text, normalize=normalize)
    except CelError:
        return False
    return True
