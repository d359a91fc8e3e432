"""Label selectors: `a=b,c!=d,e in (x,y),!f,g>1`, and the structured form inside specs.

A list or watch asks one selector about thousands of objects, and most selectors are a few equalities; so a selector is
compiled once into those plus a tuple of small tests, and texts are parsed once. Grammar and messages are those of
k8s.io/apimachinery 1.36, pkg/labels/selector.go and pkg/apis/meta/v1/helpers.go. Field selectors: `field_selectors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from fairlead.api import names
from fairlead.api.errors import BadRequest
from fairlead.api.fields import Errors, Word, quoted
from fairlead.api.objects import Obj
from fairlead.caches import bounded_cache
from fairlead.golang.quoting import go_quote

Labels: TypeAlias = Mapping[str, str]
Test: TypeAlias = Callable[[Labels], bool]


class SelectorError(BadRequest):
    """The selector makes no sense; the message says why."""


class Operator(StrEnum):
    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER = "gt"
    LESS = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_EXACT: Final = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS})
_SET: Final = frozenset({Operator.IN, Operator.NOT_IN})
_UNARY: Final = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_ORDER: Final = frozenset({Operator.GREATER, Operator.LESS})
_BINARY_TEXT: Final = ", ".join(one for one in Operator if one not in _UNARY)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. Only `requirement()` and trusted callers make them: nothing is checked here."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return _WRITTEN[self.operator].format(key=self.key, values=",".join(sorted(self.values)))


_WRITTEN: Final = {
    Operator.IN: "{key} in ({values})",
    Operator.NOT_IN: "{key} notin ({values})",
    Operator.EQUALS: "{key}={values}",
    Operator.DOUBLE_EQUALS: "{key}=={values}",
    Operator.NOT_EQUALS: "{key}!={values}",
    Operator.GREATER: "{key}>{values}",
    Operator.LESS: "{key}<{values}",
    Operator.EXISTS: "{key}",
    Operator.DOES_NOT_EXIST: "!{key}",
}


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements, in the order of their keys; an object is selected if it meets every one."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False
    _equal: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    _tests: tuple[Test, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        equal = tuple((one.key, one.values[0]) for one in self.requirements if one.operator in _EXACT)
        tests = tuple(_TESTS[one.operator](one) for one in self.requirements if one.operator not in _EXACT)
        object.__setattr__(self, "_equal", equal)
        object.__setattr__(self, "_tests", ((_never,) if self.selects_nothing else ()) + tests)

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> LabelSelector:
        return cls(tuple(sorted(requirements, key=lambda one: one.key)))

    @property
    def is_empty(self) -> bool:
        """Whether it restricts nothing."""
        return not self.requirements and not self.selects_nothing

    def matches(self, labels: Labels) -> bool:
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        return all(test(labels) for test in self._tests) if self._tests else True

    def exact(self, key: str) -> str | None:
        """The one value the label must have, if the selector leaves no choice: lets an index answer."""
        for one in self.requirements:
            if one.key == key:
                is_exact = len(one.values) == 1 and (one.operator in _EXACT or one.operator is Operator.IN)
                return one.values[0] if is_exact else None
        return None

    def __str__(self) -> str:
        """The text form, as in `status.selector` of a Scale."""
        return ",".join(map(str, self.requirements))


def _never(labels: Labels) -> bool:
    return False


def _in(one: Requirement) -> Test:
    key, values = one.key, frozenset(one.values)
    return lambda labels: labels.get(key) in values


def _not_in(one: Requirement) -> Test:
    key, values = one.key, frozenset(one.values)
    return lambda labels: labels.get(key) not in values


def _exists(one: Requirement) -> Test:
    key = one.key
    return lambda labels: key in labels


def _absent(one: Requirement) -> Test:
    key = one.key
    return lambda labels: key not in labels


def _ordered(one: Requirement) -> Test:
    key, bound, is_greater = one.key, _int64(one.values[0]), one.operator is Operator.GREATER

    def test(labels: Labels) -> bool:
        value = _int64(labels.get(key, ""))
        if value is None or bound is None:
            return False
        return value > bound if is_greater else value < bound

    return test


_TESTS: Final[Mapping[Operator, Callable[[Requirement], Test]]] = {
    Operator.IN: _in,
    Operator.NOT_IN: _not_in,
    Operator.NOT_EQUALS: _not_in,
    Operator.EXISTS: _exists,
    Operator.DOES_NOT_EXIST: _absent,
    Operator.GREATER: _ordered,
    Operator.LESS: _ordered,
}

EVERYTHING: Final = LabelSelector()
NOTHING: Final = LabelSelector(selects_nothing=True)


def _int64(text: str) -> int | None:
    """`strconv.ParseInt(text, 10, 64)`; label values are short, so `int` may have them all."""
    if not _DECIMAL(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


_DECIMAL: Final = re.compile("[+-]?[0-9]{1,63}").fullmatch


def requirement(key: str, operator: Operator, values: Sequence[str]) -> Requirement:
    """`NewRequirement`: the condition, or `SelectorError` with everything that is wrong with it."""
    errors: list[str] = []
    if wrong := names.qualified_name(key):
        errors.append(f"key: Invalid value: {go_quote(key)}: {'; '.join(wrong)}")
    if (rule := _wrong_number_of_values(operator, len(values))) is not None:
        errors.append(f"values: Invalid value: {quoted(list(values))}: {rule}")
    if operator in _ORDER:
        rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [
            f"values[{index}]: Invalid value: {go_quote(value)}: {rule}"
            for index, value in enumerate(values)
            if _int64(value) is None
        ]
    for index, value in enumerate(values):
        if wrong := names.label_value(value):
            errors.append(f"values[{index}][{key}]: Invalid value: {go_quote(value)}: {'; '.join(wrong)}")
    if errors:
        unique = list(dict.fromkeys(errors))
        raise SelectorError(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return Requirement(key, operator, tuple(values))


def _wrong_number_of_values(operator: Operator, count: int) -> str | None:
    if operator in _SET:
        return None if count else "for 'in', 'notin' operators, values set can't be empty"
    if operator in _UNARY:
        return "values set must be empty for exists and does not exist" if count else None
    if count == 1:
        return None
    if operator in _ORDER:
        return "for 'Gt', 'Lt' operators, exactly one value is required"
    return "exact-match compatibility requires one single value"


def of_labels(labels: Labels) -> LabelSelector:
    """The selector that asks for each of these labels (a Service, a ReplicationController); none asks for nothing."""
    return LabelSelector.of(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items())


_STRUCTURED: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def of_structured(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The compiled form of a `metav1.LabelSelector`: none at all selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    found = [requirement(key, Operator.EQUALS, (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        name = expression.get("operator", "")
        operator = _STRUCTURED.get(name)
        if operator is None:
            raise SelectorError(f"{go_quote(name)} is not a valid label selector operator")
        found.append(requirement(expression.get("key", ""), operator, expression.get("values") or ()))
    return LabelSelector.of(found) if found else EVERYTHING


def shown(selector: Mapping[str, Any] | None) -> str:
    """`FormatLabelSelector`: what tables print for a structured selector."""
    try:
        return str(of_structured(selector)) or "<none>"
    except SelectorError:
        return "<error>"


def validate_labels(labels: Labels | None, errors: Errors, path: str) -> None:
    """`ValidateLabels`: every key and value; all errors are about the map, as upstream has them."""
    for key, value in (labels or {}).items():
        for text in names.qualified_name(key):
            errors.invalid(path, key, text)
        for text in names.label_value(value):
            errors.invalid(path, value, text)


def validate_structured(selector: Obj | None, errors: Errors, path: str, *, any_label_value: bool = False) -> None:
    """`ValidateLabelSelector`; `any_label_value` lets an update keep values that an older release let in."""
    if selector is None:
        return
    validate_labels(selector.get("matchLabels"), errors, f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        name, values = expression.get("operator", ""), expression.get("values") or ()
        operator = _STRUCTURED.get(name)
        if operator is None:
            errors.invalid(f"{here}.operator", Word(name), "not a valid selector operator")
        elif operator in _SET and not values:
            errors.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in _UNARY and values:
            errors.forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        key = expression.get("key", "")
        for text in names.qualified_name(key):
            errors.invalid(f"{here}.key", key, text)
        if not any_label_value:
            for position, value in enumerate(values):
                for text in names.label_value(value):
                    errors.invalid(f"{here}.values[{position}]", value, text)


@bounded_cache(maxsize=1024)
def parse(text: str) -> LabelSelector:
    """The selector a text stands for; the empty text selects everything."""
    return LabelSelector.of(_Parser(text).requirements())


_TOKEN: Final = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_END: Final = ""
_SYMBOLS: Final = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", _END})
_SYMBOL_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


def _is_word(token: str) -> bool:
    return token not in _SYMBOLS


class _Parser:
    """Recursive descent over the tokens; `in` and `notin` are words wherever no operator is expected."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._position = 0

    def _next(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1]

    @property
    def _ahead(self) -> str:
        return self._tokens[self._position]

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if self._ahead == _END:
            return found
        if not _is_word(self._ahead) and self._ahead != "!":
            raise SelectorError(f"found '{self._ahead}', expected: !, identifier, or 'end of string'")
        while True:
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error.message}") from None
            token = self._next()
            if token == _END:
                return found
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if not _is_word(self._ahead) and self._ahead != "!":
                raise SelectorError(f"found '{self._ahead}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        is_negated = self._ahead == "!"
        if is_negated:
            self._next()
        key = self._next()
        if not _is_word(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        if wrong := names.qualified_name(key):
            # Upstream prints the path of this error, which it does not know.
            raise SelectorError(f"<nil>: Invalid value: {go_quote(key)}: {'; '.join(wrong)}")
        if is_negated:
            return Requirement(key, Operator.DOES_NOT_EXIST)
        if self._ahead in (_END, ","):
            return Requirement(key, Operator.EXISTS)
        token = self._next()
        operator = _SYMBOL_OPERATORS.get(token)
        if operator is None:
            raise SelectorError(f"found '{token}', expected: {_BINARY_TEXT}")
        values = self._set() if operator in _SET else {self._value()}
        return requirement(key, operator, sorted(values))

    def _value(self) -> str:
        if self._ahead in (_END, ","):
            return ""
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _set(self) -> set[str]:
        token = self._next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        if self._ahead == ")":
            self._next()
            return {""}
        if not _is_word(self._ahead) and self._ahead != ",":
            raise SelectorError(f"found '{self._ahead}', expected: ',', ')' or identifier")
        values = self._listed()
        self._next()
        return values

    def _listed(self) -> set[str]:
        """Words and gaps up to the closing parenthesis; a gap counts as the empty value."""
        values: set[str] = set()
        while True:
            token = self._next()
            if _is_word(token):
                values.add(token)
                if self._ahead == ")":
                    return values
                if self._ahead != ",":
                    raise SelectorError(f"found '{self._ahead}', expected: ',' or ')'")
            elif token == ",":
                if not values or self._ahead in (")", ","):
                    values.add("")
                if self._ahead == ")":
                    return values
            else:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
