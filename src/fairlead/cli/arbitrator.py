"""`fairlead arbitrator`: the arbitrator alone, against any API server."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from pathlib import Path

import click
import msgspec

from fairlead.api.verbs import Api
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.leader_endpoint import take_over
from fairlead.arbitrator.live_context import own_name, review_context
from fairlead.arbitrator.loop import always
from fairlead.arbitrator.metrics import ArbitratorMetrics
from fairlead.arbitrator.serving import ListenAddress, ListenerState, Tls, check_listener, listening
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.cli.failures import Failure, WrongUsage, explained, parsing
from fairlead.cli.standalone import access_of, new_election, own_families, serve, which_cluster_options
from fairlead.client.http import HttpApi
from fairlead.client.informer import Informers
from fairlead.client.kubeconfig import Access
from fairlead.client.leader import LostLeadership, Terms
from fairlead.runtime import log_lines
from fairlead.runtime.loops import run
from fairlead.runtime.memory import collect_in_parts, keep_started
from fairlead.runtime.metrics import MetricsRegistry

LEASE = "fairlead-arbitrator"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class ListenerOptions(msgspec.Struct, frozen=True):
    """The options of the listener, and of the Service that points to the leader."""

    address: ListenAddress
    tls: Tls | None
    service: tuple[str, str] | None = None  # namespace and name
    own_address: str = ""


@click.command(short_help="Run the arbitrator alone, against any API server.")
@which_cluster_options("Which API server, if not our pod's.")
@click.option(
    "--leader-elect/--no-leader-elect", default=True, show_default=True, help="Whether to share the work by a lease."
)
@click.option("--lease-namespace", default="kube-system", show_default=True, help="Where the lease is.")
@click.option("--listen", metavar="HOST:PORT", help="Where to answer webhooks, schedulers, probes and metrics.")
@click.option("--tls-cert-file", type=FILE, help="The listener's certificate. Beyond loopback there must be one.")
@click.option("--tls-private-key-file", type=FILE, help="Its key.")
@click.option(
    "--client-ca-file", type=FILE, help="Who asks for metrics or for a pod shows a certificate of this authority."
)
@click.option(
    "--extender-service",
    metavar="NAMESPACE/NAME",
    help="A Service without selector, for schedulers: whoever leads is its endpoint.",
)
@click.option("--pod-ip", envvar="POD_IP", default="", help="Our own address, for that Service.")
def arbitrator(
    kubeconfig: tuple[Path, ...],
    context: str,
    leader_elect: bool,
    lease_namespace: str,
    listen: str | None,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    extender_service: str | None,
    pod_ip: str,
) -> None:
    """Divide a cluster among its namespaces, a real Kubernetes included.

    It installs the kinds Consumer, ConsumerGroup, ArbitratorPolicy and Allocation, gives every namespace a Consumer,
    keeps the Allocations up to date, and takes back what others deserve: it gives notice, then evicts, and breaks no
    disruption budget. Pods are held back until they are granted if they have its scheduling gate, or if the scheduler
    asks its listener. docs/arbitrator-on-kubernetes.md tells how.

    \b
    Example:
      fairlead arbitrator --kubeconfig ~/.kube/config --listen 127.0.0.1:9443 &
      kubectl get consumers,allocations -A
    """
    log_lines.configure(logging.WARNING)
    with parsing():
        access = access_of(kubeconfig, context)
        tls = _tls(tls_cert_file, tls_private_key_file, client_ca_file)
        listener = _listener(listen, tls, extender_service, pod_ip)
    terms = Terms(LEASE, lease_namespace) if leader_elect else None
    with explained(ports={"--listen": listener.address.port if listener else None}):
        try:
            run(_run(access, terms, listener))
        except* LostLeadership as lost:
            raise Failure(f"leader election lost: {lost.exceptions[0]}") from None


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> Tls | None:
    """Raises WrongUsage if an option is missing, OSError for files that cannot be used."""
    if certificate is None or key is None:
        if certificate or key or client_ca:
            raise WrongUsage("--tls-cert-file and --tls-private-key-file go together, and --client-ca-file with them")
        return None
    tls = Tls(certificate, key, client_ca)
    tls.context()
    return tls


def _listener(listen: str | None, tls: Tls | None, service: str | None, own_address: str) -> ListenerOptions | None:
    """Raises WrongUsage or ValueError for options that cannot work."""
    if listen is None:
        if tls or service:
            raise WrongUsage("--tls-cert-file and --extender-service say nothing without --listen")
        return None
    address = ListenAddress.parse(listen)
    check_listener(address, tls)
    if service is None:
        return ListenerOptions(address, tls)
    namespace, _, name = service.partition("/")
    if not namespace or not name or not own_address:
        raise WrongUsage("--extender-service wants NAMESPACE/NAME, and our own address: --pod-ip")
    ipaddress.ip_address(own_address)
    return ListenerOptions(address, tls, (namespace, name), own_address)


async def _run(access: Access, terms: Terms | None, listener: ListenerOptions | None) -> None:
    collect_in_parts()
    async with HttpApi(access, user_agent="fairlead-arbitrator") as api:
        election = new_election(api, terms) if terms else None
        may_act = election.is_leading if election else always
        informers, grants, metrics = Informers(api), GrantTable(Accounting()), ArbitratorMetrics()

        async def work() -> None:
            async with asyncio.TaskGroup() as leading:
                if listener is not None and listener.service is not None:
                    own = (listener.own_address, listener.address.port)
                    leading.create_task(take_over(api, *listener.service, *own))
                leading.create_task(
                    ArbitratorComponent(api, informers, grants, may_act=may_act, observer=metrics).run()
                )

        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(informers.run())]
            if listener is not None:
                state = ListenerState(
                    MetricsRegistry(*own_families(api, election), *metrics.families), is_leading=may_act
                )
                grants.subscribe(lambda: _divided(state, grants))
                beside.append(group.create_task(_answer(api, informers, listener, state)))
            click.echo(f"Arbitrating at {access.server}")
            await serve(work, election)
            for task in beside:
                task.cancel()


def _divided(state: ListenerState, grants: GrantTable) -> None:
    """After the first cycle: the extender can answer which pods may start."""
    if state.grants is None:
        keep_started()
        state.grants = grants


async def _answer(api: Api, informers: Informers, listener: ListenerOptions, state: ListenerState) -> None:
    """Serve requests, as a follower too: the API server calls webhooks of any replica."""
    async with listening(listener.address, listener.tls, state):
        state.arbitrators = frozenset({await own_name(api)})
        state.context = await review_context(api, informers)
        await asyncio.Event().wait()
