"""YAML as sigs.k8s.io/yaml reads it: a way to write JSON.

PyYAML follows YAML 1.1 to the letter, so that `12:30:00` would become a number and a date a date; go-yaml leaves both
alone. Keys of any type become strings, as they must in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import yaml

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class MalformedYaml(ValueError):
    """The text is no YAML; `str()` of it is go-yaml's message."""


#: What PyYAML would resolve and go-yaml does not, or not in this way.
_RESOLVED_BELOW: Final = ("timestamp", "int", "float")

#: How the complaint about keys that come twice begins; each has a line of its own.
_REPEATED: Final = "yaml: unmarshal errors:\n"

#: More values than this may not come from aliases: a kilobyte of them could describe more than fits into memory.
_MOST_ALIASED: Final = 100_000

_MOST_NESTED: Final = 200


class _Loader(_Base):  # type: ignore[misc]
    """Reads mappings as JSON objects and remembers which keys came twice."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {
        first: [resolver for resolver in resolvers if resolver[0].rpartition(":")[2] not in _RESOLVED_BELOW]
        for first, resolvers in _Base.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.repeated: list[str] = []


_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]*|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(r"(?:[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?)$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def _object(loader: Any, node: yaml.MappingNode) -> dict[str, Any]:
    own = len(node.value)
    loader.flatten_mapping(node)
    merged = len(node.value) - own if any(key.tag.endswith(":merge") for key, _ in node.value) else 0
    found: dict[str, Any] = {}
    for index, (key_node, value_node) in enumerate(node.value):
        key = _key(loader.construct_object(key_node, deep=True))
        if key in found and index >= merged:
            loader.repeated.append(f'  line {key_node.start_mark.line + 1}: key "{key}" already set in map')
        found[key] = loader.construct_object(value_node, deep=True)
    return found


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError(f"unsupported key of type: {type(value).__name__}, key: {value}")


def _integer(loader: Any, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
    return sign * (int(digits, 8) if is_octal else int(digits, 0))


def _float(loader: Any, node: yaml.ScalarNode) -> float:
    value = float(loader.construct_scalar(node).replace("_", ""))
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _binary(loader: Any, node: yaml.ScalarNode) -> str:
    return bytes(loader.construct_yaml_binary(node)).decode("utf-8", "replace")


_KEPT: Final = ("null", "bool", "str", "seq")
_Loader.yaml_constructors = {
    tag: build for tag, build in _Base.yaml_constructors.items() if tag is None or tag.rpartition(":")[2] in _KEPT
} | {
    f"tag:yaml.org,2002:{name}": build
    for name, build in {
        "map": _object,
        "set": _object,
        "int": _integer,
        "float": _float,
        "binary": _binary,
        "timestamp": _Base.construct_scalar,
    }.items()
}


def parse(body: bytes) -> tuple[Any, list[str]]:
    """The JSON value of the first document, and what strict decoding says about keys that come twice.

    Raises `MalformedYaml`.
    """
    return next(documents(body), (None, []))


def documents(body: bytes) -> Iterator[tuple[Any, list[str]]]:
    """The same of every document, one after the other."""
    with _told_as_go_does():
        _check_depth(body)
        loader = _Loader(body)
        while loader.check_data():
            loader.repeated = []
            value = loader.get_data()
            if b"&" in body:
                value = _Copy().of(value)
            problems = [_REPEATED + "\n".join(loader.repeated)] if loader.repeated else []
            yield value, problems


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
def _told_as_go_does() -> Iterator[None]:
    try:
        yield
    except yaml.MarkedYAMLError as error:
        raise MalformedYaml(_told(error)) from None
    except yaml.reader.ReaderError as error:
        raise MalformedYaml(f"yaml: {error.reason}") from None
    except ValueError as error:
        raise MalformedYaml(f"yaml: {error}") from None
    except RecursionError:
        raise MalformedYaml("yaml: exceeded max depth") from None


def _check_depth(body: bytes) -> None:
    """Refuse deep nesting before it is composed: libyaml does that on the C stack, which would end the process."""
    depth = 0
    for event in yaml.parse(body, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MOST_NESTED:
                raise ValueError("exceeded max depth")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Copy:
    """Makes aliased values separate ones, as long as there are not too many of them."""

    def __init__(self) -> None:
        self._left = _MOST_ALIASED

    def of(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError("document contains excessive aliasing")
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        return value


def _told(error: yaml.MarkedYAMLError) -> str:
    """go-yaml counts lines from one for what its scanner says, and from zero for its parser (decode.go, `fail`)."""
    mark = error.problem_mark or error.context_mark
    line = (mark.line if mark else 0) + isinstance(error, yaml.scanner.ScannerError)
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"
