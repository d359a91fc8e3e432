"""Label selectors for asking about many objects: from a structured selector, from plain labels, or from a text.

A list or watch asks one selector about thousands of objects, and most selectors are a few equalities; so a selector is
compiled once into those plus what remains. What operators mean: `labels.py`; the text form: `selector_text.py`; field
selectors: `field_selectors.py`. Messages are those of k8s.io/apimachinery 1.36, pkg/labels/selector.go and
pkg/apis/meta/v1/helpers.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from fairlead.api import names
from fairlead.api.errors import BadRequest
from fairlead.api.fields import Errors, Word, quoted
from fairlead.api.labels import OPERATORS, Labels, LabelTest
from fairlead.api.objects import Obj
from fairlead.golang.numbers import known_int
from fairlead.golang.quoting import go_quote


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
SET_OPERATORS: Final = frozenset({Operator.IN, Operator.NOT_IN})
UNARY_OPERATORS: Final = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_ORDER: Final = frozenset({Operator.GREATER, Operator.LESS})
#: The operators of texts, as those of structured selectors.
_MEANING: Final = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.NOT_EQUALS: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
    Operator.GREATER: "Gt",
    Operator.LESS: "Lt",
}


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label. Only `requirement()` and trusted callers make them: nothing is checked here."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return _WRITTEN[self.operator].format(key=self.key, values=",".join(sorted(self.values)))


#: What labels meet that are not there.
_BARRING: Final = frozenset({"NotIn", "DoesNotExist"})


def _together(name: str, parts: Sequence[frozenset[str]]) -> frozenset[str]:
    """The values of one requirement that means what several of the same operator mean. Whoever has a selector of
    thousands asks no more of each object than of its labels."""
    match name:
        case "In":
            return parts[0].intersection(*parts[1:])
        case "Gt" | "Lt":
            numbers = {text: known_int(text) for part in parts for text in part}
            if None in numbers.values():  # which nothing meets
                return frozenset(text for text, number in numbers.items() if number is None)
            choose = max if name == "Gt" else min
            return frozenset({choose(numbers, key=lambda text: numbers[text] or 0)})
    return frozenset[str]().union(*parts)


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
class Selector:
    """All requirements, in the order of their keys; an object is selected if it meets every one."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False
    _exact: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    #: What a label must meet that has to be there, and what it must meet if it is there.
    _needed: tuple[tuple[str, LabelTest, Collection[str]], ...] = field(init=False, repr=False, compare=False)
    _barred: dict[str, tuple[tuple[LabelTest, Collection[str]], ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exact = dict.fromkeys((part.key, part.values[0]) for part in self.requirements if part.operator in _EXACT)
        alike: dict[tuple[str, str], list[frozenset[str]]] = {}
        for part in self.requirements:
            if part.operator not in _EXACT:
                alike.setdefault((part.key, _MEANING[part.operator]), []).append(frozenset(part.values))
        rest = {
            (key, name): parts[0] if len(parts) == 1 else _together(name, parts) for (key, name), parts in alike.items()
        }
        needed = tuple((key, OPERATORS[name], values) for (key, name), values in rest.items() if name not in _BARRING)
        barred: dict[str, tuple[tuple[LabelTest, Collection[str]], ...]] = {}
        for (label, name), values in rest.items():
            if name in _BARRING:
                barred[label] = (*barred.get(label, ()), (OPERATORS[name], values))
        object.__setattr__(self, "_exact", tuple(exact))
        object.__setattr__(self, "_needed", needed)
        object.__setattr__(self, "_barred", barred)

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> Selector:
        return cls(tuple(sorted(requirements, key=lambda part: part.key)))

    @property
    def is_empty(self) -> bool:
        """Whether it restricts nothing."""
        return not self.requirements and not self.selects_nothing

    @property
    def equalities(self) -> tuple[tuple[str, str], ...]:
        """Labels that whatever is selected has, as far as they are written `key=value`: lets an index answer."""
        return self._exact

    def matches(self, labels: Labels) -> bool:
        for key, value in self._exact:
            if labels.get(key) != value:
                return False
        for key, test, values in self._needed:
            if not test(labels.get(key), values):
                return False
        barred = self._barred
        for key in barred if len(barred) < len(labels) else labels:
            for test, values in barred.get(key, ()):
                if not test(labels.get(key), values):
                    return False
        return not self.selects_nothing

    def exact(self, key: str) -> str | None:
        """The one value the label must have, if the selector leaves no choice: lets an index answer."""
        for part in self.requirements:
            if part.key == key:
                is_exact = len(part.values) == 1 and (part.operator in _EXACT or part.operator is Operator.IN)
                return part.values[0] if is_exact else None
        return None

    def __str__(self) -> str:
        """The text form, as in `status.selector` of a Scale."""
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)


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
            if known_int(value) is None
        ]
    for index, value in enumerate(values):
        if wrong := names.label_value(value):
            errors.append(f"values[{index}][{key}]: Invalid value: {go_quote(value)}: {'; '.join(wrong)}")
    if errors:
        unique = list(dict.fromkeys(errors))
        raise SelectorError(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return Requirement(key, operator, tuple(values))


def _wrong_number_of_values(operator: Operator, count: int) -> str | None:
    if operator in SET_OPERATORS:
        return None if count else "for 'in', 'notin' operators, values set can't be empty"
    if operator in UNARY_OPERATORS:
        return "values set must be empty for exists and does not exist" if count else None
    if count == 1:
        return None
    if operator in _ORDER:
        return "for 'Gt', 'Lt' operators, exactly one value is required"
    return "exact-match compatibility requires one single value"


def of_labels(labels: Labels) -> Selector:
    """The selector that asks for each of these labels (a Service, a ReplicationController); none asks for nothing."""
    return Selector.of(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items())


_STRUCTURED: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def of_structured(selector: Mapping[str, Any] | None) -> Selector:
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
    return Selector.of(found) if found else EVERYTHING


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
        elif operator in SET_OPERATORS and not values:
            errors.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in UNARY_OPERATORS and values:
            errors.forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        key = expression.get("key", "")
        for text in names.qualified_name(key):
            errors.invalid(f"{here}.key", key, text)
        if not any_label_value:
            for position, value in enumerate(values):
                for text in names.label_value(value):
                    errors.invalid(f"{here}.values[{position}]", value, text)
