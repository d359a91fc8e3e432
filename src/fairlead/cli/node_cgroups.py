"""`fairlead node cgroups`: the cgroup tree of a node of a running cluster, with the pods that are there now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec

from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, ListQuery
from fairlead.cli.failures import ANSWER_SECONDS, Failure, explained, parsing
from fairlead.cli.node_options import kubelet_configuration, refused
from fairlead.cli.standalone import access_of, which_cluster_options
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from fairlead.node.cgroups.tree import CgroupTree, cgroup_tree
from fairlead.node.configuration.errors import StartupError
from fairlead.node.configuration.load import configure
from fairlead.node.plan import node_plan
from fairlead.runtime.loops import run
from fairlead.sim.machine.hardware import hardware_of


@click.command(
    short_help="What a node of a running cluster enforces.", context_settings={"ignore_unknown_options": True}
)
@which_cluster_options()
@click.option("--pod", metavar="[NAMESPACE/]POD", help="The cgroups of this pod alone.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What if the node ran with this KubeletConfiguration?  [default: what its kubelet says that it runs with]",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("name", metavar="NODE")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[KUBELET-FLAGS]...")
def cgroups(
    kubeconfig: tuple[Path, ...],
    context: str,
    pod: str | None,
    config: Path | None,
    output: str,
    name: str,
    flags: tuple[str, ...],
) -> None:
    """Print the cgroups of a node and of the pods that are there now, with the value of every file that the kubelet and
    the runtime write; a file that is not listed has the kernel's default. The configuration is asked of the node's
    kubelet (configz), a real one or ours; with flags, as it would be with these as well.

    \b
    Example:
      fairlead node cgroups node-1
      fairlead node cgroups node-1 --pod shop/web-7
      fairlead node cgroups node-1 --qos-reserved=memory=100% --feature-gates=QOSReserved=true
    """
    with parsing():
        access = access_of(kubeconfig, context)
        document = kubelet_configuration(config) if config else None
    with explained():
        node, pods, running = run(_read(access, name, asks_kubelet=document is None))
    if pod is not None:
        namespace, _, pod_name = pod.rpartition("/")
        pods_shown = [found for found in pods if _is(found, namespace or "default", pod_name)]
        if not pods_shown:
            raise Failure(f"node {name} has no pod {pod}")
        uid = pods_shown[0]["metadata"]["uid"]
    try:
        tree = _tree(running if document is None else document, flags, node, pods)
    except StartupError as refusal:
        raise refused(refusal) from None
    if pod is not None:
        tree = {path: values for path, values in tree.items() if uid in path or uid.replace("-", "_") in path}
    click.echo(msgspec.json.encode(tree).decode() if output == "json" else "\n".join(tree_lines(tree)).strip("\n"))


def tree_lines(tree: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Each cgroup after an empty line."""
    for path, values in tree.items():
        yield ""
        yield path
        width = max(map(len, values), default=0)
        yield from (f"  {file:<{width}}  {value}" for file, value in sorted(values.items()))


async def _read(access: Access, name: str, *, asks_kubelet: bool) -> tuple[Node, list[Obj], Obj]:
    """The node, its pods, and its configuration if that is asked for."""
    async with HttpApi(access, user_agent="fairlead-node", connect_seconds=ANSWER_SECONDS) as api:
        try:
            node = (await api.get(NODES, name)).view(Node)
        except NotFound:
            raise Failure(f"there is no node {name}") from None
        pods = (await api.list(PODS, "", ListQuery(fields=f"spec.nodeName={name}"))).items
        configuration = await _configuration(api, name) if asks_kubelet else {}
        return node, [pod.obj() for pod in pods], configuration


async def _configuration(api: Api, name: str) -> Obj:
    try:
        answer = (await api.get(NODES, name, subresource="proxy/configz")).obj()
    except ApiError as error:
        raise Failure(
            f"the kubelet of {name} does not tell its configuration ({error}): say it with --config"
        ) from None
    configuration: Obj = answer["kubeletconfig"]
    return configuration


def _tree(document: Obj, flags: tuple[str, ...], node: Node, pods: list[Obj]) -> CgroupTree:
    hardware = hardware_of(node)
    configured = configure(document, flags, cgroup_version=hardware.cgroup_version)
    return cgroup_tree(configured, hardware.machine, node_plan(configured, hardware.machine), pods)


def _is(pod: Obj, namespace: str, name: str) -> bool:
    meta = pod["metadata"]
    return bool(meta["namespace"] == namespace and meta["name"] == name)
