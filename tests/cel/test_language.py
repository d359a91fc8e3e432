"""CEL as kube-apiserver runs it: what expressions are worth, what is wrong with them, and what they may cost."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cel.environment import Environment, WrongTypeError
from fairlead.cel.errors import CelError, CompileError, TooCostlyError
from fairlead.cel.scope import Meter
from fairlead.cel.types import BOOL, DOUBLE, DYN, INT, STRING, ObjectField, ObjectType, list_of, map_of
from fairlead.cel.values import Uint

_TYPES = {
    "count": INT,
    "ratio": DOUBLE,
    "name": STRING,
    "items": list_of(INT),
    "labels": map_of(STRING, STRING),
}
SELF = ObjectType.named("object", {name: ObjectField(name, type_) for name, type_ in _TYPES.items()})
ENVIRONMENT = Environment({"self": SELF, "any": DYN})
VALUES = {
    "self": {"count": 3, "ratio": 0.5, "name": "web-1", "items": [3, 1, 2], "labels": {"app": "web"}},
    "any": {"x": [1, {"y": 2.5}], "n": None, "t": True},
}


def value_of(source: str) -> Any:
    return ENVIRONMENT.compile(source).evaluate(VALUES)


def fault_of(source: str) -> str:
    """The first line of what is wrong with an expression, compiled or evaluated."""
    with pytest.raises((CompileError, CelError)) as caught:
        value_of(source)
    return str(caught.value).partition("\n")[0]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        # arithmetic and order
        ("1 + 2 * 3", 7),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("-9223372036854775808", -(2**63)),
        ("0x10 + 1", 17),
        ("0" * 5000 + "17", 17),
        ("7u / 2u", Uint(3)),
        ("1.5e2", 150.0),
        ("1.0 / 0.0 > 1.0", True),
        ("1 < 1.5 && 2u > 1", True),
        ("'a' < 'b' && b'a' < b'b' && false < true", True),
        ("dyn(1) == dyn(1.0) && dyn(1) != dyn(true)", True),
        ("[1, 2] == [1, 2] && {'a': 1} == {'a': 1}", True),
        # logic absorbs errors of the other side
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 || true", True),
        ("1 / 0 == 1 && false", False),
        ("[0, 1].exists(i, 1 / i == 1)", True),
        ("[0, 1].all(i, 1 / i == 2)", False),
        # strings
        (r"'\u00e9\x41\101\n' + r'\d'", "éAA\n\\d"),
        ("size('héllo')", 5),
        ("b'\\xff'", b"\xff"),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("['a', 'b'].join('-')", "a-b"),
        ("'hello'.substring(1, 3) + 'x'.charAt(0)", "elx"),
        ("' x '.trim() + 'Ab'.lowerAscii() + 'b'.upperAscii()", "xabB"),
        ("'aXbX'.replace('X', 'y', 1)", "aybX"),
        ("'tacocat'.indexOf('a', 2)", 5),
        ("'tacocat'.lastIndexOf('a')", 5),
        ("'%s has %d, %.2f, %x'.format(['a', 3, 1.5, 255])", "a has 3, 1.50, ff"),
        ("'web-1'.matches('^[a-z]+-[0-9]$') && 'abc'.contains('b')", True),
        ("'a1b22'.findAll('[0-9]+')", ["1", "22"]),
        ("strings.quote('a\"')", '"a\\""'),
        # fields, maps, optional values
        ("self.count + size(self.items)", 6),
        ("has(self.labels.app) && !has(self.labels.tier) && 'app' in self.labels", True),
        ("self.labels.?tier.orValue('none')", "none"),
        ("self.labels[?'app'].hasValue()", True),
        ("any.x[1].y", 2.5),
        ("optional.none().or(optional.of(2)).value()", 2),
        ("[1, ?optional.none(), ?optional.of(3)]", [1, 3]),
        ("{?'a': optional.none(), 'b': 1}", {"b": 1}),
        ("self.labels.?app.optMap(a, a + '!').orValue('')", "web!"),
        ("{true: 'yes', false: 'no'}[1 == 1]", "yes"),
        ("{1: 'a'}[1] + {2u: 'b'}[2u]", "ab"),
        # macros
        ("self.items.filter(i, i > 1).map(i, i * 2)", [6, 4]),
        ("self.items.map(i, i > 1, i * 10)", [30, 20]),
        ("self.items.exists_one(i, i == 3)", True),
        ("self.labels.all(k, k.startsWith('a'))", True),
        ("self.labels.exists(k, v, k == 'app' && v == 'web')", True),
        ("self.items.transformList(i, v, i + v)", [3, 2, 4]),
        ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
        ("[1, 2].transformMapEntry(i, v, {string(v): i})", {"1": 0, "2": 1}),
        ("[[1, 2], [3]].all(x, x.all(y, y > 0))", True),
        # lists and sets
        ("[1, 2].isSorted() && ![2, 1].isSorted()", True),
        ("self.items.sum() + self.items.min() * self.items.max()", 9),
        ("['a', 'b', 'a'].lastIndexOf('a')", 2),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])", True),
        ("[1, 2, 3, 4].slice(1, 3) + [1, 2].reverse()", [2, 3, 2, 1]),
        (
            "[[1], [2, 3]].flatten() + [dyn(1), dyn([dyn(2), dyn([3])])].flatten(1).filter(x, type(x) == int)",
            [1, 2, 3, 1, 2],
        ),
        ("['b', 'a', 'b'].distinct() + dyn(['a'])", ["b", "a", "a"]),
        ("[dyn(1), dyn(1u), dyn(1.0), dyn(2)].distinct()", [1, 2]),
        ("[3, 1, 2].sort() + lists.range(3)", [1, 2, 3, 0, 1, 2]),
        ("['bb', 'a', 'ccc'].sortBy(e, -size(e))", ["ccc", "bb", "a"]),
        ("self.labels.map(k, k).sortBy(k, self.labels[k])", ["app"]),
        (
            "[1, 2].first().value() + [1, 2].last().value() + [].first().or([].last()).orValue(0)",
            3,
        ),
        ("optional.unwrap([optional.of(1), optional.none()]) + [optional.of(2)].unwrapOpt()", [1, 2]),
        ("optional.of(1).orValue(1 / 0) + optional.of(2).or(optional.of(1 / 0)).value()", 3),
        # conversions and types
        ("int('12') + int(3.9) + int(2u)", 17),
        ("string(1.0) + string(true) + string(1e100)", "1true1e+100"),
        ("type(1) == int && type('') == string", True),
        ("type(timestamp(0)) == google.protobuf.Timestamp && type(ip('::1')) == net.IP", True),
        ("type(duration('1s')) == google.protobuf.Duration && type(quantity('1')) == kubernetes.Quantity", True),
        # times
        ("timestamp('2026-03-01T00:30:00Z').getDayOfYear()", 59),
        ("timestamp('2026-03-01T00:30:00Z').getHours('America/New_York')", 19),
        ("timestamp('2026-03-01T00:30:00+01:00').getDate('-02:00')", 28),
        ("string(timestamp('2026-01-01T00:00:00.5Z') + duration('90s'))", "2026-01-01T00:01:30.5Z"),
        ("duration('90m').getHours()", 1),
        ("duration('1h') > duration('59m') && string(-duration('1.5s')) == '-1.5s'", True),
        # Kubernetes' own
        (
            "quantity('1.5Gi').isGreaterThan(quantity('1500Mi'))",
            True,
        ),
        ("quantity('500m').add(1).compareTo(quantity('1.5')) == 0", True),
        ("isQuantity('1Mi') && !isQuantity('1Kb') && quantity('2k').asInteger() == 2000", True),
        ("ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('10.0.0.256') && !isIP('::ffff:1.2.3.4')", True),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True),
        ("url('https://a.b:80/p?x=1&x=2').getQuery()['x']", ["1", "2"]),
        ("url('https://user@[::1]:80/').getHostname() + url('/p').getEscapedPath()", "::1/p"),
        ("!format.dns1123Label().validate('ok').hasValue()", True),
        ("format.named('dns1123Label').value().validate('Not').value().size()", 1),
        ("semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.0', true).major() == 1", True),
        ("semver('1.0.0-rc.2').isLessThan(semver('1.0.0'))", True),
    ],
)
def test_an_expression_is_worth(source: str, value: Any) -> None:
    found = value_of(source)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("self.nope", "ERROR: <input>:1:5: undefined field 'nope'"),
        ("nope", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')"),
        ("nope(1)", "ERROR: <input>:1:5: undeclared reference to 'nope' (in container '')"),
        (
            "self.count + 'a'",
            "ERROR: <input>:1:12: found no matching overload for '_+_' applied to '(int, string)'",
        ),
        (
            "self.name.startsWith(1)",
            "ERROR: <input>:1:21: found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        ("1 == 1.0", "ERROR: <input>:1:3: found no matching overload for '_==_' applied to '(int, double)'"),
        ("self.name.x", "ERROR: <input>:1:10: type 'string' does not support field selection"),
        ("[1, 'a']", "ERROR: <input>:1:5: expected type 'int' but found 'string'"),
        ("self.count.all(x, true)", "ERROR: <input>:1:5: expression of type 'int' cannot be range of a comprehension"),
        ("1 +", "ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>'"),
        ("a b", "ERROR: <input>:1:3: Syntax error: mismatched input 'b'"),
        ("1 = 2", "ERROR: <input>:1:3: Syntax error: token recognition error at: '= '"),
        ("1 # 2", "ERROR: <input>:1:3: Syntax error: token recognition error at: '#'"),
        ("for", "ERROR: <input>:1:1: reserved identifier: for"),
        ("9" * 5000, "ERROR: <input>:1:1: invalid int literal"),
        ("9" * 5000 + "u", "ERROR: <input>:1:1: invalid uint literal"),
        ("has(self)", "ERROR: <input>:1:5: invalid argument to has() macro"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("uint(0) - uint(1)", "unsigned integer overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("self.labels.nope", "no such key: nope"),
        ("self.items[3]", "index out of bounds: 3"),
        ("any.t + 1", "no such overload: _+_(bool, int)"),
        ("int('x' + '')", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("optional.none().value()", "optional.none() dereference"),
        ("'a'.matches('(' + '')", "error parsing regexp: missing closing ): `(`"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("[].min()", "min called on empty list"),
        ("cel.bind(x, 1, x)", "ERROR: <input>:1:1: undeclared reference to 'cel' (in container '')"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("[1].slice(1, 0)", "cannot slice(1, 0), start index must be less than or equal to end index"),
        ("[1].slice(-1, 0)", "cannot slice(-1, 0), negative indexes not supported"),
        ("[1].flatten(-1)", "level must be non-negative"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("[dyn([1])].sort()", "list elements must be comparable"),
        (
            "[1].sortBy(x, [x])",
            "ERROR: <input>:1:11: found no matching overload for '@sortByAssociatedKeys' applied to",
        ),
        ("'ab'.sortBy(x, x)", "ERROR: <input>:1:1: sortBy can only be applied to a list, identifier, comprehension"),
        ("lists.range(1000000).size()", "operation cancelled: actual cost limit exceeded"),
        ("lists.range(1000).distinct().size()", "operation cancelled: actual cost limit exceeded"),
        ("[1, dyn('a')]", "ERROR: <input>:1:8: expected type 'int' but found 'dyn'"),
    ],
)
def test_an_expression_is_wrong(source: str, text: str) -> None:
    assert fault_of(source).startswith(text)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("self.name.matches('[')", "ERROR: <input>:1:19: invalid matches argument"),
        ("duration('zz') < duration('1s')", "ERROR: <input>:1:10: invalid duration argument"),
        ("timestamp('yesterday') == timestamp(self.name)", "ERROR: <input>:1:11: invalid timestamp argument"),
        ("timestamp(1e99) == timestamp(self.name)", "ERROR: <input>:1:10: found no matching overload for 'timestamp'"),
        ("matches(self.name, '[')", "error parsing regexp: missing closing ]: `[`"),
        ("self.name.find('a**') == ''", "error parsing regexp: invalid nested repetition operator: `**`"),
        ("false && int('x') > 1", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("[1, dyn(2)]", "ERROR: <input>:1:8: expected type 'int' but found 'dyn'"),
        ("{'a': 1, 'b': true}", "ERROR: <input>:1:15: expected type 'int' but found 'bool'"),
    ],
)
def test_what_is_written_out_is_checked_when_it_is_written(source: str, text: str) -> None:
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile(source)
    assert str(caught.value).startswith(text)


def test_elements_of_which_nothing_is_known_go_with_any() -> None:
    assert value_of("[[], [1]] == [[], [1]] && '%s %d'.format(['a', 1]) == 'a 1'") is True


def test_errors_are_told_by_their_places() -> None:
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile("self.nope + gone")
    assert [line for line in str(caught.value).split("\n") if line.startswith("ERROR")] == [
        "ERROR: <input>:1:5: undefined field 'nope'",
        "ERROR: <input>:1:13: undeclared reference to 'gone' (in container '')",
    ]


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("self.count > 0", 3),
        # what is not evaluated costs nothing
        ("self.count > 0 || self.count > 1 && self.count > 2", 3),
        ("self.count < 0 || self.count > 1 && self.count > 2", 9),
        ("self.count > 0 ? self.count : self.count + self.count", 5),
        ("self.count < 0 ? self.count : self.count + self.count", 8),
        # a loop asks whether to go on before each element, and gives its result
        ("self.items.all(x, x > 0)", 2 + 3 * (3 + 2) + 1),
        ("self.items.all(x, x < 0)", 2 + (3 + 2) + 2 + 1),
        ("self.items.exists(x, x > 0)", 2 + (4 + 2) + 3 + 1),
        ("self.items.exists_one(x, x > 2)", 2 + 3 * (2 + 1) + 1 + 2),
        ("self.items.filter(x, x > 2)", 2 + 3 * (2 + 1) + 12 + 1),
        ("self.items.map(x, x > 2, x + x)", 2 + 3 * (2 + 1) + (11 + 3) + 1),
        ("self.items.map(x, x + x)", 2 + 3 * (12 + 3) + 1),
        # an optional is asked whether it has a value, and then made once more
        ("self.?labels.optMap(x, x)", 2 + 1 + 2 + 1 + 1 + 1),
        ("any.?nope.optMap(x, x)", 2 + 1 + 1),
        # lists that are written out are made once
        ("[[1], [2, 3]]", 0),
        ("self.name in ['a', 'b', 'web-1']", 2),
        ("self.count in [1, 2]", 2),
    ],
)
def test_an_evaluation_costs(source: str, cost: int) -> None:
    meter = Meter(1_000)
    ENVIRONMENT.compile(source).metered(VALUES, meter)
    assert 1_000 - meter.left == cost


@pytest.mark.parametrize("wanted", ["1", "1.0", "1u", "1.5", "'1'", "'a'", "true", "null", "[1]"])
@pytest.mark.parametrize("values", ["[1, 2]", "['a', '1']", "[]", "[dyn(1), dyn('a')]"])
def test_membership_of_what_is_written_out_is_equality(wanted: str, values: str) -> None:
    assert value_of(f"dyn({wanted}) in {values}") is value_of(f"{values}.exists(x, dyn(x) == dyn({wanted}))")


def test_patterns_that_are_made_of_values_cost_what_they_take() -> None:
    many = "lists.range(10000).exists(i, 'a'.matches('(a{1000}){20}' + string(i)))"
    with pytest.raises(TooCostlyError):
        value_of(many)


def test_an_error_shows_the_place() -> None:
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile("self.count >\n self.nope")
    assert str(caught.value) == "ERROR: <input>:2:6: undefined field 'nope'\n |  self.nope\n | .....^"


def test_an_expression_must_be_of_the_wanted_type() -> None:
    assert ENVIRONMENT.compile("self.count > 1", BOOL).evaluate(VALUES) is True
    with pytest.raises(WrongTypeError, match="evaluates to int"):
        ENVIRONMENT.compile("self.count", BOOL)
    assert ENVIRONMENT.compile("any.t", BOOL).evaluate(VALUES) is True


# -- what a stranger's expression costs


NESTED = "[1,2,3,4,5,6,7,8,9,10]"


@pytest.mark.parametrize(
    "source",
    [
        "".join(f"{NESTED}.all({name}, " for name in "abcdefgh") + "true" + ")" * 8,
        f"{NESTED}.map(a, {NESTED}.map(b, {NESTED}.map(c, {NESTED}.map(d, {NESTED}.map(e, {NESTED}))))).size() > 0",
    ],
)
def test_an_evaluation_ends(source: str) -> None:
    with pytest.raises(TooCostlyError, match="operation cancelled: actual cost limit exceeded"):
        value_of(source)


def test_what_doubles_at_each_step_is_refused() -> None:
    doubled = "'aaaaaaaaaaaaaaaa'" + "".join(".replace('a', 'aaaaaaaaaaaaaaaa')" for _ in range(20))
    with pytest.raises(CelError):
        value_of(doubled)


@pytest.mark.parametrize(
    "source",
    [
        *("(" * 5000 + "1" + ")" * 4999, "-" * 5000 + "a", "!" * 5000 + "true", "1" + "+1" * 5000, "a" + ".b" * 5000),
        *("[" * 5000, "x" * 100_001, "{" * 5000, "'" * 5001, "1?" * 5000, "/" * 10_000),
    ],
)
def test_a_hostile_text_is_refused(source: str) -> None:
    with pytest.raises(CompileError):
        ENVIRONMENT.compile(source)


# -- properties


INTS = st.integers(-(2**63), 2**63 - 1)


@given(INTS, INTS, st.sampled_from(["+", "-", "*"]))
def test_integers_are_exact_or_overflow(a: int, b: int, operator: str) -> None:
    program = Environment({"a": INT, "b": INT}).compile(f"a {operator} b")
    expected = {"+": a + b, "-": a - b, "*": a * b}[operator]
    if -(2**63) <= expected < 2**63:
        assert program.evaluate({"a": a, "b": b}) == expected
    else:
        with pytest.raises(CelError, match="integer overflow"):
            program.evaluate({"a": a, "b": b})


@given(INTS, INTS.filter(bool))
def test_division_and_remainder_belong_together(a: int, b: int) -> None:
    environment = Environment({"a": INT, "b": INT})
    if (a, b) == (-(2**63), -1):
        return
    variables = {"a": a, "b": b}
    assert environment.compile("a / b * b + a % b == a").evaluate(variables) is True


@given(st.text(max_size=30), st.text(min_size=1, max_size=3))
def test_what_is_split_is_joined_again(text: str, by: str) -> None:
    program = Environment({"text": STRING, "by": STRING}).compile("text.split(by).join(by) == text")
    assert program.evaluate({"text": text, "by": by}) is True


JSON = st.recursive(
    st.none() | st.booleans() | INTS | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_equals_itself_and_is_found_in_a_list(value: Any) -> None:
    environment = Environment({"v": DYN})
    assert environment.compile("v == v && v in [v] && [v].indexOf(v) == 0").evaluate({"v": value}) is True


_WORDS = [
    "v",
    "1",
    "2u",
    "1.5",
    "'a'",
    "b'x'",
    "true",
    "null",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    ".",
    "?",
    "+",
    "-",
]
_WORDS += [
    "*",
    "/",
    "%",
    "<",
    "==",
    "in",
    "&&",
    "||",
    "!",
    "size",
    "has",
    "map",
    "all",
    "x",
    "a",
    "int",
    "type",
    "optional",
]
_WORDS += ["of", "'a%s'.format", "duration", "timestamp", "matches", "split", "quantity", "[?", ".?", "orValue", "url"]


@given(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join), JSON)
def test_nothing_else_is_raised_whatever_is_written(source: str, value: Any) -> None:
    with suppress(CompileError, CelError):
        Environment({"v": DYN}).compile(source).evaluate({"v": value}, 10_000)


_CALLS = [
    "v.size()",
    "v.{}(v)",
    "v.{}(1)",
    "v.{}('a', 1)",
    "{}(v)",
    "v.{}()",
    "v {} v",
    "v[v]",
    "v.?a",
    "v[?v]",
    "-v",
    "!v",
]
_NAMES = ["contains", "split", "substring", "format", "replace", "indexOf", "charAt", "join", "sum", "min", "isSorted"]
_NAMES += ["int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration", "quantity", "ip", "cidr", "url"]
_NAMES += ["semver", "isURL", "type", "getHours", "getFullYear", "+", "-", "*", "/", "%", "<", ">=", "==", "in", "&&"]


@given(st.sampled_from(_CALLS), st.sampled_from(_NAMES), JSON)
def test_a_value_of_unknown_type_fails_as_an_error(call: str, name: str, value: Any) -> None:
    with suppress(CompileError, CelError):
        Environment({"v": DYN}).compile(call.format(name)).evaluate({"v": value})


def test_what_is_nested_too_deep_to_be_compiled_is_told_of_the_expression() -> None:
    """The parser lets 250 levels through, and several calls to a level are more than Python allows. How many of them a
    level of a list or a map takes is different with its version."""
    assert "expression is nested too deep" in fault_of("true ? 1 : " * 230 + "1")
