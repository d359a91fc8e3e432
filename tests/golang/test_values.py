"""Go's way to print values and to complain about JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.golang.json_errors import json_error
from fairlead.golang.values import printed

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_values_are_printed_as_by_percent_v() -> None:
    assert printed({"b": [1, 2.5, None], "a": {"x": True}}) == "map[a:map[x:true] b:[1 2.5 <nil>]]"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"metadata": ', "unexpected end of JSON input"),
        (b"metadata:\n", "invalid character 'm' looking for beginning of value"),
        (b"{}}", "invalid character '}' after top-level value"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b'"a\n"', "invalid character '\\n' in string literal"),
        (b'"\\q"', "invalid character 'q' in string escape code"),
        (b'"\\u12g"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
        (b"[" * 10_000, "unexpected end of JSON input"),
        (b"[" * 10_001, "exceeded max depth"),
        (b'{"a":' * 3_000_000, "exceeded max depth"),
    ],
)
def test_first_wrong_byte_is_named(body: bytes, error: str) -> None:
    assert json_error(body) == error


@given(values, st.booleans())
def test_json_has_no_error_and_its_beginning_has(value: object, is_ascii: bool) -> None:
    body = json.dumps(value, ensure_ascii=is_ascii, indent=1).encode(errors="replace")
    assert json_error(body) is None
    if isinstance(value, dict | list | str):
        assert json_error(body[:-1]) == "unexpected end of JSON input"
