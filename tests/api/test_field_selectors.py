"""Field selectors (X-07)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.field_selectors import FieldSelector, Term, escape, parse, unescape
from fairlead.api.selectors import SelectorError


def test_terms_are_sorted_and_empty_ones_skipped() -> None:
    assert str(parse("spec.nodeName==n,,metadata.name!=a")) == "metadata.name!=a,spec.nodeName=n"
    assert parse("").is_empty


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("metadata.name>a", "invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'"),
        (r"a=b\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_bad_text_is_refused_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse(text)
    assert refused.value.message == message


def test_missing_field_has_the_empty_value() -> None:
    assert parse("spec.nodeName=").matches({})
    assert parse("spec.nodeName!=n").matches({})
    assert not parse("spec.nodeName=n,a=b").matches({"spec.nodeName": "n"})


def test_exact_value_comes_from_equality_alone() -> None:
    selector = parse("a=1,b!=2")
    assert selector.exact("a") == "1"
    assert selector.exact("b") is None


@given(st.text())
def test_escaping_can_be_undone(value: str) -> None:
    assert unescape(escape(value)) == value
    assert parse(f"f={escape(value)}") == FieldSelector((Term("f", value),))
