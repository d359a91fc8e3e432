"""From a decision to a pod that is bound, beside the decisions that follow (upstream's binding cycle).

assume, reserve ──▶ permit ──▶ pre_bind ──▶ bind ──▶ bound
        └──────────────┴───────────┴─────────┴─────▶ failed: unreserve; `Ended` is called with the reason
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from fairlead.api.errors import ApiError
from fairlead.runtime.clock import stopwatch
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.framework import (
    AnyPlugin,
    ExtenderFailure,
    Handle,
    NotPermitted,
    PluginError,
    Rejected,
)
from fairlead.scheduler.queue import QueuedPod
from fairlead.scheduler.quota_gate import QuotaWaitQueue
from fairlead.scheduler.snapshot import Placed
from fairlead.scheduler.status_writer import StatusWriter

if TYPE_CHECKING:
    from fairlead.scheduler.extenders import Extenders

T = TypeVar("T")

log = logging.getLogger(__name__)


class BindingFailure(msgspec.Struct, frozen=True):
    """Why a pod was not bound."""

    message: str
    #: The plugin that rejected the node; empty if something went wrong instead.
    rejected_by: str = ""


#: Told how long the plugins of an extension point took for a pod: the point, how that ended, the profile, seconds.
PointObserver = Callable[[str, str, str, float], None]

#: Told of every binding that came to an end: whose, and why it failed, if it did.
Ended = Callable[[QueuedPod, BindingFailure | None], None]


class Binder:
    """Binds pods to nodes, by the plugins of their profiles or by an extender."""

    def __init__(
        self,
        model: ClusterModel,
        status_writer: StatusWriter,
        ended: Ended,
        handle: Handle,
        *,
        extenders: Extenders | None,
        quota: QuotaWaitQueue | None,
    ) -> None:
        self._snapshot, self._nominations = model.snapshot, model.nominations
        self._status, self._ended, self._handle = status_writer, ended, handle
        self._extenders, self._quota = extenders, quota
        self.point_observer: PointObserver | None = None

    def assume(self, queued: QueuedPod, chosen: Chosen) -> None:
        """Count the pod as placed from now on; it is no longer nominated."""
        request = queued.request
        self._snapshot.assume(Placed(queued.pod, chosen.row, request.requirements, request.relations))
        self._nominations.drop(queued.pod.metadata.uid)
        if self._quota is not None:
            self._quota.assumed(queued, chosen.node)
        try:
            with self._point("Reserve", queued):
                for plugin in queued.profile.reservers:
                    plugin.reserve(queued.pod, chosen.node, self._handle)
        except Exception:
            self.cancel(queued, chosen.node)
            raise

    def cancel(self, queued: QueuedPod, node: str) -> None:
        """Take back what was assumed and reserved for a pod whose binding has not begun."""
        self._unreserve(queued, node)
        self.forget(queued)

    def forget(self, queued: QueuedPod) -> bool:
        """Take back what was assumed; False if the pod is no longer assumed."""
        if self._quota is not None:
            self._quota.forgotten(queued)
        return self._snapshot.forget(queued.key, queued.pod.metadata.uid)

    def start(self, queued: QueuedPod, node: str) -> None:
        """Bind the pod, beside; where plugins hold it back, that does not keep others from being bound."""
        try:
            pre_binders = [
                plugin for plugin in queued.profile.pre_binders if plugin.pre_binds(queued.pod, node, self._handle)
            ]
        except Exception as error:
            self._failed(queued, node, _broken(queued, error))
            return
        if pre_binders or queued.profile.permitters:
            self._status.writers.aside(partial(self._prepare, queued, node, pre_binders))
        else:
            self._status.writers.start(partial(self._bind, queued, node))

    # --- step by step -----------------------------------------------------------------------------------------------

    async def _prepare(self, queued: QueuedPod, node: str, pre_binders: Sequence[AnyPlugin]) -> None:
        """This may take long, so the pod is told its node before it has it (KEP-5278)."""
        queued.pod = await self._status.expected(queued.pod, node)
        try:
            with self._point("Permit", queued):
                for plugin in queued.profile.permitters:
                    await plugin.permit(queued.pod, node, self._handle)
        except NotPermitted as error:
            self._failed(queued, node, BindingFailure(str(error)))
            return
        except Exception as error:
            self._failed(queued, node, _broken(queued, error))
            return
        failure = await self._pre_bound(queued, node, pre_binders)
        if failure is not None:
            self._failed(queued, node, failure)
            return
        self._status.writers.start(partial(self._bind, queued, node))

    async def _pre_bound(self, queued: QueuedPod, node: str, plugins: Sequence[AnyPlugin]) -> BindingFailure | None:
        with self._point("PreBind", queued) as point:
            for plugin in plugins:
                failure = await _run(plugin, "PreBind", queued, plugin.pre_bind(queued.pod, node, self._handle))
                if isinstance(failure, BindingFailure):
                    point.failed(failure)
                    return failure
        return None

    async def _bind(self, queued: QueuedPod, node: str) -> None:
        failure = await self._bound(queued, node)
        if failure is not None:
            log.info("cannot bind %s to %s: %s", queued.key, node, failure.message)
            self._failed(queued, node, failure)
        else:
            self._ended(queued, None)
            self._status.scheduled(queued.pod, node)

    async def _bound(self, queued: QueuedPod, node: str) -> BindingFailure | None:
        """Have the first bind the pod that does it: an extender, or a plugin."""
        try:
            if self._extenders is not None and await self._extenders.bind(queued.pod, node):
                return None
        except ExtenderFailure as error:
            return BindingFailure(str(error))
        with self._point("Bind", queued) as point:
            for plugin in queued.profile.binders:
                result = await _run(plugin, "Bind", queued, plugin.bind(queued.pod, node, self._handle))
                if isinstance(result, BindingFailure):
                    point.failed(result)
                    return result
                if result:
                    return None
        return BindingFailure("no Bind plugin of the profile binds this pod")

    def _point(self, name: str, queued: QueuedPod) -> _Point:
        return _Point(self.point_observer, name, queued.profile.name)

    def _failed(self, queued: QueuedPod, node: str, failure: BindingFailure) -> None:
        self._unreserve(queued, node)
        self._ended(queued, failure)

    def _unreserve(self, queued: QueuedPod, node: str) -> None:
        """Every plugin is called, the last first, whether its `reserve` was called or not."""
        for plugin in reversed(queued.profile.reservers):
            try:
                plugin.unreserve(queued.pod, node, self._handle)
            except Exception:
                log.exception("plugin %s failed to unreserve %s", plugin.name, queued.key)


class _Point:
    """An extension point while its plugins run; what escapes is an error."""

    __slots__ = ("_began", "_name", "_observer", "_profile", "_status")

    def __init__(self, observer: PointObserver | None, name: str, profile: str) -> None:
        self._observer, self._name, self._profile = observer, name, profile
        self._status, self._began = "Success", stopwatch()

    def failed(self, failure: BindingFailure) -> None:
        self._status = "Unschedulable" if failure.rejected_by else "Error"

    def __enter__(self) -> _Point:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._status = "Unschedulable" if issubclass(kind, NotPermitted) else "Error"
        if self._observer is not None:
            self._observer(self._name, self._status, self._profile, stopwatch() - self._began)


async def _run(plugin: AnyPlugin, point: str, queued: QueuedPod, call: Awaitable[T]) -> T | BindingFailure:
    """What a plugin does at an extension point, and in which words it fails."""
    try:
        return await call
    except Rejected as error:
        return BindingFailure(str(error), plugin.name)
    except (PluginError, ApiError, OSError) as error:
        message = str(error)
    except Exception as error:
        message = _broken(queued, error).message
    return BindingFailure(f'running {point} plugin "{plugin.name}": {message}')


def _broken(queued: QueuedPod, error: Exception) -> BindingFailure:
    log.error("binding %s failed", queued.key, exc_info=error)
    return BindingFailure(f"{type(error).__name__}: {error}")
