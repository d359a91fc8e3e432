"""Label selectors as objects carry them: `spec.selector` of a workload, a budget, an affinity term.

The text form of selectors (query parameters) is another matter. Semantics are those of
k8s.io/apimachinery/pkg/apis/meta/v1.LabelSelectorAsSelector; an empty selector selects everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.api.meta import View

Labels = Mapping[str, str]

#: operator → whether a label with that value (None: absent) satisfies it.
_OPERATORS: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
}


class LabelRequirement(View):
    key: str
    operator: str
    values: tuple[str, ...] | None = ()

    def matches(self, labels: Labels) -> bool:
        return _OPERATORS[self.operator](labels.get(self.key), self.values or ())


class LabelSelector(View):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.match_labels and not self.match_expressions

    def matches(self, labels: Labels) -> bool:
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(one.matches(labels) for one in self.match_expressions)
