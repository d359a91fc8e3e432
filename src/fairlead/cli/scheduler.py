"""`fairlead scheduler`: the scheduler alone, against any API server."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import nullcontext
from pathlib import Path

import click

from fairlead.cli.failures import Failure, explained, parsing
from fairlead.cli.scheduling import scheduling
from fairlead.cli.standalone import access_of, new_election, own_families, serve
from fairlead.client.events import SeriesRecorder
from fairlead.client.http import HttpApi
from fairlead.client.informer import Informers
from fairlead.client.kubeconfig import Access
from fairlead.client.leader import LostLeadership, Terms
from fairlead.golang.durations import non_negative_seconds
from fairlead.runtime import log_lines
from fairlead.runtime.http.listener import bind, serving
from fairlead.runtime.http.routes import Routes, healthy, measured
from fairlead.runtime.loops import run
from fairlead.runtime.memory import collect_in_parts
from fairlead.runtime.metrics import MetricsRegistry
from fairlead.scheduler import configuration as configurations
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import Configuration, LeaderElectionConfig
from fairlead.scheduler.loop import Scheduler
from fairlead.scheduler.metrics import Metrics

PORT = 10259


@click.command(short_help="Run the scheduler alone, against any API server.")
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Which API server, and as whom.")
@click.option("--context", default="", help="A context of the kubeconfig.  [default: the current one]")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How it decides: a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) in YAML.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Whether to share the work with others by a lease.  [default: as the configuration says; yes]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Loopback port of /healthz, /livez, /readyz and /metrics; 0 for none.",
)
def scheduler(kubeconfig: Path | None, context: str, config: Path | None, leader_elect: bool | None, port: int) -> None:
    """Place the pods of any cluster, a real Kubernetes included.

    Pods ask for a profile by `schedulerName`; stop kube-scheduler, or give your profile another name. It needs the
    rights of `system:kube-scheduler`.

    \b
    Example:
      fairlead scheduler --kubeconfig ~/.kube/config --config profiles.yaml
    """
    log_lines.configure(logging.WARNING)
    with parsing():
        configuration = scheduling(config) or configurations.load()
        settings = configuration.settings
        file = kubeconfig or settings.client_connection.kubeconfig
        access = access_of([Path(file)] if file else [], context)
        terms = None
        if settings.leader_election.leader_elect if leader_elect is None else leader_elect:
            terms = _terms(settings.leader_election)
    with explained(ports={"--port": port}):
        try:
            run(_serve(access, configuration, terms, port))
        except* LostLeadership as lost:
            raise Failure(f"leader election lost: {lost.exceptions[0]}") from None


def _terms(settings: LeaderElectionConfig) -> Terms:
    return Terms(
        settings.resource_name,
        settings.resource_namespace,
        non_negative_seconds(settings.lease_duration),
        non_negative_seconds(settings.renew_deadline),
        non_negative_seconds(settings.retry_period),
    )


async def _serve(access: Access, configuration: Configuration, terms: Terms | None, port: int) -> None:
    collect_in_parts()
    async with HttpApi(access, user_agent="fairlead-scheduler") as api:
        informers = Informers(api)
        recorder = SeriesRecorder(api, configuration.profiles[0].name, host=socket.gethostname())
        model = ClusterModel(informers, configuration)
        scheduler = Scheduler(api, model, recorder=recorder)
        metrics = Metrics(scheduler.queue, model.snapshot, scheduler.device_metrics)
        scheduler.measure(metrics)
        election = new_election(api, terms) if terms else None
        served = MetricsRegistry(*own_families(api, election), *metrics.families)

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for part in (informers.run(), recorder.run(), scheduler.run()):
                    group.create_task(part)

        async with serving(_routes(served), bind(port)) if port else nullcontext():
            profiles = ", ".join(profile.name for profile in configuration.profiles)
            click.echo(f"Scheduling for {profiles} at {access.server}")
            await serve(work, election)


def _routes(metrics: MetricsRegistry) -> Routes:
    """Health checks and metrics."""
    return Routes({"/healthz": healthy, "/livez": healthy, "/readyz": healthy, "/metrics": measured(metrics)})
