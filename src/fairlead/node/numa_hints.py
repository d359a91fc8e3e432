"""On which NUMA nodes a container is to have what it gets of several kinds, as a kubelet's topology manager settles it.

Whoever hands something out says which sets of NUMA nodes have enough of it, and which of them it prefers; what all of
them can live with is the best hint. A policy says whether a pod that cannot have what is preferred is taken.
Sources: pkg/kubelet/cm/topologymanager (policy.go, policy_options.go, topology_manager.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead.golang.numbers import atoi, parse_strict_bool
from fairlead.golang.quoting import go_quote
from fairlead.node.configuration.settings import KubeletConfiguration

NONE: Final = "none"
BEST_EFFORT: Final = "best-effort"
RESTRICTED: Final = "restricted"
SINGLE_NODE: Final = "single-numa-node"
POD_SCOPE: Final = "pod"
_CLOSEST: Final = "prefer-closest-numa-nodes"
_MOST_NODES: Final = "max-allowable-numa-nodes"
_USUAL_MOST_NODES: Final = 8


class Hint(NamedTuple):
    #: None: any of them.
    nodes: frozenset[int] | None
    is_preferred: bool


#: By resource; None: it does not matter where. Empty: nowhere is good.
Hints: TypeAlias = Mapping[str, Sequence[Hint] | None]
ANYWHERE: Final = Hint(None, True)
_NOWHERE_GOOD: Final = Hint(None, False)


class NumaNodes(msgspec.Struct, frozen=True):
    ids: frozenset[int]
    #: From each to each, as the machine says it; what is not known is as far as everything else.
    distances: Mapping[tuple[int, int], int] = msgspec.field(default_factory=dict)

    def spread(self, nodes: Iterable[int]) -> float:
        """How far they are from each other, on average."""
        every = sorted(nodes)
        pairs = [self.distances.get((one, other), 10) for one in every for other in every]
        return sum(pairs) / len(pairs)


class HintPolicy(msgspec.Struct, frozen=True):
    name: str = NONE
    #: Hints are for a pod as a whole instead of for each container.
    is_for_pods: bool = False
    prefers_closest: bool = False

    def best(self, hints: Iterable[Hints], nodes: NumaNodes) -> tuple[Hint, bool]:
        """What to go by, and whether a pod with that is taken."""
        if self.name == NONE:
            return Hint(None, False), True
        every = [alternatives for provider in hints for alternatives in _alternatives(provider)]
        if self.name == SINGLE_NODE:
            every = [[hint for hint in each if _is_for_single(hint)] for each in every]
        best = self._merged(every, nodes)
        if self.name == SINGLE_NODE and best.nodes == nodes.ids:
            best = Hint(None, best.is_preferred)
        return best, self.name == BEST_EFFORT or best.is_preferred

    def _merged(self, every: Sequence[Sequence[Hint]], nodes: NumaNodes) -> Hint:
        best: Hint | None = None
        ideal = max((_narrowest(each, nodes) for each in every), default=len(nodes.ids))
        for candidate in _in_common(every, nodes.ids):
            if candidate.nodes and (best is None or self._is_better(candidate, best, ideal, nodes)):
                best = candidate
        return best or Hint(nodes.ids, False)

    def _is_better(self, candidate: Hint, best: Hint, ideal: int, nodes: NumaNodes) -> bool:
        assert candidate.nodes is not None and best.nodes is not None
        if candidate.is_preferred != best.is_preferred:
            return candidate.is_preferred
        size, known = len(candidate.nodes), len(best.nodes)
        if best.is_preferred or known > ideal or size == known:
            return self._is_fitter(candidate.nodes, best.nodes, nodes)
        return known < size <= ideal  # as close to what it takes as can be, without more

    def _is_fitter(self, candidate: frozenset[int], best: frozenset[int], nodes: NumaNodes) -> bool:
        def key(of: frozenset[int]) -> tuple[float, ...]:
            spread = nodes.spread(of) if self.prefers_closest and self.name != SINGLE_NODE else 0.0
            return len(of), spread, sum(1 << node for node in of)

        return key(candidate) < key(best)


def hint_policy(config: KubeletConfiguration, nodes: int) -> HintPolicy:
    """On a machine of so many NUMA nodes; ValueError for what a kubelet does not start with."""
    most, prefers_closest = _USUAL_MOST_NODES, False
    for name, text in sorted(config.topology_manager_policy_options.items()):
        if name == _CLOSEST:
            try:
                prefers_closest = parse_strict_bool(text)
            except ValueError as problem:
                raise ValueError(f"bad value for option {go_quote(name)}: {problem}") from None
        elif name == _MOST_NODES:
            most = _most_nodes(text)
        else:
            raise ValueError(f"unknown Topology Manager Policy option: {go_quote(name)}")
    policy = config.topology_manager_policy
    if policy != NONE and nodes > most:
        raise ValueError(f"unsupported on machines with more than {most} NUMA Nodes")
    return HintPolicy(policy, config.topology_manager_scope == POD_SCOPE, prefers_closest)


def _most_nodes(text: str) -> int:
    try:
        found = atoi(text)
    except ValueError as problem:
        raise ValueError(f"unable to convert policy option to integer {go_quote(_MOST_NODES)}: {problem}") from None
    if found < _USUAL_MOST_NODES:
        raise ValueError(f"the minimum value of {go_quote(_MOST_NODES)} should not be less than {_USUAL_MOST_NODES}")
    return found


def _alternatives(hints: Hints) -> Iterable[Sequence[Hint]]:
    for of_resource in hints.values():
        yield [ANYWHERE] if of_resource is None else of_resource or [_NOWHERE_GOOD]


def _is_for_single(hint: Hint) -> bool:
    return hint == ANYWHERE or (hint.nodes is not None and len(hint.nodes) == 1 and hint.is_preferred)


def _narrowest(hints: Sequence[Hint], nodes: NumaNodes) -> int:
    return min((len(hint.nodes) for hint in hints if hint.nodes is not None), default=0)


def _in_common(every: Iterable[Iterable[Hint]], ids: frozenset[int]) -> Iterator[Hint]:
    """What one hint of each comes to, whichever these are: preferred if each of them is, and they are of the same NUMA
    nodes.

    A kubelet tries all combinations. Of those that come to the same one is enough here: with eight NUMA nodes three
    kinds of resources have sixteen million, and a node may be said to have any number of kinds.
    """
    alike: set[frozenset[int] | None] = {None}  # of preferred hints alone; None: nobody minds where
    mixed: set[frozenset[int]] = set()
    for hints in every:
        alike_before, mixed_before, alike, mixed = alike, mixed, set(), set()
        for hint in set(hints):
            own = ids if hint.nodes is None else ids & hint.nodes
            mixed |= {own & common for common in mixed_before}
            for stated in alike_before:
                if hint.is_preferred and (stated is None or hint.nodes is None or hint.nodes == stated):
                    alike.add(stated if hint.nodes is None else hint.nodes)
                else:
                    mixed.add(own if stated is None else own & stated)
    yield from (Hint(ids if stated is None else ids & stated, True) for stated in alike)
    yield from (Hint(common, False) for common in mixed)
