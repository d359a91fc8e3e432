"""Reads the text of large dumps fast: JSON as JSON, and YAML as kubectl prints it with a parser that is twenty times as
fast as the careful one.

rapidyaml takes for texts what YAML 1.1 reads as other things (`yes`, `017`, `~`), and knows no aliases as we resolve
them. Where a text may hold such things, or anything is wrong, the careful parser has the word: `golang/yaml.py`.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

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


#: Between values of JSON that follow one another.
_BETWEEN: Final = re.compile(r"\s*(?:---\s+)*")
#: Where a document of YAML begins, and the names of its first level.
_FIRST_LEVEL: Final = re.compile(rb"^(?:---(?=\s)|[A-Za-z]\w*(?=:\s))", re.MULTILINE)
#: How kubectl's lists begin.
_KUBECTL: Final = b"apiVersion:"
_GZIP: Final = b"\x1f\x8b"


class Piece(NamedTuple):
    """A part of a text that is one after the other: a value of JSON, or YAML."""

    text: bytes
    #: How many lines come before it.
    line: int = 0


def documents(text: bytes) -> Iterator[Any]:
    """The JSON value of every document. Raises ValueError, which names the line where it is known."""
    text = _utf8(text)
    if _looks_like_json(text) and (found := _json(text)) is not None:
        yield from found
        return
    for piece in _parts_of_yaml(text):
        if len(piece.text) >= _LARGE and _PARTICULAR.search(piece.text) is None:
            fast = _fast(piece.text)
            if fast is not None:
                yield from fast
                continue
        yield from _careful(piece)


def pieces(text: bytes) -> Iterator[Piece]:
    """What a parser of YAML takes in one go, for those who look for a line in it."""
    text = _utf8(text)
    try:
        found = list(_values(_decoded(text))) if _looks_like_json(text) else []
    except (ValueError, RecursionError):
        found = []
    if not found:
        yield from _parts_of_yaml(text)
        return
    decoded, line, counted = _decoded(text), 0, 0
    for _, start, end in found:
        line, counted = line + decoded.count("\n", counted, start), start
        yield Piece(decoded[start:end].encode("utf-8", "replace"), line)


def _utf8(text: bytes) -> bytes:
    """The text as it is otherwise, too: PowerShell writes UTF-16, and marks of byte order."""
    if text.startswith(_GZIP):
        raise ValueError("it is compressed: unpack it first, as with gunzip")
    try:
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            text = text.decode("utf-16").encode()
    except ValueError:
        pass  # the careful parser says what is wrong
    return text.removeprefix(codecs.BOM_UTF8)


def _looks_like_json(text: bytes) -> bool:
    return text[:64].lstrip()[:1] == b"{"


def _json(text: bytes) -> list[Any] | None:
    """Its values: kubectl's, one after the other, are many. None for YAML, in which a mapping may begin like one."""
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, RecursionError):
        pass
    found: list[Any] = []
    try:
        for value, _, _ in _values(_decoded(text)):
            found.append(value)
    except RecursionError:
        raise ValueError("exceeded max depth") from None
    except ValueError as problem:
        if not found and len(text) < _LARGE:
            return None
        where = f"line {problem.lineno}: " if isinstance(problem, json.JSONDecodeError) else ""
        raise ValueError(f"{where}this is no JSON, or it is cut off: {problem}") from None
    return found


def _decoded(text: bytes) -> str:
    return text.decode(json.detect_encoding(text), "surrogatepass")


def _values(text: str) -> Iterator[tuple[Any, int, int]]:
    """Each value of JSON, where it begins and where it ends. Raises ValueError."""
    decode = json.JSONDecoder().raw_decode
    end = 0
    while (start := _end_of(_BETWEEN.match(text, end), end)) < len(text):
        value, end = decode(text, start)
        yield value, start, end


def _end_of(found: re.Match[str] | None, otherwise: int) -> int:
    return found.end() if found is not None else otherwise


def _parts_of_yaml(text: bytes) -> Iterator[Piece]:
    """Documents that nobody has put `---` between, as where kubectl's lists were written to one file one after the
    other: where the first name of a document comes again, another one begins.
    """
    begin, line, first = 0, 0, b""
    if text.startswith(_KUBECTL) and b"\n" + _KUBECTL not in text and b"\n---" not in text:
        yield Piece(text)  # as nearly all are, and there is much of it
        return
    for found in _FIRST_LEVEL.finditer(text):
        name = found[0]
        if name == b"---":
            first = b""
        elif not first:
            first = name
        elif name == first:
            yield Piece(text[begin : found.start()], line)
            line += text.count(b"\n", begin, found.start())
            begin = found.start()
    yield Piece(text[begin:] if begin else text, line)


def _careful(piece: Piece) -> Iterator[Any]:
    try:
        yield from goyaml.strict_documents(piece.text)
    except ValueError:
        for _ in goyaml.strict_documents(b"\n" * piece.line + piece.text):
            pass  # says the same, with the line that it has in all of the text
        raise


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
