"""`fairlead up`: a cluster in one command."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote

import click
import msgspec

from fairlead import COMPATIBILITY_VERSION, __version__
from fairlead.agent.choices import ClusterNetwork
from fairlead.agent.network.settings import POD_NETWORK
from fairlead.api.objects import Obj
from fairlead.api.users import DASHBOARD_USER
from fairlead.cli import background
from fairlead.cli.access_options import access_options, authentication, authorization
from fairlead.cli.audit_options import audit_options, audit_settings
from fairlead.cli.clusters import DEFAULT_PORT, LocalCluster, chosen, which_cluster
from fairlead.cli.failures import WrongUsage, explained, parsing
from fairlead.cli.inputs import admission_configuration, import_summary, imported_objects, node_objects
from fairlead.cli.node_options import NodesCommand, check_nodes, kubelet_options, node_configurations
from fairlead.cli.options import chosen_names, cluster_options, names_in, overuse_strategies
from fairlead.cli.own_node import OwnNode, own_node, own_node_options, prepared_agent, running_node
from fairlead.cli.scheduling import scheduling
from fairlead.client import kubeconfig as kubeconfigs
from fairlead.compose import COMPONENTS, Cluster, Settings, cluster
from fairlead.dashboard.permissions import RULES as DASHBOARD_RULES
from fairlead.dashboard.source import DEFAULT_PORT as DASHBOARD_PORT
from fairlead.runtime import log_lines
from fairlead.runtime.http.listener import bind
from fairlead.runtime.loops import run
from fairlead.runtime.memory import collect_in_parts, keep_started
from fairlead.runtime.stopping import stop_signals
from fairlead.server.admission.chain import check_choice
from fairlead.server.auth.rbac.defaults import component_policy
from fairlead.server.fairness.fairness import DEFAULT_SEATS
from fairlead.server.http import tracing_configuration
from fairlead.server.registry.restore import Restored
from fairlead.sim.manifests import STDIN
from fairlead.sim.nodes import NodeShape
from fairlead.store.directory import database_in, kubeconfig_in
from fairlead.wording import counted

_IMPORTED = time.perf_counter()


@click.command(cls=NodesCommand, short_help="Start a cluster on this machine.")
@which_cluster
@click.option("-d", "--detach", is_flag=True, help="Leave it running in the background, and return when it is ready.")
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="With --detach: how long to wait until it is ready. 0 does not wait.",
)
@click.option("--memory", is_flag=True, help="Keep nothing: the cluster lives in memory and is gone when it stops.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"HTTPS port; 0 picks one.  [default: {DEFAULT_PORT}; with --name the one it had last, or a free one "
    "if that is taken]",
)
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    help="Also listen on this port WITHOUT encryption or authentication (loopback only). Off by default.",
)
@click.option(
    "--dashboard",
    "dashboard_port",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=DASHBOARD_PORT,
    metavar="[PORT]",
    help="Show the cluster on a page (loopback only), read-only, for whoever has the link that is printed. "
    f"Without a number on port {DASHBOARD_PORT}; 0 picks one.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig.  [default: DATA-DIR/kubeconfig]",
)
@cluster_options
@kubelet_options
@click.option(
    "--components",
    default=",".join(COMPONENTS),
    show_default=True,
    metavar="A,B",
    help="Which parts to run. The API server always runs.",
)
@click.option(
    "--enable-admission-plugins",
    default="",
    metavar="A,B",
    help="Admission plugins to switch on, beside those that are on by default, by kube-apiserver's names.",
)
@click.option(
    "--disable-admission-plugins",
    default="",
    metavar="A,B",
    help="Admission plugins to switch off, by kube-apiserver's names.",
)
@click.option(
    "--admission-control-config-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An AdmissionConfiguration: what PodSecurity, EventRateLimit and others are to do (docs/admission.md).",
)
@own_node_options
@access_options
@audit_options
@click.option(
    "--tracing-config-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TracingConfiguration: where traces of requests go, and of how many (docs/tracing.md).",
)
@click.option(
    "--logging-format",
    type=click.Choice(log_lines.FORMATS),
    default=log_lines.FORMATS[0],
    show_default=True,
    help="How errors and warnings are logged: for people, or as JSON with the keys of Kubernetes' components.",
)
@click.option(
    "--max-requests-inflight",
    type=click.IntRange(1),
    default=DEFAULT_SEATS,
    show_default=True,
    help="How many requests are carried out at once; the others wait in fair queues (docs/fairness.md).",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def up(
    data_dir: Path | None,
    name: str | None,
    detach: bool,
    wait: float,
    memory: bool,
    port: int | None,
    http_port: int | None,
    dashboard_port: int | None,
    kubeconfig: Path | None,
    nodes: int | None,
    node_cpu: str,
    node_memory: str,
    node_pods: int | None,
    nodes_from: Path | None,
    node_config: tuple[str, ...],
    node_runtime: str,
    container_runtime_endpoint: str,
    node_root: Path,
    cluster_network: str,
    dumps: tuple[Path, ...],
    scheduler_config: Path | None,
    arbitrator: bool,
    overused_namespaces: str,
    components: str,
    enable_admission_plugins: str,
    disable_admission_plugins: str,
    admission_control_config_file: Path | None,
    tracing_config_file: Path | None,
    max_requests_inflight: int,
    logging_format: str,
    quiet: bool,
) -> None:
    """Start a cluster on this machine: API server, controllers, scheduler and simulated nodes in one process.

    Everything is kept in DATA-DIR and there again at the next start. The kubeconfig it writes is the only way in;
    stop with ctrl-C, or with fairlead down.

    \b
    Example:
      fairlead up --detach
      export KUBECONFIG=$PWD/.fairlead/kubeconfig
      kubectl run hello --image=nginx && kubectl get pods -w
    """
    log_lines.configure(logging.WARNING, logging_format)
    with parsing():
        local = chosen(data_dir, name)
        _check_memory(memory, detach, name)
        if detach and not background.is_detached():
            background.detach(local, wait, reads_input=STDIN in dumps)
            return
        own = own_node(node_runtime, container_runtime_endpoint, node_root, node_config, cluster_network)
        if own is not None and nodes is None and not nodes_from:
            nodes = 0
        imported = imported_objects(dumps)
        shape = NodeShape(node_cpu, node_memory)
        port = local.usual_port() if port is None else port
        imports: list[str] = []
        settings = Settings(
            data_dir=None if memory else local.data_dir,
            pod_network=POD_NETWORK if own is not None and own.network is ClusterNetwork.FAIRLEAD else None,
            port=port,
            http_port=http_port,
            kubeconfig=kubeconfig,
            context=local.context,
            nodes=tuple(node_objects(nodes_from, imported, nodes, shape)),
            imported=imported,
            on_restored=lambda found: _restored(found, imported, imports),
            components=frozenset(chosen_names("component", components, COMPONENTS)),
            scheduling=scheduling(scheduler_config),
            arbitrator=arbitrator,
            overused_namespaces=overuse_strategies(overused_namespaces, has_arbitrator=arbitrator),
            configurations=node_configurations(() if own else node_config, node_pods),
            enabled_admission=names_in(enable_admission_plugins),
            disabled_admission=names_in(disable_admission_plugins),
            admission_configuration=admission_configuration(admission_control_config_file),
            authentication=authentication(),
            authorization=authorization(),
            further_policy=_policy(dashboard_port),
            has_local_storage=own is not None,
            seats=max_requests_inflight,
            audit=audit_settings(),
            tracing=tracing_configuration.load(tracing_config_file) if tracing_config_file else None,
        )
        _check(settings)
        _check_ports({"--port": port, "--http-port": http_port, "--dashboard": dashboard_port})
        check_nodes(settings.configurations, settings.nodes)
    each = f"{shape.cpu} cpu, {shape.memory} each" if not nodes_from and not dumps else ""
    # the one that is bound last comes first
    with explained(dumps, {"--dashboard": dashboard_port, "--http-port": http_port, "--port": port}):
        run(_serve(settings, local, own, _Greeting(each, imports, is_quiet=quiet), dashboard_port))


def _restored(found: Restored, imported: list[Obj], imports: list[str]) -> None:
    """What was read is stored now: of 50,000 pods it takes 200 MB."""
    imports.extend(import_summary(found))
    imported.clear()


def _policy(dashboard_port: int | None) -> tuple[Obj, ...]:
    return () if dashboard_port is None else component_policy(DASHBOARD_USER.name, DASHBOARD_RULES)


def _check_memory(memory: bool, detach: bool, name: str | None) -> None:
    if memory and (detach or name):
        raise WrongUsage("--memory keeps nothing, not even how to reach it: leave out --detach and --name")


def _check(settings: Settings) -> None:
    """Raises for settings that cannot work, before anything starts."""
    check_choice(settings.enabled_admission, settings.disabled_admission, settings.admission_configuration)
    if not settings.components:
        raise WrongUsage(f"--components names none; known are {', '.join(COMPONENTS)}")
    if settings.kubeconfig and not settings.kubeconfig.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(settings.kubeconfig))
    kubeconfig = settings.kubeconfig or (settings.data_dir and kubeconfig_in(settings.data_dir))
    if kubeconfig and kubeconfig.exists():
        if not kubeconfig.is_file():  # as root a file would take the place of /dev/null
            raise WrongUsage(f"{kubeconfig} is no regular file; name another one with --kubeconfig")
        try:
            kubeconfigs.read(kubeconfig)
        except ValueError as error:
            raise WrongUsage(f"{error}; name another one with --kubeconfig") from None


def _check_ports(ports: Mapping[str, int | None]) -> None:
    """Raises WrongUsage if two listeners are to have the same."""
    options: dict[int, str] = {}
    for option, port in ports.items():
        if port and (other := options.setdefault(port, option)) != option:
            raise WrongUsage(f"{other} and {option} are both {port}: give one of them another number")


def _described(asked: int, there: int, each: str) -> str:
    """How many nodes there are. Their size (`each`) is shown only if there were none before: those may differ."""
    if there > asked:
        return f"{counted(there, 'simulated node')} ({there - asked:,} of them were there before)"
    return f"{counted(there, 'simulated node')}{f' ({each})' if each and there else ''}"


class _Greeting(msgspec.Struct, frozen=True):
    """What is printed when the cluster is ready: the size of its nodes, and the results of the imports."""

    each: str
    imports: Sequence[str]
    is_quiet: bool


async def _serve(
    settings: Settings, local: LocalCluster, own: OwnNode | None, greeting: _Greeting, dashboard_port: int | None
) -> None:
    is_new = settings.data_dir is None or not database_in(settings.data_dir).exists()
    with stop_signals() as stopping:
        await _serve_until(stopping, settings, local, own, greeting, is_new, dashboard_port)


async def _serve_until(
    stopping: asyncio.Event,
    settings: Settings,
    local: LocalCluster,
    own: OwnNode | None,
    greeting: _Greeting,
    is_new: bool,
    dashboard_port: int | None,
) -> None:
    async with (
        prepared_agent(own) as agent,
        cluster(settings) as running,
        running_node(running, own, agent, settings.data_dir) as node,
        _dashboard(settings, running, dashboard_port) as link,
    ):
        keep_started()
        collect_in_parts()
        if not greeting.is_quiet:
            _greet(settings, running, greeting, node, is_new, link)
        if settings.data_dir and running.kubeconfig:
            local.keep_record(running.address, running.kubeconfig)
        running.failure.add_done_callback(lambda _: stopping.set())
        await stopping.wait()
        pods, node_count = running.count("pods"), running.count("nodes")
    if running.failure.done():
        running.failure.result()
    if not greeting.is_quiet:
        kept = (
            f" {counted(pods, 'pod')}, {counted(node_count, 'node')} kept in {settings.data_dir}"
            if settings.data_dir
            else ""
        )
        click.echo(f"Stopped.{kept}")


@asynccontextmanager
async def _dashboard(settings: Settings, running: Cluster, port: int | None) -> AsyncIterator[str]:
    """Yields its link, if one is wanted. It reads as a user of its own, who may do nothing else."""
    if port is None:
        yield ""
        return
    from fairlead.dashboard.app import dashboard  # with aiohttp, which no other start needs
    from fairlead.dashboard.live import LiveCluster

    shown = LiveCluster(running.registry.as_user(DASHBOARD_USER), settings.context, settings.scheduling)
    async with dashboard(shown, bind(port)) as link:
        showing = asyncio.create_task(shown.run())
        showing.add_done_callback(running.ended)
        try:
            yield link
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)


def _who_is_heard(settings: Settings) -> str:
    if settings.pod_network is None:
        return "only this machine, only with that kubeconfig"
    return "only this machine, with that kubeconfig, and its pods, with their tokens"


def _greet(settings: Settings, running: Cluster, greeting: _Greeting, node: str, is_new: bool, link: str) -> None:
    if node:
        nodes = f"this machine as node {node}"
    else:
        nodes = _described(len(settings.nodes), running.count("nodes"), greeting.each)
    where = f"{settings.data_dir} ({'new' if is_new else 'kept from before'})" if settings.data_dir else "in memory"
    config = running.kubeconfig
    lines = [
        f"Fairlead {__version__} · Kubernetes {COMPATIBILITY_VERSION} API · {nodes}",
        f"  data       {where}",
        *(f"  import     {line}" for line in greeting.imports),
        f"  kubeconfig {config}      export KUBECONFIG={quote(str(config.absolute())) if config else ''}",
        f"  api        {running.address}      {_who_is_heard(settings)}",
    ]
    if running.http_address:
        lines.append(
            f"  plain http {running.http_address}      NO AUTHENTICATION: any program on this machine is admin"
        )
    if link:
        lines.append(f"  dashboard  {link}      only this machine, only with this link")
    lines.append(f"Ready in {_age_seconds():.1f} s. Try:  kubectl run hello --image=nginx && kubectl get pods -w")
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _age_seconds() -> float:
    """The age of this process: how long the user has waited."""
    try:
        with Path("/proc/self/stat").open() as stat, Path("/proc/uptime").open() as uptime:
            started = float(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
            return max(float(uptime.read().split()[0]) - started, 0.0)
    except FileNotFoundError:  # not Linux
        return time.perf_counter() - _IMPORTED
