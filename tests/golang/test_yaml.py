"""YAML as go-yaml reads it, and no more of it than its text is worth."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.golang.yaml import MalformedYaml, documents, parse


def bomb(link: str, levels: int = 60) -> bytes:
    """Each line says the one before it twice."""
    lines = ["a0: &a0 {x: [1, 2]}"]
    return "\n".join(lines + [f"a{n}: &a{n} {link.format(n - 1)}" for n in range(1, levels)]).encode()


@pytest.mark.parametrize(
    "body",
    [
        bomb("[*a{0}, *a{0}]"),
        bomb("{{p: *a{0}, q: *a{0}}}"),
        bomb("{{<<: {{p: *a{0}}}, q: *a{0}}}"),
        bomb("[{{<<: *a{0}, q{0}: *a{0}}}]"),
        b"a: &a {" + b",".join(b"k%d: v" % n for n in range(20)) + b"}\nb: [" + b"{<<: *a}," * 10_000 + b"]",
        b"a: &a " + b"x" * 1_000_000 + b"\nb: [*a, *a, *a, *a]",
        b"a: &a {k: v}\nb: {<<: [" + b"*a," * 100_000 + b"]}",
    ],
    ids=["lists", "maps", "merges in maps", "merges in lists", "many merges", "a long word", "one merge of many"],
)
def test_what_aliases_and_merges_expand_to_is_bounded(body: bytes) -> None:
    with pytest.raises(MalformedYaml, match="document contains excessive aliasing"):
        parse(body)


def test_the_documents_of_a_text_share_what_their_aliases_may_bring() -> None:
    document = b"---\na: &a " + b"x" * 1_000_000 + b"\nb: [*a]\n"
    with pytest.raises(MalformedYaml, match="excessive aliasing"):
        list(documents(document * 4))


def test_what_is_merged_many_times_but_stays_small_is_taken() -> None:
    body = b"a0: &a0 {x: 1}\n" + b"\n".join(
        b"a%d: &a%d {<<: [*a%d, *a%d]}" % (n, n, n - 1, n - 1) for n in range(1, 60)
    )
    value, problems = parse(body)
    assert value == {f"a{n}": {"x": 1} for n in range(60)}
    assert problems == []


@pytest.mark.parametrize("body", ["[" * 100_000, "- " * 100_000, "? " * 100_000, "{a: " * 100_000])
def test_deep_nesting_is_refused_where_it_becomes_too_deep(body: str) -> None:
    with pytest.raises(MalformedYaml, match="exceeded max depth"):
        parse(body.encode())


def test_aliases_make_nothing_deeper_than_it_may_be_written() -> None:
    body = "a: &a " + "[" * 150 + "]" * 150 + "\nb: " + "[" * 150 + "*a" + "]" * 150
    with pytest.raises(MalformedYaml, match="exceeded max depth"):
        parse(body.encode())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: &x {<<: *x}", "yaml: anchor 'x' value contains itself"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("--- &x 1\n--- *x", "yaml: unknown anchor 'x' referenced"),
        ("{<<: 1}", "yaml: map merge requires map or sequence of maps as the value"),
        ("{<<: [1]}", "yaml: map merge requires map or sequence of maps as the value"),
        ("!!bool maybe", "yaml: cannot decode !!str `maybe` as a !!bool"),
        ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
    ],
)
def test_what_makes_no_value_is_told_in_go_yamls_words(body: str, message: str) -> None:
    with pytest.raises(MalformedYaml) as refused:
        list(documents(body.encode()))
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("{a: 1, <<: {b: 2}}", {"a": 1, "b": 2}),
        ("{<<: {a: 1}, a: 2}", {"a": 2}),
        ("{a: 2, <<: {a: 1}}", {"a": 1}),  # go-yaml's second version takes them in order
        ("{<<: [{a: 1}, {a: 2, b: 2}]}", {"a": 1, "b": 2}),
        ('{"<<": {a: 1}}', {"<<": {"a": 1}}),
        ("<<", "<<"),
        ("=", "="),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ],
)
def test_merges_and_aliases_make_plain_values(body: str, value: Any) -> None:
    assert parse(body.encode())[0] == value


def test_aliased_values_are_separate() -> None:
    value, _ = parse(b"a: &x [1]\nb: *x")
    value["a"].append(2)
    assert value["b"] == [1]


def test_of_very_many_repeated_keys_some_are_told() -> None:
    value, (problem,) = parse(b"a: 1\n" * 300_000)
    assert value == {"a": 1}
    assert len(problem) < 100_000


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 18446744073709551616.0),
        ("-9223372036854775809", -9223372036854775809.0),
        ("9" * 100_000, "9" * 100_000),
        ("0x" + "f" * 100_000, "0x" + "f" * 100_000),
        ("1e999", "1e999"),
        ("1e3", 1000),
    ],
)
def test_a_number_that_is_too_large_is_none(body: str, value: Any) -> None:
    found, _ = parse(body.encode())
    assert (found, type(found)) == (value, type(value))


_TOKENS = ["a", "b: ", "- ", "\n", " ", "[", "]", "{", "}", ", ", ": ", "'x'", "&a ", "*a", "<<: ", "!!str ", "!!int ",
           "!!map ", "1", "0x1F", "1e3", "~", "yes", "? ", "|\n  x\n", "# c\n", "---\n", "=", "!x "]  # fmt: skip


@given(st.lists(st.sampled_from(_TOKENS), max_size=12))
def test_every_text_is_read_or_refused(tokens: list[str]) -> None:
    try:
        list(documents("".join(tokens).encode()))
    except MalformedYaml as error:
        assert str(error).startswith("yaml: ")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)  # fmt: skip
_SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (",\n\t", ":\t"), (",", " :"), (",", "\n:")])


@given(st.dictionaries(st.text(max_size=4), _JSON, max_size=3), st.booleans(), _SEPARATORS)
def test_json_says_the_same_as_the_yaml_that_it_is(value: Any, is_ascii: bool, separators: tuple[str, str]) -> None:
    assert_read_as_yaml(json.dumps(value, ensure_ascii=is_ascii, separators=separators).encode())


_JSON_TOKENS = [
    *('{"a"', ":", " :", '"a"', '"b":', '"\\"x\\":"', '"\\u003a"', '"\\/"', '"<<":', '"\x7f"', "{", "}", "[", "]", ","),
    *("-0", "1.0", "1e400", "12345678901234567890", "0.1E1", "null", "true", "\n", "\t", "&a ", "*a"),
]


@given(st.lists(st.sampled_from(_JSON_TOKENS), max_size=12))
def test_what_looks_like_json_says_the_same_as_the_yaml_that_it_is(tokens: list[str]) -> None:
    assert_read_as_yaml(("{" + "".join(tokens)).encode())


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a" :":"}',
        b'{"a":":","a" :1}',
        b'{"' + b"k" * 1100 + b'":1}',
        b'{"a":' * 199 + b"{}" + b"}" * 199,
        b'{"a":' * 200 + b"{}" + b"}" * 200,
        b'{"a":[' * 100 + b"]}" * 100,
        b'{"a":[' * 100_000,
        b'{"a":"\\ud83d\\ude00"}',
        b'{"a":1}{"b":2}',
        b'{"a":1}\n---\n{"b":2}',
        b'{"a":1} # ',
    ],
)
def test_where_json_and_yaml_differ_it_is_yaml(body: bytes) -> None:
    assert_read_as_yaml(body)


def assert_read_as_yaml(body: bytes) -> None:
    """`documents` reads YAML alone."""
    try:
        expected = repr(next(documents(body), (None, [])))
    except MalformedYaml as error:
        with pytest.raises(MalformedYaml, match=f"^{re.escape(str(error))}$"):
            parse(body)
    else:
        assert repr(parse(body)) == expected
