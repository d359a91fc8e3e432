"""Shows static pods to the cluster: a mirror pod for each, which nobody runs, with the status of what it mirrors.

    no mirror ─▶ created ─▶ status written at each change ─▶ (deleted, or of another file) ─▶ removed ─▶ created again
                                                         └▶ (nothing to mirror) ─▶ removed

The API server may come and go meanwhile; the pods do not notice. Reference: pkg/kubelet/pod/mirror_client.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead.agent.static_pods.static_pods import StaticPods
from fairlead.api.builtin import NODES, PODS
from fairlead.api.errors import NotFound
from fairlead.api.guards import guarded
from fairlead.api.objects import Obj
from fairlead.api.pods import MIRROR, Pod
from fairlead.api.verbs import Api, DeleteOptions, PatchType
from fairlead.client.informer import Informer
from fairlead.client.worker import work_off
from fairlead.runtime.workqueue import WorkQueue

#: So many mirrors are worked on at once.
_WORKERS: Final = 2


def is_mirror(pod: Pod) -> bool:
    return MIRROR in pod.metadata.annotations


class Mirrors:
    """`node_uid` is asked when mirrors are made: they belong to the node."""

    def __init__(self, api: Api, node_name: str, node_uid: Callable[[], str], statics: StaticPods) -> None:
        self._api, self._node_name, self._node_uid, self._statics = api, node_name, node_uid, statics
        self._queue: WorkQueue[str] = WorkQueue()
        self._written: dict[str, tuple[str, str]] = {}  # by key: the mirror's uid, and the version that it shows

    async def run(self, pods: Informer[Pod]) -> None:
        """Until cancelled; `pods` of this node must be running."""
        await pods.synced()

        def mirror_changed(old: Pod | None, new: Pod | None) -> None:
            pod = new or old
            if pod is not None and (is_mirror(pod) or self._statics.get(pod.metadata.key) is not None):
                self._queue.add(pod.metadata.key)

        def static_changed(old: Pod | None, new: Pod | None) -> None:
            if (pod := new or old) is not None:
                self._queue.add(pod.metadata.key)

        self._statics.subscribe(static_changed)
        pods.subscribe(mirror_changed)
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(work_off(self._queue, "mirror of static pod", lambda key: self._sync(key, pods)))

    async def _sync(self, key: str, pods: Informer[Pod]) -> None:
        static, mirror = self._statics.get(key), pods.get(key)
        if mirror is not None and not is_mirror(mirror):
            return  # somebody else's pod has the name, and the static one runs unseen
        if mirror is not None and not _shows(mirror, static):
            self._written.pop(key, None)
            options = DeleteOptions(grace_period_seconds=0, precondition_uid=mirror.metadata.uid)
            await self._api.delete(PODS, mirror.metadata.name, mirror.metadata.namespace, options)
        elif static is not None and mirror is None:
            if not static.metadata.is_terminating:
                await self._create(self._statics.manifest(static))
        elif static is not None and mirror is not None:
            await self._show(static, mirror)

    async def _create(self, manifest: Obj) -> None:
        meta = manifest["metadata"]
        owner = {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "name": self._node_name,
            "uid": self._node_uid(),
            "controller": True,
        }
        own = {name: meta[name] for name in ("name", "namespace", "labels", "finalizers") if name in meta}
        annotations = {**meta["annotations"], MIRROR: meta["uid"]}
        mirror = {
            "metadata": {**own, "annotations": annotations, "ownerReferences": [owner]},
            "spec": manifest["spec"],
        }
        await self._api.create(PODS, mirror, meta["namespace"])

    async def _show(self, static: Pod, mirror: Pod) -> None:
        key, shown = static.metadata.key, (mirror.metadata.uid, static.metadata.resource_version)
        if self._written.get(key) == shown:
            return
        meta = mirror.metadata
        patch = guarded({"status": self._statics.manifest(static)["status"]}, meta)
        try:
            await self._api.patch(PODS, meta.name, meta.namespace, patch, PatchType.MERGE, subresource="status")
        except NotFound:
            return  # it went meanwhile; that is an event of its own
        self._written[key] = shown


def _shows(mirror: Pod, static: Pod | None) -> bool:
    is_going = mirror.metadata.deletion_timestamp is not None
    return static is not None and not is_going and mirror.metadata.annotations[MIRROR] == static.metadata.uid
