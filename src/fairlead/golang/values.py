"""How Go prints values and what it says about broken JSON.

Some of Kubernetes' messages are Go's own: a patch quoted with `%v`, a body that is not JSON. Clients and people see
them, so they are spelled here once. Sources: package fmt; sigs.k8s.io/json, a fork of encoding/json (scanner.go).
"""

from __future__ import annotations

from typing import Any, Final


def printed(value: Any) -> str:
    """`fmt.Sprintf("%v", value)` of decoded JSON: maps sorted by key, no quotes."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{printed(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(printed, value))}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    return str(value)


_TYPES: Final = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    type(None): "%!s(<nil>)",
}
#: What decode errors call a value.
JSON_TYPES: Final[dict[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    type(None): "null",
}


def type_of(value: Any) -> str:
    """The Go type that a decoded JSON value has."""
    return _TYPES[type(value)]


def unmarshal_error(value: Any, go_type: str) -> str:
    """What decoding says about a value of the wrong kind; `wanted` is a Go type."""
    return f"json: cannot unmarshal {JSON_TYPES[type(value)]} into Go value of type {go_type}"
