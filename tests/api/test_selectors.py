"""Label selectors: grammar, messages, matching (X-07)."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import selectors
from fairlead.api.errors import Cause
from fairlead.api.fields import Errors
from fairlead.api.labels import LabelRequirement, LabelSelector
from fairlead.api.node_affinity import NodeSelectorTerm, matches_term
from fairlead.api.selector_text import parse
from fairlead.api.selectors import Operator, Requirement, SelectorError, of_structured


class Compared(str):
    """Counts how often it is compared."""

    __slots__ = ()
    times: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("operator", [Operator.IN, Operator.NOT_IN])
def test_a_value_is_not_compared_with_each_of_thousands(operator: Operator) -> None:
    values = tuple(Compared(f"v{number}") for number in range(5000))
    text_form = selectors.Selector.of([Requirement("a", operator, values)])
    meaning = "In" if operator is Operator.IN else "NotIn"
    structured = LabelSelector(
        match_expressions=(LabelRequirement(key="a", operator=meaning, values=values),)
    ).for_many()
    Compared.times = 0
    for value in ("v4999", "w"):
        is_in = value == "v4999"
        assert text_form.matches({"a": value}) is structured({"a": value}) is (is_in == (operator is Operator.IN))
    assert Compared.times < 100


class Looked(dict[str, str]):
    """Counts how often it is looked into."""

    times: ClassVar[int] = 0

    def get(self, key: str, default: Any = None) -> Any:
        Looked.times += 1
        return super().get(key, default)


@pytest.mark.parametrize(
    "text",
    [
        ",".join(f"k{number}!=v,!l{number}" for number in range(3000)),
        ",".join(f"a in (x,y{number}),a notin (z{number})" for number in range(3000)),
        ",".join(f"n>{number},n<{number + 10_000}" for number in range(3000)),
        ",".join(["a=x"] * 3000),
    ],
    ids=["absent", "sets", "order", "same"],
)
def test_thousands_of_requirements_look_at_an_object_as_often_as_it_has_labels(text: str) -> None:
    selector, labels = parse(text), Looked(a="x", n="5000")
    Looked.times = 0
    assert selector.matches(labels)
    assert Looked.times < 20


@pytest.mark.parametrize("operator", [Operator.IN, Operator.NOT_IN, Operator.NOT_EQUALS, Operator.GREATER])
def test_very_many_requirements_of_one_label_are_put_together_in_no_time(operator: Operator) -> None:
    """A minute, where each had been added to a copy of all before it. Nobody measures: finishing is the test."""
    parts = [Requirement("a", operator, (str(number),)) for number in range(70_000)]
    selector = selectors.Selector.of(parts)
    assert not selector.matches({"a": "7"})
    assert selector.matches({"a": "70000"}) is (operator is not Operator.IN)


_KEYS, _NUMBERS = st.sampled_from("abc"), st.sampled_from(["1", "2", "3", "x", ""])
_REQUIREMENTS = st.one_of(
    st.builds(Requirement, _KEYS, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.lists(_NUMBERS).map(tuple)),
    st.builds(Requirement, _KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        _KEYS,
        st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS, Operator.GREATER, Operator.LESS]),
        st.tuples(_NUMBERS),
    ),
)


@given(st.lists(_REQUIREMENTS, max_size=6), st.dictionaries(_KEYS, _NUMBERS))
def test_requirements_together_mean_what_each_of_them_means(parts: list[Requirement], labels: dict[str, str]) -> None:
    each = all(selectors.Selector.of([part]).matches(labels) for part in parts)
    assert selectors.Selector.of(parts).matches(labels) is each


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", ""),
        ("a==b", "a==b"),
        ("b, a ,!c", "a,b,!c"),
        ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a!=", "a!="),
        ("a==", "a=="),
        ("h<2,g>1", "g>1,h<2"),
    ],
)
def test_text_is_written_sorted_and_normal(text: str, written: str) -> None:
    assert str(parse(text)) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a,", "found '', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        (
            "x>y",
            'unable to parse requirement: values[0]: Invalid value: "y": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_bad_text_is_refused_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse(text)
    assert refused.value.message == message
    assert refused.value.code == 400


def test_bad_key_is_reported_without_a_path() -> None:
    with pytest.raises(SelectorError, match='unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid'):
        parse("a/b/c")


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=b", {"a": "b"}, True),
        ("a=b", {}, False),
        ("a=", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in ()", {"a": ""}, True),
        ("a notin (b)", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a>1", {"a": "2"}, True),
        ("a>1", {"a": "x"}, False),
        ("a<1", {}, False),
        ("a=b,c", {"a": "b"}, False),
    ],
)
def test_matching(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse(text).matches(labels) is matches


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not of_structured(None).matches({"a": "b"})
    assert of_structured({}).matches({})
    assert of_structured({"matchLabels": {}}).is_empty
    assert not selectors.NOTHING.is_empty


def test_structured_selector_has_a_text_form() -> None:
    """As in `status.selector` of a Scale."""
    structured: dict[str, Any] = {
        "matchLabels": {"z": "1", "a": "2"},
        "matchExpressions": [
            {"key": "m", "operator": "NotIn", "values": ["y", "x"]},
            {"key": "b", "operator": "Exists"},
        ],
    }
    assert str(of_structured(structured)) == "a=2,b,m notin (x,y),z=1"
    assert selectors.shown({}) == "<none>"
    assert selectors.shown({"matchExpressions": [{"key": "a", "operator": "Huh"}]}) == "<error>"


def test_exact_value_is_known_only_if_there_is_no_choice() -> None:
    selector = parse("a=1,b in (2),c in (3,4),d!=5")
    assert [selector.exact(key) for key in "abcde"] == ["1", "2", None, None, None]


def test_validation_names_the_broken_part() -> None:
    errors = Errors()
    selectors.validate_structured(
        {
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "a", "operator": "Huh"},
            ]
        },
        errors,
        "spec.selector",
    )
    path = "spec.selector.matchExpressions"
    assert errors == [
        Cause(
            "FieldValueRequired",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            f"{path}[0].values",
        ),
        Cause(
            "FieldValueForbidden",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            f"{path}[1].values",
        ),
        Cause("FieldValueInvalid", 'Invalid value: "Huh": not a valid selector operator', f"{path}[2].operator"),
    ]


words = st.sampled_from(["a", "b", "c", "in", "x-1"])
requirements = st.one_of(
    st.builds(lambda k, v: Requirement(k, Operator.EQUALS, (v,)), words, words),
    st.builds(lambda k, v: Requirement(k, Operator.NOT_EQUALS, (v,)), words, words),
    st.builds(lambda k, v: Requirement(k, Operator.IN, tuple(sorted(v))), words, st.sets(words, min_size=1)),
    st.builds(lambda k, v: Requirement(k, Operator.NOT_IN, tuple(sorted(v))), words, st.sets(words, min_size=1)),
    st.builds(lambda k: Requirement(k, Operator.EXISTS), words),
    st.builds(lambda k: Requirement(k, Operator.DOES_NOT_EXIST), words),
)


@given(st.lists(requirements), st.dictionaries(words, words))
def test_written_selector_parses_to_itself_and_all_requirements_must_hold(
    found: list[Requirement], labels: dict[str, str]
) -> None:
    selector = selectors.Selector.of(found)
    assert parse(str(selector)) == selector
    one_by_one = all(selectors.Selector((part,)).matches(labels) for part in found)
    assert selector.matches(labels) is one_by_one


@given(st.text(alphabet="ab in(),=!<>\t", max_size=12))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError:
        return
    assert parse(str(selector)) == selector


STRUCTURED = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(words, words, max_size=2),
        "matchExpressions": st.lists(
            st.one_of(
                st.fixed_dictionaries(
                    {
                        "key": words,
                        "operator": st.sampled_from(["In", "NotIn"]),
                        "values": st.lists(words, min_size=1, max_size=3),
                    }
                ),
                st.fixed_dictionaries({"key": words, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
            ),
            max_size=3,
        ),
    },
)


@given(STRUCTURED, st.dictionaries(words, words, max_size=3))
def test_a_selector_means_the_same_in_every_form(selector: dict[str, Any], labels: dict[str, str]) -> None:
    """As a view, compiled, as a text, and as a term of node affinity."""
    compiled = of_structured(selector)
    verdict = compiled.matches(labels)
    assert msgspec.convert(selector, LabelSelector).matches(labels) is verdict
    assert parse(str(compiled)).matches(labels) is verdict
    exact = [
        {"key": key, "operator": "In", "values": [value]} for key, value in selector.get("matchLabels", {}).items()
    ]
    expressions = [*exact, *selector.get("matchExpressions", ())]
    term = msgspec.convert({"matchExpressions": expressions}, NodeSelectorTerm)
    assert matches_term(term, labels, "node") is (verdict and bool(expressions))
