"""The declarations of a Go package of API types.

API types are written in a narrow form that a few expressions cover: structs with one tagged field a line, named types,
typed string constants, and markers (`// +enum`) in the comment above. Everything else in a file is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r'^(?:import|\t)\s*(?:(\w+)\s+)?"([\w./-]+)"$')
_TYPE: Final = re.compile(r"^type\s+(\w+)\s+(=\s*)?(struct\s*\{\s*\}?|[\w.*\[\]]+)\s*(?://.*)?$")
_FIELD: Final = re.compile(r"^\s+(?:(\w+)\s+)?([\w.*\[\]]+)\s*(?:`([^`]*)`)?\s*(?://.*)?$")
_TAG: Final = re.compile(r'(\w+):"([^"]*)"')
#: `Name Type = value` or `Name = Type(value)`; the value is a string or the name of another constant.
_VALUE: Final = r'("(?:[^"\\]|\\.)*"|[\w.]+)'
_TYPED: Final = re.compile(rf"^(?:const|\t)\s*(\w+)\s+(\w+)\s*=\s*{_VALUE}\s*(?://.*)?$")
_CONVERTED: Final = re.compile(rf"^(?:const|\t)\s*(\w+)\s*=\s*(\w+)\({_VALUE}\)\s*(?://.*)?$")
_MARKER: Final = re.compile(r"^\s*//\s*\+([\w.:]+)(?:=(.*))?$")
_METHOD: Final = re.compile(r"^func \(\w+ \*?(\w+)\) MarshalJSON\(\)")
_BLOCK_COMMENT: Final = re.compile(r"^\s*/\*.*?\*/", re.DOTALL | re.MULTILINE)

Markers = dict[str, str]
Imports = dict[str, str]  # the name of a package in a file, to its path


class GoSourceError(Exception):
    """A source is not there, or not of the form that API types have."""


@dataclass(frozen=True, slots=True)
class GoField:
    """A field of a struct; an embedded struct has no name."""

    name: str
    type: str
    tags: dict[str, str]
    markers: Markers


@dataclass(frozen=True, slots=True)
class GoType:
    """A struct, or a named type and what it stands for (with `is_alias`: what it is)."""

    name: str
    underlying: str
    is_alias: bool
    fields: tuple[GoField, ...]
    markers: Markers
    imports: Imports

    @property
    def is_struct(self) -> bool:
        return self.underlying == "struct"


@dataclass(frozen=True, slots=True)
class GoConstant:
    """A constant of a named type, its value as it is written."""

    type: str
    value: str
    imports: Imports


@dataclass(slots=True)
class GoPackage:
    """What a folder declares, by name."""

    types: dict[str, GoType] = field(default_factory=dict)
    constants: dict[str, GoConstant] = field(default_factory=dict)
    marshalers: set[str] = field(default_factory=set)  # types that write their own JSON


def read_package(folder: Path) -> GoPackage:
    """All declarations of a folder, tests and generated code left out."""
    files = [
        path
        for path in sorted(folder.glob("*.go"))
        if not path.name.endswith(("_test.go", ".pb.go")) and not path.name.startswith("zz_generated")
    ]
    if not files:
        raise GoSourceError(f"{folder} holds no Go sources; give the source tree of a Kubernetes release")
    package = GoPackage()
    for path in files:
        _read_file(path.read_text("utf-8"), package)
    return package


def _read_file(text: str, package: GoPackage) -> None:
    imports: Imports = {}
    markers: Markers = {}
    lines = iter(_BLOCK_COMMENT.sub("", text).splitlines())
    for line in lines:
        if line.lstrip().startswith("//"):
            markers |= _markers(line)
            continue
        if found := _IMPORT.match(line):
            imports[found[1] or found[2].rpartition("/")[2]] = found[2]
        elif found := _TYPED.match(line) or _CONVERTED.match(line):
            package.constants[found[1]] = GoConstant(found[2], found[3], imports)
        elif found := _METHOD.match(line):
            package.marshalers.add(found[1])
        elif found := _TYPE.match(line):
            name, alias, underlying = found[1], bool(found[2]), found[3]
            fields = tuple(_fields(lines)) if underlying.endswith("{") else ()
            underlying = "struct" if underlying.startswith("struct") else underlying
            package.types[name] = GoType(name, underlying, alias, fields, markers, imports)
        markers = {}


def _fields(lines: Iterator[str]) -> Iterator[GoField]:
    markers: Markers = {}
    for line in lines:
        if line == "}":
            return
        if line.lstrip().startswith("//"):
            markers |= _markers(line)
            continue
        if line.strip():
            name, type_, tags = found.groups() if (found := _FIELD.match(line)) else (line.strip(), "", "")
            yield GoField(name or "", type_, dict(_TAG.findall(tags or "")), markers)
        markers = {}


def _markers(line: str) -> Markers:
    found = _MARKER.match(line)
    return {found[1]: (found[2] or "").strip()} if found else {}
