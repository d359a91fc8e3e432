"""Which nodes a pod may run on by their labels and names: the one rule of scheduler, daemon sets and nodes.

Terms are alternatives; within a term every expression must hold. A term without expressions matches nothing, and so
does one that makes no sense (component-helpers/scheduling/corev1/nodeaffinity).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import gt, lt
from typing import Final, TypeAlias

import msgspec

from fairlead.api.meta import WrittenView
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


#: Whether a label's value meets a requirement; None if there is no such label.
Verdict: TypeAlias = Callable[[str | None], bool]


def required_terms(affinity: NodeAffinity | None) -> Sequence[NodeSelectorTerm] | None:
    if affinity is None or affinity.required is None:
        return None
    return affinity.required.node_selector_terms or ()


def meets_required(
    selector: Mapping[str, str], affinity: NodeAffinity | None, labels: Mapping[str, str], name: str
) -> bool:
    """Whether a node meets the selector and what the affinity requires."""
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    terms = required_terms(affinity)
    return terms is None or any(matches_term(term, labels, name) for term in terms)


def matches_term(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(verdict_of(one)(labels.get(one.key)) for one in term.match_expressions or ()) and all(
        field_verdict_of(one)(name) for one in term.match_fields or ()
    )


def verdict_of(requirement: NodeSelectorRequirement) -> Verdict:
    """Whether a label's value (None: absent) meets the requirement."""
    make = _OPERATORS.get(requirement.operator)
    return make(requirement.values or ()) if make else _never


def field_verdict_of(requirement: NodeSelectorRequirement) -> Verdict:
    """Fields know two operators and one value; the only field of a node is its name."""
    if requirement.operator not in ("In", "NotIn") or len(requirement.values or ()) != 1:
        return _never
    verdict = verdict_of(requirement)
    return verdict if requirement.key == NAME_FIELD else lambda _: verdict("")


def _never(_: str | None) -> bool:
    return False


def _in(values: Sequence[str]) -> Verdict:
    return lambda found: found in values if found is not None else False


def _not_in(values: Sequence[str]) -> Verdict:
    return (lambda found: found not in values) if values else _never


def _ordered(is_met: Callable[[int, int], bool]) -> Callable[[Sequence[str]], Verdict]:
    def make(values: Sequence[str]) -> Verdict:
        bound = known_int(values[0]) if len(values) == 1 else None
        if bound is None:
            return _never

        def verdict(found: str | None) -> bool:
            value = None if found is None else known_int(found)
            return value is not None and is_met(value, bound)

        return verdict

    return make


_OPERATORS: Final[Mapping[str, Callable[[Sequence[str]], Verdict]]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": lambda _: lambda found: found is not None,
    "DoesNotExist": lambda _: lambda found: found is None,
    "Gt": _ordered(gt),
    "Lt": _ordered(lt),
}
