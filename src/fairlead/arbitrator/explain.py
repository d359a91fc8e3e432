"""Explains a pod by its namespace's share: why it waits, and whether it will be evicted."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.quantity import Quantity, parse
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.accounting import limited, requested
from fairlead.arbitrator.amount_rules import full_name
from fairlead.arbitrator.amounts import LIMITS, REQUESTS, format_amounts
from fairlead.arbitrator.objects import Allocation
from fairlead.wording import counted


def notes(pod: Pod, allocations: Iterable[Allocation]) -> list[str]:
    """Sentences for people, the most important first; none if the share does not matter to the pod."""
    known = list(allocations)
    own = next((allocation for allocation in known if allocation.metadata.namespace == pod.metadata.namespace), None)
    if own is None or pod.is_finished:
        return []
    if pod.spec.node_name:
        return _notice(pod, own)
    lacking = _lacking(pod, own)
    return [note for name in lacking for note in _shortage(name, own, lacking[name])] + (
        _who_gives(pod, own, known) if lacking else []
    )


def _lacking(pod: Pod, own: Allocation) -> dict[str, str]:
    """What the pod needs beyond what its namespace is granted."""
    status, need = (
        own.status,
        format_amounts(dict(requested(pod)), REQUESTS) | format_amounts(dict(limited(pod)), LIMITS),
    )
    return {
        name: amount
        for name, amount in need.items()
        if name in status.granted and _of(status.used, name) + parse(amount) > _of(status.granted, name)
    }


def _shortage(name: str, own: Allocation, need: str) -> list[str]:
    status, namespace = own.status, own.metadata.namespace
    used, granted, deserved = (_of(amounts, name) for amounts in (status.used, status.granted, status.deserved))
    messages = [
        f"namespace {namespace} uses {used} of the {granted} {name} that it may use now, and the pod needs {need}"
    ]
    if used + parse(need) > deserved:
        messages.append(f"it deserves {deserved} {name}: {_what_binds(name, own)}")
    else:
        messages.append(f"it deserves {deserved} {name}; the rest is not free yet")
    return messages


def _what_binds(name: str, own: Allocation) -> str:
    """Why the namespace does not deserve more of this resource; its bottleneck may be another one."""
    resource = name.removeprefix(REQUESTS).removeprefix(LIMITS)
    hard = {full_name(short_name): str(amount) for short_name, amount in (own.spec.hard or {}).items()}
    if own.status.bottleneck == "demand":
        return "that is all it asks for"
    if name in hard and own.status.bottleneck == "hard":
        return "that is its hard bound"
    return f"what others want of {resource} is their share"


def _who_gives(pod: Pod, own: Allocation, known: Iterable[Allocation]) -> list[str]:
    """Which namespaces give something up for this pod, and which cannot."""
    messages = [
        condition.message
        for condition in own.status.conditions
        if condition.type == "ReclaimFutile" and condition.status == "True"
    ]
    for allocation in known:
        namespace, proposal = allocation.metadata.namespace, allocation.status.proposal
        if proposal is not None and pod.metadata.key in proposal.beneficiaries:
            victims = ", ".join(victim.name for victim in proposal.victims)
            others = len(proposal.beneficiaries) - 1
            whom = f"this pod and {counted(others, 'other')}" if others else "this pod"
            messages.append(f"for {whom}, {namespace} gives up {victims} at {proposal.deadline}")
        for condition in allocation.status.conditions:
            if condition.type == "ReclaimBlocked" and condition.status == "True" and allocation is not own:
                messages.append(f"{namespace} uses more than it deserves and keeps it: {condition.message}")
    return messages


def _notice(pod: Pod, own: Allocation) -> list[str]:
    proposal = own.status.proposal
    victim = next((victim for victim in proposal.victims if victim.uid == pod.metadata.uid), None) if proposal else None
    if proposal is None or victim is None:
        return []
    deadline, beneficiaries = victim.deadline or proposal.deadline, ", ".join(proposal.beneficiaries)
    return [
        f"it will be evicted at {deadline} for {beneficiaries}, unless its owner makes room in another way: "
        f"namespace {own.metadata.namespace} uses more than it deserves"
    ]


def _of(amounts: dict[str, str], name: str) -> Quantity:
    return parse(amounts.get(name, "0"))
