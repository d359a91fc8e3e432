"""Variables out of files that init containers have written: `valueFrom.fileKeyRef` (KEP-3721, beta in 1.36).

    # a comment
    NAME='a value, taken literally,
    also over several lines' # and another

Whoever can write to the volume may have left there whatever he likes: what is read is a plain file within the volume,
of limited length. Sources: ParseEnv of pkg/kubelet/util/env, makeEnvironmentVariables of pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent import linux
from fairlead.api.objects import Obj
from fairlead.golang.quoting import go_quote

#: As much as a ConfigMap may hold; a kubelet reads on until it has the key.
LONGEST_FILE: Final = 1 << 20
#: Of a line, with its end: Go's bufio.Scanner.
_LONGEST_LINE: Final = 64 << 10
_BLANK: Final = b" \t"

log = logging.getLogger(__name__)


class NoVariable(Exception):
    """Why there is no value, as a kubelet tells it."""


class Variables(msgspec.Struct, frozen=True):
    """What a file says: a kubelet reads it up to the key that it looks for, and so never sees what is wrong below."""

    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: What ended the reading; empty at the end of the file.
    problem: str = ""


class EnvFiles(msgspec.Struct, frozen=True):
    """For one container, which may name a file many times; `volume` is where one is, by name.

    The last file alone is kept: a container may name thousands.
    """

    volume: Callable[[str], Path | None]
    _read: dict[Path, Variables] = msgspec.field(default_factory=dict)

    async def value(self, reference: Obj) -> str | None:
        """None for an optional key that is not there. NoVariable."""
        name, key = reference["volumeName"], reference["key"]
        if (folder := self.volume(name)) is None:
            raise NoVariable(f"cannot find the volume {go_quote(name)} referenced by FileKeyRef")
        path = folder / reference["path"].lstrip("/")
        if (found := self._read.get(path)) is None:
            self._read.clear()
            found = self._read[path] = await asyncio.to_thread(_variables_at, folder, reference["path"])
        if key not in found.values and found.problem:
            log.warning("a file of variables cannot be read: %s: %s", path, found.problem)
            raise NoVariable("couldn't parse env file")
        if value := found.values.get(key):
            return value
        if reference.get("optional"):
            return None
        raise NoVariable(f"environment variable key {go_quote(key)} not found in file {go_quote(str(path))}")


def variables_in(text: bytes) -> Variables:
    """The first value of each name."""
    values: dict[str, str] = {}
    lines = enumerate(_lines(text), 1)
    try:
        for number, line in lines:
            line = line.lstrip(_BLANK)
            if not line or line.startswith(b"#"):
                continue
            name, mark, value = line.partition(b"=")
            if not mark or not name or name != name.rstrip(_BLANK):
                return Variables(values, f"line {number} is no NAME='VALUE'")
            if value.startswith((b" ", b"\t")):
                value = b""  # as in a shell, to which the rest is a command
            elif not value.startswith(b"'"):
                return Variables(values, f"line {number}: the value is not in single quotes")
            else:
                value = _quoted(value[1:], lines)
            values.setdefault(name.decode(errors="replace"), value.decode(errors="replace"))
    except ValueError as problem:
        return Variables(values, str(problem))
    return Variables(values)


def _quoted(rest: bytes, lines: Iterator[tuple[int, bytes]]) -> bytes:
    """Up to the next quote, after which only a comment may follow; ValueError."""
    parts = []
    while True:
        part, mark, after = rest.partition(b"'")
        parts.append(part)
        if mark:
            break
        if (following := next(lines, None)) is None:
            raise ValueError("a single quote is not closed")
        rest = following[1]
    after = after.lstrip(_BLANK)
    if after and not after.startswith(b"#"):
        raise ValueError("something follows the closing quote")
    return b"\n".join(parts)


def _lines(text: bytes) -> Iterator[bytes]:
    """ValueError for one that is too long."""
    for line in text.removesuffix(b"\n").split(b"\n") if text else ():
        if len(line) >= _LONGEST_LINE:
            raise ValueError("a line is too long")
        yield line.removesuffix(b"\r")


def _variables_at(folder: Path, path: str) -> Variables:
    try:
        return variables_in(_content(folder, path))
    except (OSError, ValueError) as problem:
        return Variables(problem=str(problem))


def _content(folder: Path, path: str) -> bytes:
    """Opened only once it is known to be a plain file: a pipe would have us wait, a device would do something."""
    found = linux.open_within(folder, path)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise ValueError("it is no plain file")
        with Path(f"/proc/self/fd/{found}").open("rb") as file:
            content = file.read(LONGEST_FILE + 1)
    finally:
        os.close(found)
    if len(content) > LONGEST_FILE:
        raise ValueError(f"it is longer than {LONGEST_FILE} bytes")
    return content
