"""Who a pod is to other pods: its labels, and whose company it seeks or avoids.

Where a pod fits by itself is its shape; this is the other half of what a decision depends on. The two are kept apart
because they vary apart: the pods of a StatefulSet have one shape and each a company of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from fairlead.api.labels import Labels, LabelSelector
from fairlead.api.meta import OwnerReference
from fairlead.api.scheduling import Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from fairlead.scheduler.shape import Shape

#: Companies that were not seen for longest are forgotten beyond this number; pods keep theirs.
REMEMBERED: Final = 16_384

_encode = msgspec.json.Encoder(order="deterministic").encode

#: Labels by namespace.
NamespaceLabels = Mapping[str, Labels]


@dataclass(frozen=True, slots=True)
class Term:
    """A pod affinity term, of whichever sign: certain pods, and what counts as being at one place with them."""

    #: What makes two terms the same.
    key: tuple[bytes, str]
    topology_key: str = field(compare=False)
    selector: LabelSelector | None = field(compare=False)
    namespaces: frozenset[str] = field(compare=False)
    namespace_selector: LabelSelector | None = field(compare=False)

    @classmethod
    def of(cls, term: PodAffinityTerm, namespace: str) -> Term:
        """A term of a pod in that namespace, which is meant if the term names none."""
        is_own = not term.namespaces and term.namespace_selector is None
        namespaces = frozenset((namespace,) if is_own else term.namespaces or ())
        key = (_encode(term), namespace if is_own else "")
        return cls(key, term.topology_key, term.label_selector, namespaces, term.namespace_selector)

    def matches(self, other: Company, labels: NamespaceLabels) -> bool:
        """Whether the term means that pod."""
        if self.selector is None:
            return False
        is_in = other.namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(labels.get(other.namespace, {}))
        )
        return is_in and self.selector.matches(other.labels)


@dataclass(slots=True, eq=False)
class Company:
    """What other pods see of a pod, and what it wants of them."""

    namespace: str
    labels: Labels
    controller: OwnerReference | None
    is_terminating: bool
    #: Required, and preferred with a weight.
    near: tuple[Term, ...]
    apart: tuple[Term, ...]
    prefers_near: tuple[tuple[int, Term], ...]
    prefers_apart: tuple[tuple[int, Term], ...]
    constraints: tuple[TopologySpreadConstraint, ...]
    #: The pod is not there, or is not gone: somebody asks what would be if.
    is_supposed: bool = False

    @property
    def has_terms(self) -> bool:
        return bool(self.near or self.apart or self.prefers_near or self.prefers_apart)

    @property
    def spreads_among_all(self) -> bool:
        """Whether a constraint is about all pods, by an empty selector."""
        return any(one.label_selector is not None and one.label_selector.is_empty for one in self.constraints)

    @property
    def supposed(self) -> Company:
        """The same as what a pod is that is supposed to come or go, and not going away by itself."""
        return replace(self, is_terminating=False, is_supposed=True)


@dataclass(frozen=True, slots=True)
class Task:
    """What a decision is about: equal tasks get equal answers, but for what is nominated or assumed by uid."""

    shape: Shape
    company: Company
    priority: int = 0
    uid: str = ""
    #: Where it was promised room before, as long as that is so.
    nominated: str = ""


class Companies:
    """Every company seen lately, by its encoding."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Company] = OrderedDict()

    def of(self, pod: Pod) -> Company:
        """The one company that all pods like this share."""
        meta, affinity = pod.metadata, pod.spec.affinity
        decisive: list[Any] = [
            meta.namespace,
            meta.labels,
            meta.controller,
            meta.is_terminating,
            affinity and (affinity.pod_affinity, affinity.pod_anti_affinity),
            pod.spec.topology_spread_constraints,
        ]
        key = _encode(decisive)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = company_of(pod)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return found


def company_of(pod: Pod) -> Company:
    """Work the company of one pod out."""
    meta, affinity = pod.metadata, pod.spec.affinity
    near = (affinity and affinity.pod_affinity) or PodAffinity()
    apart = (affinity and affinity.pod_anti_affinity) or PodAffinity()
    return Company(
        namespace=meta.namespace,
        labels=meta.labels,
        controller=meta.controller,
        is_terminating=meta.is_terminating,
        near=_required(near, meta.namespace),
        apart=_required(apart, meta.namespace),
        prefers_near=_preferred(near, meta.namespace),
        prefers_apart=_preferred(apart, meta.namespace),
        constraints=pod.spec.topology_spread_constraints or (),
    )


def _required(affinity: PodAffinity, namespace: str) -> tuple[Term, ...]:
    return tuple(Term.of(one, namespace) for one in affinity.required or ())


def _preferred(affinity: PodAffinity, namespace: str) -> tuple[tuple[int, Term], ...]:
    return tuple((one.weight, Term.of(one.pod_affinity_term, namespace)) for one in affinity.preferred or ())
