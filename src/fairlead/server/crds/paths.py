"""The JSONPath of printer columns, selectable fields and scale: fields, indexes, wildcards and filters.

`.status.conditions[?(@.type=="Ready")].status` is as far as CRDs in the wild go; recursive descent is not supported.
A path is compiled once to a function from an object to the values found (k8s.io/client-go/util/jsonpath).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from fairlead.api.objects import Obj
from fairlead.caches import bounded_cache
from fairlead.golang.numbers import atoi

PathStep: TypeAlias = Callable[[Any], Iterator[Any]]
Finder: TypeAlias = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""\.(?P<field>(?:\\.|[^.,\[\]$@{}\s\\*])+)
      | \[\s*(?P<quote>['"])(?P<key>(?:\\.|(?!(?P=quote))[^\n\\])*+)(?P=quote)\s*\]
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<start>-?\d*):(?P<stop>-?\d*)\s*\]
      | (?P<all>\.\*|\[\*\])
      | \[\?\((?P<filter>.+?)\)\]
    """,
    re.VERBOSE,
)
#: What a filter compares with what; its parts are stripped afterwards, for two patterns that take blanks would try
#: every way to divide them.
_FILTER = re.compile(r"@(?P<path>[^=!<>]*)(?:(?P<operator>==|!=|<=|>=|<|>)(?P<literal>.+))?", re.DOTALL)
#: Quoted texts, single delimiters, and what stands between delimiters.
_FIELD_TOKEN = re.compile(r"'.*?(?<!\\)'|'.*|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_WORDS = {"true": True, "false": False}


class PathError(ValueError):
    """The path is malformed."""


@bounded_cache(maxsize=4096)
def compile_path(path: str) -> Finder:
    """The values a path leads to; nothing where a field is missing."""
    steps = list(_steps(path))

    def find(obj: Any) -> list[Any]:
        found = [obj]
        for step in steps:
            found = [below for value in found for below in step(value)]
        return found

    return find


def keys_of(path: str) -> list[str]:
    """The keys of a path that has nothing but fields, as scale's have."""
    return path.removeprefix(".").split(".")


def field_at(path: str, schema: Obj, *, takes_brackets: bool = True) -> tuple[list[str], str]:
    """The keys of a path and the type of the field where they lead by the schema; lists cannot be passed.

    Source: `ValidFieldPath` in apiextensions-apiserver pkg/apiserver/schema/cel/validation.go.
    """
    at: Any = schema
    keys: list[str] = []
    tokens = iter(_FIELD_TOKEN.findall(path))
    for token in tokens:
        if token not in (".", "["):
            raise PathError(f"expected [ or . but got: {token}")
        if token == "[" and not takes_brackets:
            raise PathError("array notation is not allowed")
        key = _following(tokens)
        if token == "[":
            if len(key) < 2 or key[0] != "'" or key[-1] != "'":
                raise PathError(f"expected single quoted string but got {key}")
            key = _ESCAPE.sub(r"\1", key[1:-1])
        at = _below(at, key)
        keys.append(key)
        if token == "[" and (end := _following(tokens)) != "]":
            raise PathError(f"expected ] but got {end}")
    return keys, str(at.get("type", "")) if isinstance(at, dict) else ""


def _following(tokens: Iterator[str]) -> str:
    found = next(tokens, None)
    if found is None:
        raise PathError("unexpected end of JSON path")
    return found


def _below(schema: Any, key: str) -> Any:
    """The schema of a field; nothing where a map says nothing of its values."""
    declared = schema if isinstance(schema, dict) else {}
    found = declared["properties"].get(key) if declared.get("properties") else declared.get("additionalProperties")
    if found is None:
        raise PathError("does not refer to a valid field")
    return found


def _steps(path: str) -> Iterator[PathStep]:
    at = 0
    while at < len(path) and path != ".":
        found = _TOKEN.match(path, at)
        if found is None:
            raise PathError(f"unrecognized path {path!r}")
        at = found.end()
        yield _step(found)


def _step(found: re.Match[str]) -> PathStep:
    if (name := found["field"] or found["key"]) is not None:
        return _field(_ESCAPE.sub(r"\1", name))
    if found["index"] is not None:
        return _slice_of(_number(found["index"]))
    if found["start"] is not None:
        start, stop = (_number(found[part]) if found[part] else None for part in ("start", "stop"))
        return _slice(slice(start, stop))
    if found["all"] is not None:
        return _all
    return _filter(found["filter"].strip())


def _field(name: str) -> PathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _slice_of(index: int) -> PathStep:
    return _slice(slice(index, index + 1 or None))


def _slice(which: slice) -> PathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[which]

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from (value[key] for key in sorted(value))


def _filter(text: str) -> PathStep:
    found = _FILTER.fullmatch(text)
    if found is None:
        raise PathError(f"unrecognized filter {text!r}")
    find, operator = compile_path(found["path"].strip()), found["operator"]
    right = None if operator is None else _literal(found["literal"].strip())

    def holds(item: Any) -> bool:
        values = find(item)
        if operator is None or not values:
            return bool(values)
        try:
            return _OPERATORS[operator](values[0], right)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if holds(item))

    return step


def _literal(text: str) -> Any:
    if text[:1] in ("'", '"') and text[-1] == text[0]:
        return _ESCAPE.sub(r"\1", text[1:-1])
    if text in _WORDS:
        return _WORDS[text]
    try:
        return float(text) if "." in text else atoi(text)
    except ValueError as error:
        raise PathError(f"unrecognized literal {text!r}") from error


def _number(text: str) -> int:
    try:
        return atoi(text)
    except ValueError as error:
        raise PathError(f"array index {text}: {error}") from None
