"""Who a pod is to other pods: its labels, and which pods it wants to be near to or away from.

Where a pod fits by itself are its requirements; this is the other half of what a decision depends on. The two are kept
apart because they vary apart: the pods of a StatefulSet have the same requirements and each its own relations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api.labels import Labels, LabelSelector
from fairlead.api.meta import OwnerReference
from fairlead.api.scheduling import Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from fairlead.caches import LruCache
from fairlead.scheduler.requirements import LONGEST_KEY

#: Relations that were not seen for longest are forgotten beyond this number; pods keep theirs.
REMEMBERED: Final = 16_384


_encode = msgspec.json.Encoder(order="deterministic").encode

#: Labels by namespace.
NamespaceLabels = Mapping[str, Labels]


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of pod affinity or anti-affinity: which pods it selects, and by which topology they are near."""

    #: What makes two terms the same.
    key: tuple[bytes, str]
    topology_key: str = field(compare=False)
    selector: LabelSelector | None = field(compare=False)
    namespaces: frozenset[str] = field(compare=False)
    namespace_selector: LabelSelector | None = field(compare=False)

    @classmethod
    def of(cls, term: PodAffinityTerm, namespace: str) -> AffinityTerm:
        """A term of a pod in that namespace, which is selected if the term names none."""
        is_own = not term.namespaces and term.namespace_selector is None
        namespaces = frozenset((namespace,) if is_own else term.namespaces or ())
        key = (_encode(term), namespace if is_own else "")
        return cls(key, term.topology_key, term.label_selector, namespaces, term.namespace_selector)

    def matches(self, relations: PodRelations, labels: NamespaceLabels) -> bool:
        """Whether the term selects that pod."""
        if self.selector is None:
            return False
        is_in = relations.namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(labels.get(relations.namespace, {}))
        )
        return is_in and self.selector.matches(relations.labels)


class PodRelations(msgspec.Struct, eq=False):
    """What other pods see of a pod, and what it wants of them."""

    namespace: str
    labels: Labels
    controller: OwnerReference | None
    is_terminating: bool
    #: Required, and preferred with a weight.
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    preferred_affinity: tuple[tuple[int, AffinityTerm], ...]
    preferred_anti_affinity: tuple[tuple[int, AffinityTerm], ...]
    constraints: tuple[TopologySpreadConstraint, ...]
    #: The pod is not there, or is not gone: somebody asks what would be if.
    is_hypothetical: bool = False

    @property
    def has_terms(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.preferred_affinity or self.preferred_anti_affinity)

    @property
    def spreads_among_all(self) -> bool:
        """Whether a constraint is about all pods, by an empty selector."""
        return any(
            constraint.label_selector is not None and constraint.label_selector.is_empty
            for constraint in self.constraints
        )

    @property
    def hypothetical(self) -> PodRelations:
        """The same of a pod that is assumed to be there or gone, and is not going away by itself."""
        return replace(self, is_terminating=False, is_hypothetical=True)


class RelationsCache:
    """All relations seen lately, by their encoding."""

    def __init__(self) -> None:
        self._known: LruCache[bytes, PodRelations] = LruCache(REMEMBERED)

    def of(self, pod: Pod) -> PodRelations:
        """The relations that all pods like this share."""
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
            found = relations_of(pod)
            if len(key) <= LONGEST_KEY:
                self._known.put(key, found)
        return found


def relations_of(pod: Pod) -> PodRelations:
    """Work the relations of one pod out."""
    meta, affinity = pod.metadata, pod.spec.affinity
    near = (affinity and affinity.pod_affinity) or PodAffinity()
    apart = (affinity and affinity.pod_anti_affinity) or PodAffinity()
    return PodRelations(
        namespace=meta.namespace,
        labels=meta.labels,
        controller=meta.controller,
        is_terminating=meta.is_terminating,
        affinity=_required(near, meta.namespace),
        anti_affinity=_required(apart, meta.namespace),
        preferred_affinity=_preferred(near, meta.namespace),
        preferred_anti_affinity=_preferred(apart, meta.namespace),
        constraints=pod.spec.topology_spread_constraints or (),
    )


def _required(affinity: PodAffinity, namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm.of(term, namespace) for term in affinity.required or ())


def _preferred(affinity: PodAffinity, namespace: str) -> tuple[tuple[int, AffinityTerm], ...]:
    return tuple(
        (preference.weight, AffinityTerm.of(preference.pod_affinity_term, namespace))
        for preference in affinity.preferred or ()
    )
