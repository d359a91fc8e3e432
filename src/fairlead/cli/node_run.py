"""`fairlead node run` and `fairlead node reset`: this machine as a node of a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fairlead.agent.agent import AgentSettings, NodeAgent
from fairlead.agent.cgroups.hierarchies import NoCgroups
from fairlead.agent.choices import ClusterNetwork, RuntimeKind
from fairlead.agent.claims import InUse, held
from fairlead.agent.images.store import ImageStore
from fairlead.agent.network_choice import Networking, networking, of_the_machine
from fairlead.agent.node_object import NodeIdentity
from fairlead.agent.reset import reset as remove_everything
from fairlead.agent.runtime_choice import Runtimes, behind_cri, conmon, enter_user_namespace, processes
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.process import user_namespace
from fairlead.agent.runtimes.process.process_groups import ProcessGroups
from fairlead.agent.stored_images import StoredImages
from fairlead.api.bootstrap_tokens import TOKEN
from fairlead.api.builtin import PODS
from fairlead.api.names import dns1123_subdomain
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.cli.failures import Failure, WrongUsage, explained, parsing
from fairlead.cli.node_options import kubelet_configuration, refused
from fairlead.cli.node_root import SHOWN_ROOT, default_root
from fairlead.cli.node_user import check_user
from fairlead.cli.standalone import access_of, serve
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access, load
from fairlead.node.configuration.errors import StartupError
from fairlead.node.configuration.value_types import STRING_MAP
from fairlead.runtime import log_lines
from fairlead.runtime.host_address import host_address
from fairlead.runtime.loops import run as run_loop
from fairlead.server.codec.body_types import body_type_of
from fairlead.wording import counted

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_root_option = click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_root,
    show_default=SHOWN_ROOT,
    help="Where the node keeps images, containers, volumes and logs.",
)


@click.command(
    short_help="Be a node: run the pods of a cluster here.", context_settings={"ignore_unknown_options": True}
)
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Which cluster, and as whom.")
@click.option("--context", default="", help="A context of the kubeconfig.  [default: the current one]")
@click.option(
    "--join-token",
    default="",
    envvar="FAIRLEAD_JOIN_TOKEN",
    metavar="TOKEN",
    help="A bootstrap token, by which the node asks the cluster of the kubeconfig for a certificate of its own at its "
    "first start; who the kubeconfig is of does not count then.",
)
@click.option("--node-name", default="", help="What the node is called.  [default: the host's name]")
@click.option("--node-ip", default="", help="The node's address.  [default: that of the default route]")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A KubeletConfiguration.")
@click.option("--register-node/--no-register-node", default=True, show_default=True, help="Whether to make the node.")
@click.option("--register-with-taints", default="", metavar="KEY=VALUE:EFFECT,...", help="Taints it begins with.")
@click.option("--node-labels", default="", metavar="KEY=VALUE,...", help="Labels it gives itself.")
@click.option(
    "--cluster-network",
    type=click.Choice([kind.value for kind in ClusterNetwork]),
    default=ClusterNetwork.FAIRLEAD.value,
    show_default=True,
    help="Whose network pods get; with none, that of the cluster's own CNI plugins.",
)
@click.option(
    "--runtime",
    type=click.Choice([kind.value for kind in RuntimeKind]),
    default=RuntimeKind.OCI.value,
    show_default=True,
    help="What runs containers: conmon and crun (oci), what listens at --container-runtime-endpoint (cri), or, for a "
    "user without root, nothing but processes in namespaces (process).",
)
@click.option(
    "--network-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="As whom Fairlead's network reads pods, services and policies of the whole cluster.",
)
@click.option(
    "--storage-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="As whom folders of this machine are made into the volumes of claims.",
)
@_root_option
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[KUBELET-FLAGS]...")
def run(
    kubeconfig: Path | None,
    context: str,
    join_token: str,
    node_name: str,
    node_ip: str,
    config: Path | None,
    register_node: bool,
    register_with_taints: str,
    node_labels: str,
    cluster_network: str,
    runtime: str,
    network_kubeconfig: Path | None,
    storage_kubeconfig: Path | None,
    root: Path,
    flags: tuple[str, ...],
) -> None:
    """Run the pods that a cluster gives this machine, as containers. It takes root, but with --runtime process.

    The kubeconfig must be that of the node: user system:node:NAME, group system:nodes; or say --join-token. Stopping
    the agent stops no container; started again, it goes on with those that it finds. fairlead node reset removes them.

    \b
    Example:
      fairlead kubeconfig --user system:node:$(hostname) --group system:nodes > node.kubeconfig
      fairlead kubeconfig --user system:fairlead:network > network.kubeconfig
      fairlead node run --kubeconfig node.kubeconfig --network-kubeconfig network.kubeconfig
      fairlead node run --kubeconfig node.kubeconfig --runtime cri --cluster-network none
      fairlead node run --kubeconfig cluster.kubeconfig --join-token 07401b.f395accd246ae52d --cluster-network none
    """
    log_lines.configure(logging.WARNING)
    with parsing():
        kind = RuntimeKind(runtime)
        check_user(kind)
        access = access_of([kubeconfig] if kubeconfig else [], context)
        if join_token and TOKEN.fullmatch(join_token) is None:
            raise WrongUsage("--join-token: a bootstrap token is [a-z0-9]{6}.[a-z0-9]{16}")
        name = node_name or socket.gethostname().lower()
        if faults := dns1123_subdomain(name):
            raise WrongUsage(f"--node-name {name}: {faults[0]}")
        identity = NodeIdentity(
            name=name,
            ip=node_ip or host_address(),
            labels=STRING_MAP.parse(node_labels, None) if node_labels else {},
            taints=[_taint(text) for text in register_with_taints.split(",") if text],
            is_registering=register_node,
        )
        document = kubelet_configuration(config) if config else {}
        settings = AgentSettings(
            identity=identity,
            root=root.absolute(),
            document=document,
            flags=flags,
            normalise_pod=body_type_of(PODS).normalise,
            api_server=access.server if kind is RuntimeKind.PROCESS else "",
        )
        network = load(network_kubeconfig) if network_kubeconfig else None
        storage = load(storage_kubeconfig) if storage_kubeconfig else None
        others = _Others(ClusterNetwork(cluster_network), network, storage)
    with explained():
        try:
            with held(settings.root):
                if kind is RuntimeKind.PROCESS:
                    enter_user_namespace(settings.root)
                if join_token:
                    run_loop(_join(access, join_token, settings, others, kind))
                else:
                    run_loop(_be(access, settings, others, kind))
        except StartupError as refusal:
            raise refused(refusal) from None
        except (InUse, NoCgroups, RuntimeFailure) as problem:
            raise Failure(str(problem)) from None


@click.command(short_help="Remove what a node agent has left on this machine.")
@_root_option
def reset(root: Path) -> None:
    """Remove every container, cgroup, mount and namespace of the node agent of this machine, and its folders. Images
    stay; fairlead images rm removes them.

    \b
    Example:
      fairlead node reset
    """
    folder = root.absolute()
    is_of_user = user_namespace.is_here(folder) or os.geteuid() != 0
    if is_of_user and folder.exists() and folder.stat().st_uid != os.geteuid():
        raise WrongUsage(f"{folder} is the node of another user: reset it as that one")
    with explained():
        try:
            removed = remove_everything(folder)
        except (InUse, NoCgroups, RuntimeFailure) as problem:
            raise Failure(str(problem)) from None
    click.echo(f"Removed {counted(removed.pods, 'pod')}, {counted(removed.containers, 'container')}.")


class _Others(msgspec.Struct, frozen=True):
    """As whom it is known besides the node: the network reads what runs elsewhere, the provisioner makes volumes."""

    network_kind: ClusterNetwork
    network: Access | None
    storage: Access | None


@asynccontextmanager
async def _api_of(access: Access | None, name: str) -> AsyncIterator[HttpApi | None]:
    if access is None:
        yield None
        return
    async with HttpApi(access, user_agent=name) as api:
        yield api


async def _join(access: Access, token: str, settings: AgentSettings, others: _Others, kind: RuntimeKind) -> None:
    """Be a node by a certificate that the cluster gives who shows the token."""
    from fairlead.agent.certificates.joining import joined, renewed  # with what reads certificates: 8 MB
    from fairlead.agent.certificates.requests import NoCertificate

    name, file, found = settings.identity.name, settings.root / "pki" / "kubelet-client.pem", list[Access]()

    async def ask() -> None:
        found.append(await joined(access, token, name, file))

    try:
        await serve(ask, None)
    except NoCertificate as refusal:
        raise Failure(f"{access.server} gives node {name} no certificate: {refusal}") from None
    if found:  # it was not told to stop before
        await _be(found[0], settings, others, kind, lambda api: renewed(api, found[0], name, file))


async def _be(
    access: Access,
    settings: AgentSettings,
    others: _Others,
    kind: RuntimeKind,
    renew: Callable[[HttpApi], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Be that node until told to stop; `renew` keeps its certificate good meanwhile."""
    async with (
        HttpApi(access, user_agent="fairlead-node") as api,
        _api_of(others.network, "fairlead-network") as network_api,
        _api_of(others.storage, "fairlead-local-path") as storage_api,
    ):
        chosen = _networking(kind, settings, others.network_kind, network_api)
        cgroups = ProcessGroups(settings.root) if kind is RuntimeKind.PROCESS else None
        agent = NodeAgent(api, settings, _runtimes(kind, settings.root), chosen, storage_api, cgroups)
        agent.be_spared()
        beside = [asyncio.create_task(_say(agent, settings, access))]
        if renew is not None:
            beside.append(asyncio.create_task(renew(api)))
        try:
            await serve(agent.run, None)
        finally:
            for task in beside:
                task.cancel()
    if kind is RuntimeKind.PROCESS and agent.is_empty:
        user_namespace.end(settings.root)
    if kept := agent.running_containers:
        click.echo(f"Stopped. {counted(kept, 'container')} run on; fairlead node reset would end them.")


def _runtimes(kind: RuntimeKind, root: Path) -> Runtimes:
    if kind is RuntimeKind.CRI:
        return behind_cri
    images = StoredImages(ImageStore(root))
    return processes(images) if kind is RuntimeKind.PROCESS else conmon(images)


def _networking(kind: RuntimeKind, settings: AgentSettings, network: ClusterNetwork, api: Api | None) -> Networking:
    if kind is RuntimeKind.PROCESS:
        return of_the_machine
    is_cri = kind is RuntimeKind.CRI
    return networking(network, settings.identity.name, settings.root, api, is_cri=is_cri)


async def _say(agent: NodeAgent, settings: AgentSettings, access: Access) -> None:
    await agent.registered.wait()
    click.echo(f"Node {settings.identity.name} of {access.server} runs pods here, in {settings.root}")


def _taint(text: str) -> Obj:
    pair, colon, effect = text.rpartition(":")
    if not colon or effect not in _EFFECTS:
        raise WrongUsage(f"--register-with-taints {text!r}: write KEY=VALUE:EFFECT with one of {', '.join(_EFFECTS)}")
    key, _, value = pair.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})
