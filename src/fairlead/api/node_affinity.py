"""Which nodes a pod may run on by their labels and names: the one rule of scheduler, daemon sets and nodes.

Terms are alternatives; within a term every expression must hold. A term without expressions matches nothing, and so
does one that makes no sense (component-helpers/scheduling/corev1/nodeaffinity).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.api.fields import Errors
from fairlead.api.labels import OPERATORS, has_all
from fairlead.api.meta import WrittenView
from fairlead.api.names import label_value
from fairlead.golang.numbers import known_int

NAME_FIELD: Final = "metadata.name"


class NodeSelectorRequirement(WrittenView):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(WrittenView):
    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(WrittenView):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredSchedulingTerm(WrittenView):
    weight: int
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(WrittenView):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


#: How many values make sense; others of them match nothing, whatever the label.
_NUMBER_OF_VALUES: Final[Mapping[str, Callable[[int], bool]]] = {
    "In": lambda count: count > 0,
    "NotIn": lambda count: count > 0,
    "Gt": lambda count: count == 1,
    "Lt": lambda count: count == 1,
}

#: Whether a label's value meets a requirement; None if there is no such label.
LabelTest: TypeAlias = Callable[[str | None], bool]
#: Whether a node with these labels and that name is meant.
NodeTest: TypeAlias = Callable[[Mapping[str, str], str], bool]


def required_terms(affinity: NodeAffinity | None) -> Sequence[NodeSelectorTerm] | None:
    if affinity is None or affinity.required is None:
        return None
    return affinity.required.node_selector_terms or ()


def meets_required(
    selector: Mapping[str, str], affinity: NodeAffinity | None, labels: Mapping[str, str], name: str
) -> bool:
    """Whether a node meets the selector and what the affinity requires."""
    if not has_all(labels, selector):
        return False
    terms = required_terms(affinity)
    return terms is None or any(matches_term(term, labels, name) for term in terms)


def required_test(selector: Mapping[str, str], affinity: NodeAffinity | None) -> NodeTest:
    """`meets_required`, for whoever asks about many nodes: values are looked up then, not looked through."""
    terms = required_terms(affinity)
    tests = None if terms is None else [_term_test(term) for term in terms]
    return lambda labels, name: (
        has_all(labels, selector) and (tests is None or any(test(labels, name) for test in tests))
    )


def matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    return (
        all(
            _test(requirement, requirement.values or ())(labels.get(requirement.key))
            for requirement in term.match_expressions or ()
        )
        and all(field_test(requirement)(name) for requirement in term.match_fields or ())
        and makes_sense(term)  # last: it looks at every value, and is asked at every change of a node
    )


def makes_sense(term: NodeSelectorTerm) -> bool:
    """Whether it says anything, and no value that a label cannot have, as what was stored long ago may."""
    if not term.match_expressions and not term.match_fields:
        return False
    values = (value for requirement in term.match_expressions or () for value in requirement.values or ())
    return not any(map(label_value, values))


def faults_of(preferred: Sequence[PreferredSchedulingTerm], errors: Errors) -> None:
    """What no label selector can be made of (labels.NewRequirement); API validation lets it pass."""
    for number, term in enumerate(preferred):
        for index, requirement in enumerate(term.preference.match_expressions or ()):
            path = f"[{number}].matchExpressions[{index}].values"
            for place, value in enumerate(requirement.values or ()):
                if requirement.operator in ("Gt", "Lt") and known_int(value) is None:
                    text = "for 'Gt', 'Lt' operators, the value must be an integer"
                    errors.invalid(f"{path}[{place}]", value, text)
            for place, value in enumerate(requirement.values or ()):
                if faults := label_value(value):
                    errors.invalid(f"{path}[{place}][{requirement.key}]", value, "; ".join(faults))


def _term_test(term: NodeSelectorTerm) -> NodeTest:
    if not makes_sense(term):
        return lambda labels, name: False
    by_label = [(requirement.key, label_test(requirement)) for requirement in term.match_expressions or ()]
    by_field = [field_test(requirement) for requirement in term.match_fields or ()]
    return lambda labels, name: (
        all(test(labels.get(key)) for key, test in by_label) and all(test(name) for test in by_field)
    )


def label_test(requirement: NodeSelectorRequirement) -> LabelTest:
    """Whether a label's value (None: absent) meets the requirement; for whoever asks about many."""
    values = requirement.values or ()
    return _test(requirement, frozenset(values) if requirement.operator in ("In", "NotIn") else values)


def _test(requirement: NodeSelectorRequirement, values: Collection[str]) -> LabelTest:
    test, count = OPERATORS.get(requirement.operator), _NUMBER_OF_VALUES.get(requirement.operator)
    if test is None or (count is not None and not count(len(requirement.values or ()))):
        return _never
    return lambda value: test(value, values)


def field_test(requirement: NodeSelectorRequirement) -> LabelTest:
    """Fields know two operators and one value; the only field of a node is its name."""
    if requirement.operator not in ("In", "NotIn") or len(requirement.values or ()) != 1:
        return _never
    test = _test(requirement, requirement.values or ())
    return test if requirement.key == NAME_FIELD else lambda _: test("")


def _never(_: str | None) -> bool:
    return False
