"""Tables (CSV) as traces come in: a row for each thing, and the line of what is wrong with one."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def read_rows(path: Path, what: str, make: Callable[[Mapping[str, str], int], T], columns: set[str]) -> Iterator[T]:
    """What `make` makes of each row and its line. Raises ValueError, with the line, for a row of which it makes
    nothing, that is cut off or too long, and for a file that is no table or lacks one of the columns.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets begin with a mark
            rows = csv.reader(file, strict=True)
            names = next(rows, None)
            if not names:
                raise ValueError(f"{path} is no {what}: it is empty")
            if missing := columns - set(names):
                has = ", ".join(names)
                raise ValueError(f"{path} is no {what}: it has no column {', '.join(sorted(missing))}: there are {has}")
            for fields in rows:
                if not fields:
                    continue
                try:
                    if len(fields) != len(names):
                        raise ValueError(f"it has {len(fields)} fields for {len(names)} columns")
                    yield make(dict(zip(names, fields, strict=True)), rows.line_num)
                except (ValueError, OverflowError) as problem:
                    raise ValueError(f"{path}, line {rows.line_num}: {problem}") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise ValueError(f"{path} is no {what} in UTF-8: {problem}") from None
