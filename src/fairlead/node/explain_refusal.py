"""Why a node did not take a pod that it was given: the figures behind the refusal, and what would have helped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity
from fairlead.node.allocation import PODS, SHORTAGE
from fairlead.node.cpus.policy import NOT_WHOLE_CORES, SMT_ALIGNMENT
from fairlead.node.cpus.taking import NOT_ENOUGH_CPUS
from fairlead.node.eviction.messages import NODE_HAD_CONDITION
from fairlead.node.eviction.signals import MEMORY, MEMORY_PRESSURE, STORAGE, amount
from fairlead.node.evidence import PRESSURE, LowSignal, Pressure, found_in
from fairlead.node.placement import NOT_LOCAL

_REMEDIES: Final[Mapping[str, str]] = {
    "NodeAffinity": "a node selector or affinity that the node's labels match, or no spec.nodeName",
    "NodePorts": "another hostPort, or none: a pod there has it",
    SMT_ALIGNMENT: "fewer CPUs, or another node: this one gives away whole cores, and has no more of them",
    NOT_LOCAL: "fewer CPUs, or another node: this one gives them of as few NUMA nodes as could do, or not at all",
    "TaintToleration": "a toleration of the node's NoExecute taint",
}


def refusal_notes(reason: str, message: str, events: Sequence[Obj]) -> Iterator[str]:
    """Of a status; `events` are those of the pod."""
    if (shortage := SHORTAGE.search(message)) is not None:
        resource, *figures = shortage.groups()
        yield from _shortage(resource, *map(int, figures))
    elif (condition := NODE_HAD_CONDITION.search(message)) is not None:
        pressure = found_in(events, PRESSURE, Pressure)
        yield from map(_signal, pressure.signals if pressure is not None else ())
        yield _under(condition[1].split())
    elif (cpus := NOT_ENOUGH_CPUS.search(message)) is not None:
        yield from _no_cpus(*map(int, cpus.groups()))
    elif (uneven := NOT_WHOLE_CORES.search(message)) is not None:
        yield f"would have helped: a multiple of {uneven[1]} CPUs, or none of its own: the node gives away whole cores"
    elif (remedy := _REMEDIES.get(reason)) is not None:
        yield f"would have helped: {remedy}"


def _shortage(resource: str, requested: int, used: int, capacity: int) -> Iterator[str]:
    left = capacity - used
    taken, whole = _shown(resource, used), _shown(resource, capacity)
    yield f"it requests {_shown(resource, requested)} of {resource}; {taken} of {whole} are taken there"
    if resource == PODS:
        yield "would have helped: another node, or a greater maxPods of this one"
    elif left > 0:
        yield f"would have helped: a {resource} request of {_shown(resource, left)} or less, or another node"
    else:
        yield "would have helped: another node; nothing is left here"


def _no_cpus(requested: int, available: int) -> Iterator[str]:
    yield f"it asks for {requested} CPUs of its own; {available} are free there, others are reserved or somebody's own"
    less = f"{available} or fewer, " if available else ""
    yield f"would have helped: {less}a part of a CPU (then it shares), or another node"


def _shown(resource: str, value: int) -> Quantity:
    if resource == "cpu":
        return Quantity(value * 10**6)
    return amount(resource, value) if resource in (MEMORY, STORAGE) else Quantity.of_units(value)


def _signal(low: LowSignal) -> str:
    if low.is_met:
        return f"{low.signal} was {low.available}, below the threshold of {low.threshold}"
    return (
        f"{low.signal} was {low.available}, above the threshold of {low.threshold} again: the condition outlasts the "
        "shortage by the transition period"
    )


def _under(conditions: Sequence[str]) -> str:
    if conditions == [MEMORY_PRESSURE]:
        return (
            "would have helped: a memory request (a BestEffort pod is refused), or a toleration of "
            "node.kubernetes.io/memory-pressure:NoSchedule"
        )
    return f"under {' and '.join(conditions)} a node takes critical pods alone: another node would have helped"
