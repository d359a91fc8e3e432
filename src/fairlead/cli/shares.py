"""`fairlead shares`: who has which share of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from fairlead.api.errors import NotFound
from fairlead.arbitrator.objects import (
    ALLOCATIONS,
    CONSUMER_GROUPS,
    CONSUMERS,
    Allocation,
    AllocationStatus,
    Consumer,
    ConsumerGroup,
)
from fairlead.cli.alone import access_of
from fairlead.cli.failures import Failure, explained, parsing
from fairlead.cli.wording import counted
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from fairlead.runtime.loops import run

_COLUMNS = ("CONSUMER", "WEIGHT", "RESERVED", "DESERVED", "GRANTED", "USED", "SHARE", "WHY")


@click.command(short_help="Who has which share of a cluster, and what it uses.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="KUBECONFIG",
    help="Which cluster; an arbitrator must run there.",
)
@click.option("--context", default="", help="A context of the kubeconfig.  [default: the current one]")
@click.option("--resource", default="cpu", show_default=True, help="Of which resource.")
def shares(kubeconfig: Path | None, context: str, resource: str) -> None:
    """Print what each namespace is guaranteed, deserves, may use now and uses, and why; by groups, the largest share
    first.

    \b
    Example:
      fairlead shares --kubeconfig ~/.kube/config --resource memory
    """
    with parsing():
        access = access_of(kubeconfig, context)
    with explained():
        rows = run(_rows(access, resource))
    widths = [max(len(row[at]) for row in (_COLUMNS, *rows)) for at in range(len(_COLUMNS))]
    for row in (_COLUMNS, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


async def _rows(access: Access, resource: str) -> list[tuple[str, ...]]:
    async with HttpApi(access, user_agent="fairlead-shares") as api:
        try:
            consumers = [one.view(Consumer) for one in (await api.list(CONSUMERS)).items]
            groups = [one.view(ConsumerGroup) for one in (await api.list(CONSUMER_GROUPS)).items]
            allocations = [one.view(Allocation) for one in (await api.list(ALLOCATIONS)).items]
        except NotFound:
            raise Failure("no arbitrator has been here: start one with `fairlead arbitrator`") from None
    known = {one.metadata.name: one for one in groups}
    told = {one.metadata.namespace: one for one in allocations}
    rows: list[tuple[str, ...]] = []
    for parent in ("", *sorted(known)):
        if parent:
            rows.append((parent, str(known[parent].spec.weight), *[""] * 5, "group"))
        members = [one for one in consumers if (one.spec.parent if one.spec.parent in known else "") == parent]
        members.sort(key=lambda one: (-_share(told.get(one.metadata.namespace)), one.metadata.namespace))
        rows += [
            _row(one, told.get(one.metadata.namespace), resource, indent="  " if parent else "") for one in members
        ]
    return rows


def _share(allocation: Allocation | None) -> float:
    return float(allocation.status.dominant_share or 0) if allocation is not None else 0.0


def _row(consumer: Consumer, allocation: Allocation | None, resource: str, *, indent: str) -> tuple[str, ...]:
    spec, name = consumer.spec, indent + consumer.metadata.namespace
    reserved = "unlimited" if spec.unlimited else str(_amount(spec.reserved, resource))
    weight = "-" if spec.unlimited else str(spec.weight)
    if allocation is None:
        return name, weight, reserved, "-", "-", "-", "-", "not looked at yet"
    status = allocation.status
    amounts = (_amount(one, resource) for one in (status.deserved, status.granted, status.used))
    return name, weight, reserved, *amounts, status.dominant_share, _why(status)


def _why(status: AllocationStatus) -> str:
    """What keeps it from more, or what will be taken back."""
    if not status.overused_since:
        bound = {"demand": "has what it asks for", "hard": "at its hard bound"}
        return bound.get(status.bottleneck, f"{status.bottleneck} is used up")
    why = f"overused since {status.overused_since}"
    if status.proposal is not None:
        return f"{why}: {counted(len(status.proposal.victims), 'pod')} to go at {status.proposal.deadline}"
    blocked = [one.reason for one in status.conditions if one.type == "ReclaimBlocked" and one.status == "True"]
    return f"{why}, kept by {blocked[0]}" if blocked else f"{why}; nothing to take back"


def _amount(amounts: Mapping[str, str | int] | None, resource: str) -> str:
    known = amounts or {}
    return str(known.get(f"requests.{resource}", known.get(resource, "-")))
