"""Reads the text of large dumps fast: JSON as JSON, and YAML as kubectl prints it with a parser that is twenty times as
fast as the careful one.

rapidyaml takes for texts what YAML 1.1 reads as other things (`yes`, `017`, `~`), and knows no aliases as we resolve
them. Where a text may hold such things, or anything is wrong, the careful parser has the word: `golang/yaml.py`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import ryml

from fairlead.golang import yaml as goyaml

_STDERR: Final = 2
#: Below this the careful parser is fast enough.
_LARGE: Final = 64 << 10
#: Plain words that YAML 1.1 resolves and rapidyaml does not, numbers that JSON writes otherwise, anchors, tags.
_PARTICULAR: Final = re.compile(
    rb"(?:^ *|[-:?] +|[\[{,] *)(?:"
    rb"(?:[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|True|TRUE|False|FALSE|Null|NULL|~"
    rb"|[-+]?0[0-9xob_][0-9A-Fa-f_]*|[-+]?[0-9]+_[0-9_]*|\+[0-9.][0-9.]*|[-+]?[0-9.]+[eE][-+]?[0-9]+|[-+]?\.[0-9]+"
    rb"|-?[0-9]+\.)[ \t]*(?:\r?$|[,\]}#]|:(?: |\r?$))"
    rb"|[&*!][^ \n]|<<:|%YAML|%TAG)|\xc2\x85|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf",  # and other ends of lines
    re.MULTILINE,
)


def documents(text: bytes) -> Iterator[Any]:
    """The JSON value of every document. Raises ValueError, which names the line where it is known."""
    if text[:64].lstrip()[:1] == b"{":
        found = _json(text)
        if found is not _NOT_JSON:
            yield found
            return
    if len(text) >= _LARGE and _PARTICULAR.search(text) is None:
        fast = _fast(text)
        if fast is not None:
            yield from fast
            return
    yield from goyaml.strict_documents(text)


_NOT_JSON: Final = object()


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    except ValueError as problem:
        if len(text) < _LARGE:
            return _NOT_JSON  # a mapping of YAML may begin like this
        where = f"line {problem.lineno}: " if isinstance(problem, json.JSONDecodeError) else ""
        raise ValueError(f"{where}this is no JSON, or it is cut off: {problem}") from None


def _fast(text: bytes) -> list[Any] | None:
    """None where the careful parser has to look."""
    try:
        with _silent():
            tree = ryml.parse_in_arena(text)
        value = msgspec.json.decode(ryml.emit_json(tree))
    except (ryml.ExceptionBasic, ryml.ExceptionParse, ryml.ExceptionVisit, ValueError, TypeError, RecursionError):
        return None
    return list(value) if tree.is_stream(tree.root_id()) else [value]


@contextmanager
def _silent() -> Iterator[None]:
    """Rapidyaml writes what is wrong to the process's stderr itself; the careful parser says it better."""
    try:
        kept = os.dup(_STDERR)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, _STDERR)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
        os.close(nowhere)
