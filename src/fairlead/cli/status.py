"""`fairlead status`: whether a cluster of this machine runs, and how to reach it."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import ListQuery
from fairlead.cli.clusters import ClusterRecord, LocalCluster, chosen, known, start_command, until, which_cluster
from fairlead.cli.failures import WrongUsage, explained, parsing
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load
from fairlead.runtime.loops import run
from fairlead.wording import counted

STOPPED, STARTING, READY, SILENT = "stopped", "starting", "ready", "not answering"


class ClusterStatus(msgspec.Struct, frozen=True):
    """The state of a cluster, for the output."""

    cluster: LocalCluster
    state: str
    pid: int | None = None
    record: ClusterRecord | None = None
    nodes: int = 0
    pods: int = 0

    def as_obj(self) -> Obj:
        record = self.record
        return {
            "name": self.cluster.name,
            "dataDir": str(self.cluster.data_dir.absolute()),
            "state": self.state,
            "pid": self.pid,
            "api": record and record.address,
            "kubeconfig": record and record.kubeconfig,
            "context": record and record.context,
            "nodes": self.nodes,
            "pods": self.pods,
        }

    def lines(self) -> list[str]:
        """The text output."""
        if self.record is None:
            how = "" if self.pid else f" Start it with: {start_command(self.cluster)}"
            return [f"{self.cluster.title} is {self.state}.{how}"]
        return [
            f"{self.cluster.title} is {self.state} (process {self.pid}): "
            f"{counted(self.nodes, 'node')}, {counted(self.pods, 'pod')}",
            f"  data       {self.cluster.data_dir}",
            f"  kubeconfig {self.record.kubeconfig}      context {self.record.context}",
            f"  api        {self.record.address}",
        ]


@click.command(short_help="Whether a cluster of this machine runs, and how to reach it.")
@which_cluster
@click.option("--all", "every_cluster", is_flag=True, help="The cluster of this directory and all that have names.")
@click.option("--wait", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="Wait until it is ready.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def status(
    context: click.Context, data_dir: Path | None, name: str | None, every_cluster: bool, wait: float, output: str
) -> None:
    """Tell whether the cluster in DATA-DIR, or the one of that name, runs and answers. Exits with 0 if it does, with 1
    if it does not.

    \b
    Example:
      fairlead up & fairlead status --wait 30 && fairlead kubectl get nodes
      fairlead status --all -o json
    """
    with parsing():
        cluster = chosen(data_dir, name)
        if every_cluster and (data_dir or name or wait):
            raise WrongUsage("--all asks for every cluster: give no other option but -o beside it")
    with explained():
        if wait:
            until(lambda: cluster.ready() is not None, wait)
        found = [run(_status(name)) for name in (known() if every_cluster else [cluster])]
    if output == "json":
        objs = [cluster_status.as_obj() for cluster_status in found]
        click.echo(msgspec.json.encode(objs if every_cluster else objs[0]).decode())
    else:
        click.echo("\n".join(line for cluster_status in found for line in cluster_status.lines()))
    if not every_cluster and found[0].state != READY:
        context.exit(1)


async def _status(cluster: LocalCluster) -> ClusterStatus:
    pid, record = cluster.pid(), cluster.ready()
    if pid is None:
        return ClusterStatus(cluster, STOPPED)
    if record is None:
        return ClusterStatus(cluster, STARTING, pid)
    try:
        async with HttpApi(load(cluster.kubeconfig), user_agent="fairlead-status") as api:
            return ClusterStatus(cluster, READY, pid, record, await _count(api, NODES), await _count(api, PODS))
    except (OSError, ValueError, ApiError):
        return ClusterStatus(cluster, SILENT, pid, record)


async def _count(api: HttpApi, resource: Resource) -> int:
    """The number of objects, without reading them all."""
    listing = await api.list(resource, "", ListQuery(limit=1))
    return len(listing.items) + (listing.remaining or 0)
