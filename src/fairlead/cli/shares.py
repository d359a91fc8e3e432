"""`fairlead shares`: who has which share of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import msgspec

from fairlead.api.errors import NotFound
from fairlead.api.quantity import Quantity, parse
from fairlead.arbitrator.amounts import LIMITS, REQUESTS
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    CONSUMERS,
    Allocation,
    AllocationStatus,
    Consumer,
    ConsumerGroup,
)
from fairlead.cli.failures import ANSWER_SECONDS, Failure, WrongUsage, explained, parsing
from fairlead.cli.standalone import access_of, which_cluster_options
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from fairlead.runtime.loops import run
from fairlead.wording import counted

_COLUMNS = ("CONSUMER", "WEIGHT", "RESERVED", "DESERVED", "GRANTED", "USED", "SHARE", "WHY")


class ShareRow(msgspec.Struct, frozen=True):
    """One line of the output: a group, or a namespace and its amounts of one resource."""

    consumer: str
    kind: str
    weight: int | None
    group: str = ""
    unlimited: bool = False
    reserved: str | None = None
    deserved: str | None = None
    granted: str | None = None
    used: str | None = None
    #: The dominant share of the cluster, from 0 to 1, without the weight.
    share: float | None = None
    why: str = ""

    def cells(self) -> tuple[str, ...]:
        if self.kind == CONSUMER_GROUPS.kind:
            return self.consumer, str(self.weight), *[""] * 5, "group"
        amounts = ("unlimited" if self.unlimited else self.reserved, self.deserved, self.granted, self.used)
        share = "-" if self.share is None else f"{self.share:.1%}"
        weight = "-" if self.unlimited else str(self.weight)
        name = f"  {self.consumer}" if self.group else self.consumer
        return name, weight, *(amount or "-" for amount in amounts), share, self.why


@click.command(short_help="Who has which share of a cluster, and what it uses.")
@which_cluster_options("Which cluster; an arbitrator must run there.")
@click.option("--resource", default="cpu", show_default=True, help="Of which resource.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def shares(kubeconfig: tuple[Path, ...], context: str, resource: str, output: str) -> None:
    """Print what each namespace is guaranteed, deserves, may use now and uses of a resource, its share of the cluster
    (of whatever it has most of, whatever its weight), and why; by groups, the largest share first.

    \b
    Example:
      fairlead shares --kubeconfig ~/.kube/config --resource memory
    """
    with parsing():
        access = access_of(kubeconfig, context)
    with explained():
        found = run(_rows(access, resource))
    if output == "json":
        click.echo(msgspec.json.encode(found).decode())
        return
    rows = [_COLUMNS, *(row.cells() for row in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


async def _rows(access: Access, resource: str) -> list[ShareRow]:
    async with HttpApi(access, user_agent="fairlead-shares", connect_seconds=ANSWER_SECONDS) as api:
        try:
            consumers = [item.view(Consumer) for item in (await api.list(CONSUMERS)).items]
            groups = [item.view(ConsumerGroup) for item in (await api.list(CONSUMER_GROUPS)).items]
            allocations = [item.view(Allocation) for item in (await api.list(ALLOCATIONS)).items]
        except NotFound:
            raise Failure("no arbitrator has been here: start one with `fairlead arbitrator`") from None
    return rows(consumers, groups, allocations, resource)


def rows(
    consumers: Iterable[Consumer], groups: Iterable[ConsumerGroup], allocations: Iterable[Allocation], resource: str
) -> list[ShareRow]:
    """Raises WrongUsage for a resource that nobody divides."""
    known = {group.metadata.name: group for group in groups}
    allocation_of = {allocation.metadata.namespace: allocation for allocation in allocations}
    _check(resource, allocation_of.values())
    of_group: dict[str, list[ShareRow]] = {name: [] for name in ("", *sorted(known))}
    for consumer in consumers:
        parent = consumer.spec.parent if consumer.spec.parent in known else ""
        of_group[parent].append(_row(consumer, parent, allocation_of.get(consumer.metadata.namespace), resource))
    found: list[ShareRow] = []
    for parent, members in of_group.items():
        if parent:
            found.append(ShareRow(parent, CONSUMER_GROUPS.kind, known[parent].spec.weight))
        found += sorted(members, key=lambda member: (-(member.share or 0.0), member.consumer))
    return found


def _check(resource: str, allocations: Iterable[Allocation]) -> None:
    divided = {_bare(name) for allocation in allocations for name in allocation.status.deserved}
    if divided and _bare(resource) not in divided:
        raise WrongUsage(f"nobody divides {resource!r} here: --resource is one of {', '.join(sorted(divided))}")


def _row(consumer: Consumer, parent: str, allocation: Allocation | None, resource: str) -> ShareRow:
    spec, name = consumer.spec, consumer.metadata.namespace
    reserved = _amount(spec.reserved, resource)
    if allocation is None:
        why = "not looked at yet"
        return ShareRow(name, CONSUMERS.kind, spec.weight, parent, spec.unlimited, reserved, why=why)
    status = allocation.status
    share = float(status.cluster_share) if status.cluster_share else None
    deserved, granted, used = (
        _amount(amounts, resource) or "0" for amounts in (status.deserved, status.granted, status.used)
    )
    return ShareRow(
        name,
        CONSUMERS.kind,
        spec.weight,
        parent,
        spec.unlimited,
        reserved,
        deserved,
        granted,
        used,
        share,
        _why(status),
    )


def _why(status: AllocationStatus) -> str:
    """What limits it, or what will be taken back."""
    if status.overused_since:
        return _why_overused(status)
    futile = [
        condition for condition in status.conditions if condition.type == "ReclaimFutile" and condition.status == "True"
    ]
    if futile and status.back_off is not None:
        return f"others took the room that was made for it; none is made before {status.back_off.until}"
    if status.bottleneck == "hard":
        return "at its hard bound"
    if status.bottleneck != "demand":
        return f"{status.bottleneck} is used up"
    lacking = [name for name, asked in status.request.items() if parse(asked) > _of(status.used, name)]
    if not lacking:
        return "has what it asks for"
    if any(parse(status.request[name]) > _of(status.granted, name) for name in lacking):
        return f"waits for {', '.join(map(_bare, lacking))} that is not free yet"
    return "is granted what it asks for; its pods wait for a node (fairlead why POD)"


def _why_overused(status: AllocationStatus) -> str:
    why = f"overused since {status.overused_since}"
    if status.proposal is not None:
        return f"{why}: {counted(len(status.proposal.victims), 'pod')} to go at {status.proposal.deadline}"
    blocked = [
        condition.reason
        for condition in status.conditions
        if condition.type == "ReclaimBlocked" and condition.status == "True"
    ]
    return f"{why}, kept by {blocked[0]}" if blocked else f"{why}; nothing to take back"


def _amount(amounts: Mapping[str, str | int] | None, resource: str) -> str | None:
    """The amount under any of the names `requests.cpu`, `limits.cpu` or `cpu`."""
    return next((str(text) for name, text in (amounts or {}).items() if _bare(name) == _bare(resource)), None)


def _of(amounts: Mapping[str, str], name: str) -> Quantity:
    return parse(amounts.get(name, "0"))


def _bare(name: str) -> str:
    """The name of the resource on nodes."""
    return name.removeprefix(REQUESTS).removeprefix(LIMITS)
