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
from fairlead.runtime import clock
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.framework import ExtenderFailure, NotPermitted
from fairlead.scheduler.holding import Gatekeeper, HeldBack
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.queue import Waiting
from fairlead.scheduler.snapshot import Placed, Snapshot
from fairlead.scheduler.telling import Teller
from fairlead.scheduler.volumebinding import NotBound, VolumeBinder

if TYPE_CHECKING:
    from fairlead.scheduler.extenders import Extenders

#: Told of every binding that came to an end: whose, and why it failed (empty if it did not).
Ended = Callable[[Waiting, str], None]

log = logging.getLogger(__name__)


class Binder:
    """Binds pods to nodes, by our own write or by an extender's."""

    def __init__(
        self,
        snapshot: Snapshot,
        nominations: Nominations,
        teller: Teller,
        ended: Ended,
        volumes: VolumeBinder,
        *,
        extenders: Extenders | None,
        keeper: Gatekeeper | None,
        held: HeldBack | None,
    ) -> None:
        self._snapshot, self._nominations, self._teller, self._ended = snapshot, nominations, teller, ended
        self._volumes, self._extenders, self._keeper, self._held = volumes, extenders, keeper, held

    def assume(self, waiting: Waiting, chosen: Chosen) -> None:
        """Count the pod as placed from now on; what was promised to it, it has."""
        self._snapshot.assume(Placed(waiting.pod, chosen.row, waiting.task.shape, waiting.task.company))
        self._nominations.drop(waiting.pod.metadata.uid)
        if waiting.task.shape.claims:
            self._volumes.assume(waiting.pod, waiting.task.shape, chosen.row, waiting.profile)
        if self._keeper is not None and self._held is not None:
            self._keeper.assume(waiting.pod, chosen.node)
            self._held.wake_next(waiting, clock.monotonic())

    def forget(self, waiting: Waiting) -> bool:
        """Take back what was assumed; False if the pod is no longer assumed."""
        self._volumes.release(waiting.pod)
        if self._keeper is not None:
            self._keeper.release(waiting.pod)
        return self._snapshot.forget(waiting.key, waiting.pod.metadata.uid)

    def start(self, waiting: Waiting, node: str) -> None:
        """Write the binding, beside; where plugins or volumes hold it back, that does not keep others from writing."""
        followers = waiting.profile.followers
        for plugin in followers:
            plugin.reserve(waiting.pod, node)
        if followers or (waiting.task.shape.claims and self._volumes.is_due(waiting.pod)):
            self._teller.writers.aside(partial(self._permit, waiting, node))
        else:
            self._teller.writers.start(partial(self._bind, waiting, node))

    async def _permit(self, waiting: Waiting, node: str) -> None:
        try:
            for plugin in waiting.profile.followers:
                await plugin.permit(waiting.pod, node)
            await self._volumes.bind(waiting.pod, waiting.profile)
        except (NotPermitted, NotBound) as error:
            self._failed(waiting, node, str(error))
        except Exception as error:
            log.exception("a plugin failed to permit %s", waiting.key)
            self._failed(waiting, node, f"{type(error).__name__}: {error}")
        else:
            self._teller.writers.start(partial(self._bind, waiting, node))

    async def _bind(self, waiting: Waiting, node: str) -> None:
        pod = waiting.pod
        try:
            if self._extenders is None or not await self._extenders.bind(pod, node):
                await self._teller.bind(pod, node)
        except (ApiError, OSError, ExtenderFailure) as error:
            log.info("cannot bind %s to %s: %s", waiting.key, node, error)
            said = "" if isinstance(error, ExtenderFailure) else 'running Bind plugin "DefaultBinder": '
            self._failed(waiting, node, f"{said}{error}")
        else:
            self._ended(waiting, "")
            self._teller.scheduled(pod, node)

    def _failed(self, waiting: Waiting, node: str, why: str) -> None:
        for plugin in waiting.profile.followers:
            plugin.unreserve(waiting.pod, node)
        self._volumes.release(waiting.pod)
        self._ended(waiting, why)
