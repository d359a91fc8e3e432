"""All controllers, in one list, and the manager that runs them over one set of informers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from fairlead.api.nodes import Node
from fairlead.api.verbs import Api
from fairlead.client.events import EventRecorder
from fairlead.client.informer import Informers
from fairlead.controllers.aggregation import AggregatedRoles
from fairlead.controllers.attachments import AttachDetach
from fairlead.controllers.base import Controller, World
from fairlead.controllers.certificates.approver import KubeletApprover
from fairlead.controllers.certificates.cleaner import OldRequests
from fairlead.controllers.cronjob import CronJobs
from fairlead.controllers.daemonset import DaemonSets
from fairlead.controllers.deployment import Deployments
from fairlead.controllers.devicetaints import DeviceTaintEviction
from fairlead.controllers.disruption import DisruptionBudgets, StaleDisruptions
from fairlead.controllers.endpoints import MirroredSlices, ServiceEndpoints, ServiceSlices
from fairlead.controllers.garbage import GarbageCollector
from fairlead.controllers.horizontal import HorizontalPodAutoscalers
from fairlead.controllers.horizontal.resting import Measured
from fairlead.controllers.job import Jobs, OrphanedJobPods
from fairlead.controllers.metrics import ControllerMetrics
from fairlead.controllers.namespace import Namespaces
from fairlead.controllers.nodes import NodeLifecycle, TaintEviction
from fairlead.controllers.persistentvolume import ClaimBinder, ClaimExpander, VolumeKeeper
from fairlead.controllers.podgc import PodGarbage
from fairlead.controllers.quota import ResourceQuotas
from fairlead.controllers.replication import ReplicaSets, ReplicationControllers
from fairlead.controllers.resourceclaims import PodResourceClaims, ResourceClaims
from fairlead.controllers.runner import Runner
from fairlead.controllers.serviceaccount import DefaultServiceAccounts, TokenSecrets
from fairlead.controllers.servicecidrs import ServiceCIDRs
from fairlead.controllers.statefulset import StatefulSets
from fairlead.controllers.ttl import FinishedJobs
from fairlead.controllers.volumes import AttributesClassProtection, ClaimProtection, EphemeralVolumes, VolumeProtection
from fairlead.runtime.metrics import Family

#: Every controller, in the order in which they are started. A new controller is a row here.
CONTROLLERS: tuple[Callable[[], Controller[Any]], ...] = (
    ReplicationControllers,
    ReplicaSets,
    Deployments,
    StatefulSets,
    DaemonSets,
    EphemeralVolumes,
    ClaimBinder,
    VolumeKeeper,
    ClaimExpander,
    AttachDetach,
    ClaimProtection,
    VolumeProtection,
    AttributesClassProtection,
    PodResourceClaims,
    ResourceClaims,
    Jobs,
    OrphanedJobPods,
    FinishedJobs,
    CronJobs,
    NodeLifecycle,
    TaintEviction,
    DeviceTaintEviction,
    PodGarbage,
    ServiceEndpoints,
    ServiceSlices,
    MirroredSlices,
    ServiceCIDRs,
    HorizontalPodAutoscalers,
    DisruptionBudgets,
    StaleDisruptions,
    DefaultServiceAccounts,
    TokenSecrets,
    KubeletApprover,
    OldRequests,
    AggregatedRoles,
    ResourceQuotas,
    Namespaces,
    GarbageCollector,
)


def of_simulation(
    is_silent: Callable[[Node], bool], measured: Measured | None
) -> tuple[Callable[[], Controller[Any]], ...]:
    """The same controllers for a cluster in virtual time: its nodes renew no leases, and are as healthy as their status
    says, but for those that would be silent; and it is known when what is measured stands still."""
    others: Mapping[object, Callable[[], Controller[Any]]] = {
        NodeLifecycle: partial(NodeLifecycle, heartbeats=False, is_silent=is_silent),
        HorizontalPodAutoscalers: partial(HorizontalPodAutoscalers, measured),
    }
    return tuple(others.get(make, make) for make in CONTROLLERS)


class ControllerManager:
    """The controllers over shared informers. Make it before `informers.run()`, then run both."""

    def __init__(
        self,
        as_account: Callable[[str], Api],
        informers: Informers,
        controllers: Iterable[Callable[[], Controller[Any]]] = CONTROLLERS,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """Each writes, and tells events, through what `as_account` gives for its account."""
        world = World(informers)
        made = [make() for make in controllers]
        #: What single controllers count.
        self.families: list[Family] = [family for controller in made for family in controller.families]
        self._recorders = {
            controller.name: EventRecorder(as_account(controller.account), controller.name) for controller in made
        }
        self._runners = [
            Runner(controller, as_account(controller.account), world, self._recorders[controller.name], metrics)
            for controller in made
        ]

    async def run(self) -> None:
        """Run every controller until cancelled."""
        async with asyncio.TaskGroup() as group:
            for recorder in self._recorders.values():
                group.create_task(recorder.run(), name="events")
            for runner in self._runners:
                group.create_task(runner.run(), name="controller")
