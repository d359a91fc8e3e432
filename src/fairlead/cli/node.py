"""`fairlead node`: a node of a cluster, run on this machine, or reckoned before anybody has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.podresources import Amounts, is_hugepages
from fairlead.api.quantity import Quantity, parse
from fairlead.cli.failures import Failure, parsing
from fairlead.cli.node_cgroups import cgroups, tree_lines
from fairlead.cli.node_options import kubelet_configuration, refused
from fairlead.cli.node_run import reset, run
from fairlead.node.allocatable import EPHEMERAL_STORAGE, Machine
from fairlead.node.cgroups.tree import CgroupTree, cgroup_tree
from fairlead.node.configuration.cpu_sets import listed
from fairlead.node.configuration.errors import StartupError
from fairlead.node.configuration.load import Configured, configure
from fairlead.node.configuration.value_types import STRING_MAP
from fairlead.node.cpus.policy import StaticPolicy
from fairlead.node.cpus.topology import Shape, parse_shape
from fairlead.node.plan import NodePlan, node_plan
from fairlead.node.reservations import PID

#: The machine's resources by default.
_DEFAULTS: Final = {EPHEMERAL_STORAGE: "100Gi", PID: "4194304"}


@click.group(short_help="Run a node here, or reckon one.")
def node() -> None:
    """Nodes, as a kubelet runs them."""


@node.command(short_help="What a node will publish and enforce.", context_settings={"ignore_unknown_options": True})
@click.option("--capacity", required=True, help="Of the machine: cpu=4,memory=16Gi, and what else it has.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeletConfiguration.  [default: one that says nothing]",
)
@click.option(
    "--cpu-topology",
    metavar="sockets=N,numa=N,caches=N,threads=N",
    help="How many of each the CPUs are in; threads are those of a core.  [default: 1 of each]",
)
@click.option("--cgroup-version", type=click.Choice(["1", "2"]), default="2", show_default=True)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[KUBELET-FLAGS]...")
def plan(
    capacity: str,
    config: Path | None,
    cpu_topology: str | None,
    cgroup_version: str,
    output: str,
    flags: tuple[str, ...],
) -> None:
    """Print the capacity and the allocatable of a node, and the value of every cgroup file that its kubelet writes
    before there is a pod; or what the kubelet would refuse. Flags are the kubelet's own, and win over the file. A
    capacity may name ephemeral-storage (100Gi if it does not), pid (4194304) and huge pages (hugepages-2Mi=1Gi). With
    cpuManagerPolicy static it is also told which CPUs are reserved.

    \b
    Example:
      fairlead node plan --capacity cpu=4,memory=16Gi --kube-reserved=cpu=100m,memory=1Gi
      fairlead node plan --capacity cpu=4,memory=16Gi --config kubelet.yaml -o json
    """
    with parsing():
        machine = machine_of(capacity)
        if cpu_topology is not None:
            machine = replace(machine, shape=_shape(cpu_topology))
        planned = _planned(machine, kubelet_configuration(config) if config else {}, flags, int(cgroup_version), config)
    click.echo(msgspec.json.encode(planned.as_object()).decode() if output == "json" else "\n".join(planned.lines()))
    for warning in planned.configured.warnings:
        click.echo(f"warning: {warning}", err=True)
    if planned.plan.problem:
        raise Failure(planned.plan.problem)


node.add_command(cgroups)
node.add_command(run)
node.add_command(reset)


class Planned(msgspec.Struct, frozen=True):
    configured: Configured
    plan: NodePlan
    files: CgroupTree

    def as_object(self) -> Obj:
        return {
            "capacity": _listed(self.plan.capacity),
            "allocatable": _listed(self.plan.allocatable),
            **({"cpus": _cpus(self.plan.cpus)} if self.plan.cpus is not None else {}),
            "cgroups": self.files,
        }

    def lines(self) -> Iterator[str]:
        rows = [("", "CAPACITY", "ALLOCATABLE")]
        for name, amount in sorted(self.plan.capacity.items()):
            rows.append((name, str(amount), str(self.plan.allocatable[name])))
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        for name, total, left in rows:
            yield f"{name:<{widths[0]}}  {total:<{widths[1]}}  {left}"
        if self.plan.cpus is not None:
            yield "CPUs"
            for name, cpus in _cpus(self.plan.cpus).items():
                yield f"  {name:<10} {cpus}"
        yield from tree_lines(self.files)


def machine_of(capacity: str) -> Machine:
    """ValueError for a machine that could not be."""
    stated = {**_DEFAULTS, **STRING_MAP.parse(capacity, None)}
    amounts = {name: _amount(name, text) for name, text in stated.items()}
    for name in ("cpu", "memory"):
        if name not in amounts:
            raise ValueError(f"--capacity says nothing of {name}: write cpu=4,memory=16Gi")
    cpus = amounts.pop("cpu")
    if cpus.milli % 1000:
        raise ValueError(f"--capacity: a machine has whole CPUs, not {cpus}")
    memory, storage, pids = (amounts.pop(name).units for name in ("memory", EPHEMERAL_STORAGE, PID))
    pages = {name.removeprefix("hugepages-"): amount.units for name, amount in amounts.items()}
    return Machine(cpus.units, memory, storage, pids, {size: total // _page(size) for size, total in pages.items()})


def _shape(text: str) -> Shape:
    try:
        return parse_shape(text)
    except ValueError as problem:
        raise ValueError(f"--cpu-topology: {problem}") from None


def _amount(name: str, text: str) -> Quantity:
    if name not in ("cpu", "memory", EPHEMERAL_STORAGE, PID) and not is_hugepages(name):
        raise ValueError(f"--capacity: a machine has no {name!r} that a kubelet knows of")
    try:
        amount = parse(text)
    except ValueError as problem:
        raise ValueError(f"--capacity: {name}={text}: {problem}") from None
    if amount.nanos < 0 or (name in ("cpu", "memory") and not amount):
        raise ValueError(f"--capacity: {name}={text} must be more than nothing")
    return amount


def _page(size: str) -> int:
    bytes_ = _amount(f"hugepages-{size}", size).units
    if not bytes_:
        raise ValueError(f"--capacity: hugepages-{size} have no size")
    return bytes_


def _planned(
    machine: Machine, document: Obj, flags: tuple[str, ...], cgroup_version: int, config: Path | None
) -> Planned:
    try:
        configured = configure(document, flags, cgroup_version=cgroup_version, path=str(config))
        found = node_plan(configured, machine)
        return Planned(configured, found, cgroup_tree(configured, machine, found))
    except StartupError as refusal:
        raise refused(refusal) from None


def _cpus(policy: StaticPolicy) -> Obj:
    """Which of them are kept, which a container may have to itself, and on which all others run until then."""
    exclusive = policy.topology.cpus - policy.reserved
    return {"reserved": listed(policy.reserved), "exclusive": listed(exclusive), "shared": listed(policy.handed_out)}


def _listed(amounts: Amounts) -> Obj:
    return {name: str(amount) for name, amount in sorted(amounts.items())}
