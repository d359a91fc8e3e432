"""Compare what a command printed with what a transcript shows, without the parts that differ from run to run.

Ages, times, hashes and generated names cannot be written down beforehand. A transcript marks them by an ellipsis: `…`
inside a line stands for any text, a line of nothing but `…` for any number of lines. The widths of columns follow the
widest cell, an age perhaps, so runs of blanks are equal whatever their length. Everything else is compared exactly.
"""

from __future__ import annotations

import re
from textwrap import dedent

ELLIPSIS = "…"
_BLANKS = re.compile(r"[ \t]+")


def agrees(shown: str, printed: str) -> bool:
    """Whether a command that printed this did what the transcript shows."""
    return _pattern(_lines(shown)).fullmatch("".join(line + "\n" for line in _lines(printed))) is not None


def difference(shown: str, printed: str) -> str:
    """A message that lays both side by side."""
    return f"expected:\n{dedent(shown).strip()}\n\nprinted:\n{printed.strip()}\n"


def _lines(text: str) -> list[str]:
    """The lines without what layout adds: indentation common to all, width of gaps, blanks at the end."""
    lines = [_BLANKS.sub(" ", line).strip() for line in text.strip().splitlines()]
    return [line for line in lines if line]


def _pattern(lines: list[str]) -> re.Pattern[str]:
    return re.compile("".join(r"(?:.*\n)*?" if line == ELLIPSIS else _line(line) + r"\n" for line in lines))


def _line(line: str) -> str:
    return ".*?".join(re.escape(part) for part in line.split(ELLIPSIS))
