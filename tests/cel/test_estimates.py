"""What rules could cost at most: the figures of kube-apiserver, without limits in the schema and with some."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.cel.environment import Environment
from fairlead.cel.schema import declared
from fairlead.cel.sizes import MOST, place_of

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
ANY = {"x-kubernetes-int-or-string": True}
OBJECT = {"type": "object", "required": ["required"], "properties": {"required": TEXT, "optional": TEXT}}


def array(items: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items} | ({} if most is None else {"maxItems": most})


def mapping(values: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values} | ({} if most is None else {"maxProperties": most})


def text(most: int, **more: str) -> dict[str, Any]:
    return {"type": "string", "maxLength": most, **more}


def of_format(format_: str) -> dict[str, Any]:
    return {"type": "string", "format": format_}


def cost_of(rule: str, schema: dict[str, Any]) -> int:
    type_, place = declared(schema), place_of(schema)
    assert type_ is not None and place is not None
    return Environment({"self": type_, "oldSelf": type_}).compile(rule).estimated_cost(place)


FIELDS = {
    "type": "object",
    "properties": {"str": TEXT, "before": text(2), "after": text(4), "separator": TEXT},
}


@pytest.mark.parametrize(
    ("rule", "schema", "cost"),
    [
        # as many elements as fit into a request, or as the schema allows
        ("self.all(x, true)", array(NUMBER), 4718591),
        ("self.all(x, true)", array(NUMBER, 10), 32),
        ("self.all(x, true)", array(TEXT), 3145727),
        ("self.all(x, true)", array({"type": "boolean"}), 1887437),
        ("self.all(x, true)", array(array(NUMBER)), 3145727),
        ("self.all(x, true)", array(OBJECT), 555128),
        ("self.all(x, true)", array(ANY), 4718591),
        ("self.all(x, true)", array(of_format("duration")), 2359295),
        ("self.all(x, true)", array(of_format("date")), 725936),
        ("self.all(x, true)", array(of_format("date-time")), 428963),
        ("self.all(x, true)", mapping(NUMBER), 1348169),
        ("self.all(x, true)", mapping(TEXT), 1179647),
        ("self.all(x, true)", mapping(TEXT, 3), 11),
        ("self.all(x, true)", mapping(OBJECT), 428963),
        ("self.all(x, self.all(y, true))", array(NUMBER, 10), 352),
        ("self.all(x, self.all(y, self.all(z, true)))", array(NUMBER, 10), 3552),
        ("self.all(x, x == 0.0)", array(NUMBER), 6291454),
        ("self.all(x, x.y == 25.2)", array(mapping(NUMBER)), 6291452),
        ("self.all(x, x['y'].required == 'z')", array(mapping(OBJECT)), 7340027),
        ("self.all(x, x.contains(self[x]))", mapping(TEXT), 2752507),
        ("self.all(x, x.contains(self[x]))", mapping(text(10), 10), 72),
        # presence, indexes, comparisons
        ("has(self.x)", mapping(NUMBER), 1),
        ("self[1] == 0.0", array(NUMBER), 2),
        ("self[1] == self[1]", array(TEXT, 8), 314577),
        ("self[0] == 5", array(ANY), 3),
        ("self[0][0] == -1.0", array(array(NUMBER)), 3),
        ("self[0].x > 2.0", array(mapping(NUMBER)), 4),
        ("self[0].getHours() == 2", array(of_format("duration")), 4),
        ("self['a'] == self['b']", mapping(of_format("date-time")), 8),
        ("oldSelf.size() == self.size()", mapping({"type": "integer"}), 5),
        ("type(self.d) == google.protobuf.Duration", {"type": "object", "properties": {"d": of_format("duration")}}, 4),
        ("self == 'x'", text(0), 1),
        ("self == b'x'", text(0, format="byte"), 1),
        # texts
        ("self.contains('test')", TEXT, 314574),
        ("self.contains('test')", text(10), 5),
        ("self.contains('A')", TEXT | {"enum": ["A", "B", "LongValue"]}, 2),
        ("self.startsWith('test')", TEXT, 2),
        ("size(self + 'hello') > size('hello')", TEXT, 314578),
        ("self.matches('x')", text(50), 22),
        ("''.matches('(((((((((())))))))))[0-9]')", TEXT, 7),
        ("self.find('[0-9]+') == ''", TEXT, 629147),
        ("self.lowerAscii() == 'lower!'", TEXT, 314575),
        ("self.str.replace(self.before, self.after) == 'does not matter'", FIELDS, 629154),
        ("self.str.split(self.separator) == []", FIELDS, 629160),
        ("isQuantity(self)", ANY, 314574),
        # lists of texts
        ("self.join(' ') == 'aa bb'", array(TEXT), 329853068905),
        ("self.join(' ') == 'aa bb'", array(text(10), 10), 43),
        ("self.isSorted() == true", array(TEXT), 329854432052),
        ("self.isSorted() == true", array(text(10), 10), 52),
    ],
)
def test_a_rule_could_cost(rule: str, schema: dict[str, Any], cost: int) -> None:
    assert cost_of(rule, schema) == cost


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        # of ten numbers: what is made has as many elements, and the next step counts them
        ("self.map(x, x + 1.0).all(x, true)", 1 + 10 + 1 + 10 * (12 + 2) + 10 * 3 + 1),
        ("self.filter(x, x > 1.0).size() == 1", 1 + 10 + 1 + 10 * (13 + 2) + 1 + 1),
        ("self.exists(x, x > 1.0)", 1 + 10 * (4 + 2) + 1),
        ("self.exists_one(x, x > 1.0)", 1 + 10 * (2 + 2) + 2),
        ("self.transformMap(i, x, x)[0] == 1.0", 1 + 30 + 1 + 10 * 4 + 1 + 1),
        ("self.slice(1, 3) == []", 1 + 2 + 11 + 10),
        ("self.reverse().first().orValue(1.0) > 0.0", 1 + (10 + 11) + 1 + 1 + 1),
        ("self.distinct().size() == 1", 1 + 200 + 11 + 1 + 1),
        ("self.sort() == self", 1 + 200 + 11 + 1 + 1),
        ("self.sortBy(x, -x) == self", 10 + 1 + 1 + (1 + 10 + 1 + 10 * (12 + 2)) + 200 + 11 + 1 + 1),
        ("sets.contains(self, [1.0])", 1 + 10 + 10 + 1),
        ("1.0 in self", 1 + 10),
        ("self.size() > 1 ? self[0] > 1.0 : self.all(x, true)", 3 + 32),
        ("self.size() > 1 && self[0] > 1.0 || true", 3 + 3),
        ("lists.range(5).all(i, true)", 5 + 11 + 15 + 1),
    ],
)
def test_what_is_made_on_the_way_counts(rule: str, cost: int) -> None:
    assert cost_of(rule, array(NUMBER, 10)) == cost


def test_what_nobody_can_bound_costs_more_than_anybody_has() -> None:
    assert cost_of("self.map(x, string(x)).join('') == ''", array(NUMBER)) > MOST // 20


@pytest.mark.parametrize(("rule", "cost"), [("cel.bind(a, self.str, a == 'x')", 14), ("cel.bind(a, 1, a > 0)", 12)])
def test_a_value_that_is_given_a_name_costs_a_list(rule: str, cost: int) -> None:
    type_, place = declared(FIELDS), place_of(FIELDS)
    assert type_ is not None and place is not None
    program = Environment({"self": type_}, has_bind=True).compile(rule)
    assert program.estimated_cost(place) == cost
