"""Comma-separated values as Go's `encoding/csv` reads them, with its errors. Python's reader forgives more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_BARE_QUOTE: Final = 'bare " in non-quoted field'
_QUOTE: Final = 'extraneous or missing " in quoted-field'


class CsvError(ValueError):
    """Where a text is no CSV; `str()` of it is Go's message."""

    def __init__(self, start: int, line: int, column: int, why: str) -> None:
        record = f"record on line {start}; " if start != line else ""
        super().__init__(f"{record}parse error on line {line}, column {column}: {why}")


def records(text: str) -> Iterator[list[str]]:
    """The fields of each record, however many it has. Lines without anything are none; columns count bytes."""
    lines = _Lines(text)
    while (line := lines.next()) is not None:
        if line.rstrip("\n"):
            yield _record(line, lines)


class _Lines:
    """The lines of a text, each with its end, which is always `\\n`; the last may have none."""

    def __init__(self, text: str) -> None:
        self._rest = iter(text.split("\n"))
        self._next = next(self._rest)
        self._is_over = False
        self.number = 0

    def next(self) -> str | None:
        """The next one; None after the last."""
        if self._is_over:
            return None
        line, following = self._next.removesuffix("\r"), next(self._rest, None)
        if following is None:
            self._is_over = True
            if not line:
                return None
        else:
            line, self._next = line + "\n", following
        self.number += 1
        return line


def _record(line: str, lines: _Lines) -> list[str]:
    start, fields, position = lines.number, list[str](), 0
    while True:
        if line.startswith('"', position):
            field, line, position = _quoted(line, position + 1, start, lines)
        else:
            end = line.find(",", position)
            field = line[position:end] if end >= 0 else line[position:].rstrip("\n")
            if (quote := field.find('"')) >= 0:
                raise CsvError(start, lines.number, _column(line, position + quote), _BARE_QUOTE)
            position += len(field)
        fields.append(field)
        if not line.startswith(",", position):
            return fields
        position += 1


def _quoted(line: str, position: int, start: int, lines: _Lines) -> tuple[str, str, int]:
    """What stands in quotes, the line on which it ends, and the place after the closing quote."""
    parts = []
    while True:
        quote = line.find('"', position)
        if quote < 0:
            parts.append(line[position:])
            following = lines.next()
            if following is None:
                raise CsvError(start, lines.number, _column(line, len(line)), _QUOTE)
            line, position = following, 0
            continue
        parts.append(line[position:quote])
        position = quote + 1
        if line.startswith('"', position):
            parts.append('"')
            position += 1
        elif position == len(line) or line[position] in ",\n":
            return "".join(parts), line, position
        else:
            raise CsvError(start, lines.number, _column(line, quote), _QUOTE)


def _column(line: str, index: int) -> int:
    return len(line[:index].encode()) + 1
