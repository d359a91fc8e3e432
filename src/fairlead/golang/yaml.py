"""YAML as sigs.k8s.io/yaml reads it: a way to write JSON.

PyYAML follows YAML 1.1 to the letter, so that `12:30:00` would become a number and a date a date; go-yaml leaves both
alone. Keys of any type become strings, as they must in JSON. Values are built while the text is parsed, so that a
document that is too deep, or that grows too much by its aliases, is refused before it costs anything.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any, Final

import yaml

from fairlead.golang.json_in_yaml import PlainReader

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class MalformedYaml(ValueError):
    """The text is no YAML; `str()` of it is go-yaml's message."""


_TAG: Final = "tag:yaml.org,2002:"
#: What PyYAML would resolve and go-yaml does not, or not in this way.
_RESOLVED_BELOW: Final = ("timestamp", "int", "float", "value", "yaml")

#: How the complaint about keys that come twice begins; each has a line of its own.
_REPEATED: Final = "yaml: unmarshal errors:\n"
#: So many of them are told.
_MOST_REPEATED: Final = 1000

#: What all aliases of a text together may bring: a kilobyte of them could describe more than fits into memory.
_MOST_ALIASED_BYTES: Final = 3 << 20
#: What a value takes beside its text.
_VALUE_BYTES: Final = 32

_MOST_NESTED: Final = 200
_TOO_DEEP: Final = "exceeded max depth"
#: What libyaml says of nesting that it gives up on while it looks ahead, in versions that do.
_LIBRARY_TOO_DEEP: Final = "exceeded maximum nesting depth"


class _Loader(_Base):  # type: ignore[misc]
    """PyYAML's parser, with go-yaml's idea of what a plain word is."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {
        first: [resolver for resolver in resolvers if resolver[0].removeprefix(_TAG) not in _RESOLVED_BELOW]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }


_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]*|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(r"(?:[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?)$")
_Loader.add_implicit_resolver(f"{_TAG}int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))


def parse(body: bytes) -> tuple[Any, list[str]]:
    """The JSON value of the first document, and what strict decoding says about keys that come twice.

    Raises `MalformedYaml`.
    """
    plain = _PLAIN.read(body)
    return (plain, []) if plain is not None else next(documents(body), (None, []))


def documents(body: bytes) -> Iterator[tuple[Any, list[str]]]:
    """The same of every document, one after the other."""
    with _go_messages():
        loader = _Loader(body)
        budget = _Budget()
        while True:
            event = loader.get_event()
            if isinstance(event, yaml.StreamEndEvent):
                return
            if isinstance(event, yaml.DocumentStartEvent):
                document = _Document(loader, budget)
                value = document.value(loader.get_event())
                yield value, [_REPEATED + "\n".join(document.repeated)] if document.repeated else []


def strict_documents(body: bytes) -> Iterator[Any]:
    """The JSON value of every document. Raises ValueError, also where keys come twice."""
    for document, problems in documents(body):
        if problems:
            raise ValueError("; ".join(problems))
        yield document


def warnings_of(problem: str) -> list[str]:
    """What strict decoding says, as warnings: keys that come twice one by one (apiserver's `parseYAMLWarnings`)."""
    found = problem.removeprefix("error converting YAML to JSON: ")
    if not found.startswith(_REPEATED):
        return [problem]
    return [line.strip() for line in found.removeprefix(_REPEATED).split("\n")]


@contextmanager
def _go_messages() -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        raise MalformedYaml(_go_message(error)) from None
    except yaml.reader.ReaderError as error:
        raise MalformedYaml(f"yaml: {error.reason}") from None
    except ValueError as error:
        raise MalformedYaml(f"yaml: {error}") from None


def _go_message(error: yaml.MarkedYAMLError) -> str:
    """go-yaml counts lines from one for what its scanner says, and from zero for its parser (decode.go, `fail`)."""
    if error.problem == _LIBRARY_TOO_DEEP:
        return f"yaml: {_TOO_DEEP}"
    mark = error.problem_mark or error.context_mark
    line = (mark.line if mark else 0) + isinstance(error, yaml.scanner.ScannerError)
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


# --- values ---------------------------------------------------------------------------------------------------------


class _Budget:
    """What aliases may still bring, in all documents of a text together."""

    def __init__(self) -> None:
        self._left = _MOST_ALIASED_BYTES

    def copied(self, value: Any, depth: int) -> Any:
        """What an alias stands for, as a value of its own at that depth."""
        self._left -= _VALUE_BYTES + (len(value) if isinstance(value, str) else 0)
        if self._left < 0:
            raise ValueError("document contains excessive aliasing")
        if not isinstance(value, dict | list):
            return value
        _check_depth(depth + 1)
        if isinstance(value, list):
            return [self.copied(item, depth + 1) for item in value]
        return {self.copied(key, depth): self.copied(item, depth + 1) for key, item in value.items()}


def _check_depth(depth: int) -> None:
    """Deeper nesting is refused (Go's limit is 10000), so that whoever walks over a value may recurse."""
    if depth > _MOST_NESTED:
        raise ValueError(_TOO_DEEP)


#: An anchor's value while it is being read.
_UNFINISHED: Final = object()


class _Document:
    """Builds the value of one document out of the parser's events."""

    def __init__(self, loader: Any, budget: _Budget) -> None:
        self.repeated: list[str] = []
        self._loader, self._budget = loader, budget
        self._anchors: dict[str, Any] = {}
        self._depth = 0

    def value(self, event: Any) -> Any:
        """The value that begins with an event."""
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event.anchor)
        if event.anchor is None:
            return self._built(event)
        self._anchors[event.anchor] = _UNFINISHED
        found = self._anchors[event.anchor] = self._built(event)
        return found

    def _aliased(self, name: str | None) -> Any:
        if name is None or name not in self._anchors:
            raise ValueError(f"unknown anchor '{name}' referenced")
        found = self._anchors[name]
        if found is _UNFINISHED:
            raise ValueError(f"anchor '{name}' value contains itself")
        return self._budget.copied(found, self._depth)

    def _built(self, event: Any) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, self._tag_of(event))
        self._depth += 1
        _check_depth(self._depth)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        _check_collection(event, is_list)
        found = self._list() if is_list else self._object()
        self._depth -= 1
        return found

    def _tag_of(self, event: Any) -> str:
        if event.tag not in (None, "!"):
            return str(event.tag)
        return str(self._loader.resolve(yaml.ScalarNode, event.value, event.implicit))

    def _list(self) -> list[Any]:
        found = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            found.append(self.value(event))
        return found

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            if self._is_merge(event):
                self._merge(found, self.value(self._loader.get_event()))
                continue
            key = _key(self.value(event))
            if key in found:
                self._repeat(key, event)
            found[key] = self.value(self._loader.get_event())
        return found

    def _is_merge(self, event: Any) -> bool:
        return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and self._tag_of(event) == f"{_TAG}merge"

    def _merge(self, into: dict[str, Any], value: Any) -> None:
        """Add what `<<` brings; of several maps the first one counts."""
        maps = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in maps):
            raise ValueError("map merge requires map or sequence of maps as the value")
        for mapping in reversed(maps):
            into |= mapping

    def _repeat(self, key: str, event: Any) -> None:
        if len(self.repeated) < _MOST_REPEATED:
            self.repeated.append(f'  line {event.start_mark.line + 1}: key "{key}" already set in map')


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"unsupported key of type: {type(value).__name__}, key: {value}")


