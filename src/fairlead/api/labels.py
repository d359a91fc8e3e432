"""What label selectors mean, and how objects carry them: `spec.selector` of a workload, a budget, an affinity term.

Semantics are those of k8s.io/apimachinery/pkg/labels and pkg/apis/meta/v1.LabelSelectorAsSelector; an empty selector
selects everything. Selectors of queries, and those that are asked about many objects: `selectors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import gt, lt
from typing import Final, TypeAlias

from fairlead.api.meta import View
from fairlead.golang.numbers import known_int

Labels: TypeAlias = Mapping[str, str]
#: A key and a value.
Label: TypeAlias = tuple[str, str]
#: Whether a label with that value (None: absent) meets a requirement with these values.
LabelTest: TypeAlias = Callable[[str | None, Collection[str]], bool]


def _ordered(is_met: Callable[[int, int], bool]) -> LabelTest:
    """Of labels that are integers; there is one value."""

    def test(value: str | None, values: Collection[str]) -> bool:
        number, bound = known_int(value or ""), known_int(next(iter(values)))
        return number is not None and bound is not None and is_met(number, bound)

    return test


#: What operators mean. `Gt` and `Lt` are for texts and node affinity.
OPERATORS: Final[Mapping[str, LabelTest]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": _ordered(gt),
    "Lt": _ordered(lt),
}


def has_all(labels: Labels, selector: Labels) -> bool:
    """Whether each of the selector's labels is there: `spec.selector` of a Service, a pod's `nodeSelector`."""
    for key, value in selector.items():  # noqa: SIM110  # asked most of all: a loop takes a third of the time
        if labels.get(key) != value:
            return False
    return True


class LabelRequirement(View):
    key: str
    operator: str
    values: tuple[str, ...] | None = ()

    def matches(self, labels: Labels) -> bool:
        return OPERATORS[self.operator](labels.get(self.key), self.values or ())


class LabelSelector(View):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    def required(self) -> Iterator[Sequence[Label]]:
        """Labels of which whatever is selected has one; nothing, if it may have any."""
        for label in self.match_labels.items():
            yield (label,)
        for requirement in self.match_expressions:
            if requirement.operator == "In":
                yield [(requirement.key, value) for value in requirement.values or ()]

    def narrowest(self) -> Sequence[Label]:
        """Those of `required` that the fewest objects will have, which nobody knows beforehand: long values are seldom
        shared. They are of one key.
        """
        return min(self.required(), key=lambda labels: (len(labels), -len(labels[0][1]) if labels else 0), default=())

    def matches(self, labels: Labels) -> bool:
        if not has_all(labels, self.match_labels):
            return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)

    def for_many(self) -> Callable[[Labels], bool]:
        """`matches`, for whoever asks about many: values are looked up then, not looked through."""
        exact = self.match_labels
        tests = [(term.key, OPERATORS[term.operator], frozenset(term.values or ())) for term in self.match_expressions]
        return lambda labels: (
            has_all(labels, exact) and all(test(labels.get(key), any_of) for key, test, any_of in tests)
        )
