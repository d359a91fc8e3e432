"""From a decision to a pod that is bound, beside the decisions that follow (upstream's binding cycle).

assume ──▶ reserve ──▶ permit ──▶ volumes ──▶ bind ──▶ bound
             └────────────┴──────────┴─────────┴─────▶ failed: unreserve; whoever decided hears why and takes it back
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fairlead.api.errors import ApiError
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.framework import ExtenderFailure, NotPermitted
from fairlead.scheduler.queue import QueuedPod
from fairlead.scheduler.quota_gate import QuotaWaitQueue
from fairlead.scheduler.snapshot import Placed
from fairlead.scheduler.status_writer import StatusWriter
from fairlead.scheduler.volumebinding import NotBound, VolumeBinder

if TYPE_CHECKING:
    from fairlead.scheduler.extenders import Extenders

#: Told of every binding that came to an end: whose, and why it failed (empty if it did not).
Ended = Callable[[QueuedPod, str], None]

log = logging.getLogger(__name__)


class Binder:
    """Binds pods to nodes, by our own write or by an extender's."""

    def __init__(
        self,
        model: ClusterModel,
        status_writer: StatusWriter,
        ended: Ended,
        volumes: VolumeBinder,
        *,
        extenders: Extenders | None,
        quota: QuotaWaitQueue | None,
    ) -> None:
        self._snapshot, self._nominations = model.snapshot, model.nominations
        self._status, self._ended = status_writer, ended
        self._volumes, self._extenders, self._quota = volumes, extenders, quota

    def assume(self, queued: QueuedPod, chosen: Chosen) -> None:
        """Count the pod as placed from now on; it is no longer nominated."""
        self._snapshot.assume(Placed(queued.pod, chosen.row, queued.request.requirements, queued.request.relations))
        self._nominations.drop(queued.pod.metadata.uid)
        if queued.request.requirements.claims:
            self._volumes.assume(queued.pod, queued.request.requirements, chosen.row, queued.profile)
        if self._quota is not None:
            self._quota.assumed(queued, chosen.node)

    def forget(self, queued: QueuedPod) -> bool:
        """Take back what was assumed; False if the pod is no longer assumed."""
        self._volumes.release(queued.pod)
        if self._quota is not None:
            self._quota.forgotten(queued)
        return self._snapshot.forget(queued.key, queued.pod.metadata.uid)

    def start(self, queued: QueuedPod, node: str) -> None:
        """Write the binding, beside; where plugins or volumes hold it back, that does not keep others from writing."""
        followers = queued.profile.followers
        for plugin in followers:
            plugin.reserve(queued.pod, node)
        if followers or (queued.request.requirements.claims and self._volumes.is_due(queued.pod)):
            self._status.writers.aside(partial(self._permit, queued, node))
        else:
            self._status.writers.start(partial(self._bind, queued, node))

    async def _permit(self, queued: QueuedPod, node: str) -> None:
        try:
            for plugin in queued.profile.followers:
                await plugin.permit(queued.pod, node)
            await self._volumes.bind(queued.pod, queued.profile)
        except (NotPermitted, NotBound) as error:
            self._failed(queued, node, str(error))
        except Exception as error:
            log.exception("a plugin failed to permit %s", queued.key)
            self._failed(queued, node, f"{type(error).__name__}: {error}")
        else:
            self._status.writers.start(partial(self._bind, queued, node))

    async def _bind(self, queued: QueuedPod, node: str) -> None:
        pod = queued.pod
        try:
            if self._extenders is None or not await self._extenders.bind(pod, node):
                await self._status.bind(pod, node)
        except (ApiError, OSError, ExtenderFailure) as error:
            log.info("cannot bind %s to %s: %s", queued.key, node, error)
            said = "" if isinstance(error, ExtenderFailure) else 'running Bind plugin "DefaultBinder": '
            self._failed(queued, node, f"{said}{error}")
        else:
            self._ended(queued, "")
            self._status.scheduled(pod, node)

    def _failed(self, queued: QueuedPod, node: str, why: str) -> None:
        for plugin in queued.profile.followers:
            plugin.unreserve(queued.pod, node)
        self._volumes.release(queued.pod)
        self._ended(queued, why)