def _check_collection(event: Any, is_list: bool) -> None:
    """Refuse a tag that says of a list or a map that it is something else."""
    fitting = (f"{_TAG}seq",) if is_list else (f"{_TAG}map", f"{_TAG}set")
    if event.tag not in (None, "!", *fitting):
        _refuse_tag(event)


def _refuse_tag(event: Any) -> None:
    why = f"could not determine a constructor for the tag {event.tag!r}"
    raise yaml.constructor.ConstructorError(None, None, why, event.start_mark)


def _scalar(event: Any, tag: str) -> Any:
    read = _SCALARS.get(tag.removeprefix(_TAG))
    if read is None:
        return _refuse_tag(event)
    try:
        return read(event.value)
    except (KeyError, ValueError):
        name = tag.removeprefix(_TAG)
        raise ValueError(f"cannot decode !!str `{event.value[:_SHOWN]}` as a !!{name}") from None


#: So much of a value that is not what its tag says is shown.
_SHOWN: Final = 100
_BOOLS: Final[Mapping[str, bool]] = yaml.SafeLoader.bool_values


def _integer(text: str) -> int | float | str:
    """An integer of up to 64 bits; a larger number is none in Go either."""
    plain = text.replace("_", "")
    sign, digits = (-1, plain[1:]) if plain[:1] == "-" else (1, plain.lstrip("+"))
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
    if len(digits) <= _LONGEST_INTEGER:
        value = sign * (int(digits, 8) if is_octal else int(digits, 0))
        if -(1 << 63) <= value < 1 << 64:
            return value
    return _float(text) if _FLOAT.match(text) else text


#: Digits of 64 bits, however they are written.
_LONGEST_INTEGER: Final = 66


def _float(text: str) -> int | float | str:
    value = float(text.replace("_", ""))
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value if isfinite(value) else text


_PLAIN: Final = PlainReader(_float, _MOST_NESTED)


def _binary(text: str) -> str:
    return b64decode(text.encode()).decode("utf-8", "replace")


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    "null": lambda _: None,
    "bool": lambda text: _BOOLS[text.lower()],
    "int": _integer,
    "float": _float,
    "binary": _binary,
    "str": str,
    "timestamp": str,
    "merge": str,
}
