"""All pods of a node, wherever it has them from: the API server, or files.

Whoever works on pods asks for manifests, reports and removes in one way. Mirrors are left out: they show what runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.agent.static_pods.mirrors import is_mirror
from fairlead.agent.static_pods.static_pods import StaticPods
from fairlead.api.builtin import PODS
from fairlead.api.errors import Conflict, Forbidden, NotFound
from fairlead.api.guards import guarded
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.verbs import Api, DeleteOptions, PatchType
from fairlead.client.informer import Handler, Informer


class NodePods:
    """A static pod hides one of the same name that the API server has."""

    def __init__(self, api: Api, informer: Informer[Pod], statics: StaticPods) -> None:
        self._api, self._informer, self._statics = api, informer, statics

    def __iter__(self) -> Iterator[Pod]:
        yield from self._statics
        yield from (pod for pod in self._informer if not is_mirror(pod))

    def get(self, key: str) -> Pod | None:
        if (static := self._statics.get(key)) is not None:
            return static
        pod = self._informer.get(key)
        return None if pod is None or is_mirror(pod) else pod

    def is_static(self, pod: Pod) -> bool:
        return self._statics.is_here(pod)

    async def synced(self) -> None:
        """Those of the API server are known as well."""
        await self._informer.synced()

    def subscribe_static(self, handler: Handler[Pod]) -> None:
        self._statics.subscribe(handler)

    def subscribe(self, handler: Handler[Pod]) -> None:
        """To those of the API server."""

        def changed(old: Pod | None, new: Pod | None) -> None:
            pod = new or old
            if pod is not None and not is_mirror(pod):
                handler(old, new)

        self._informer.subscribe(changed)

    async def manifest(self, pod: Pod) -> Obj:
        """NotFound if it is gone, also if another one has its name.

        An API server forbids a node to read pods that it does not know to be the node's, and so one of ours that has
        just gone; Conflict then, for its deletion is on the way to us.
        """
        if self.is_static(pod):
            return self._statics.manifest(pod)
        meta = pod.metadata
        try:
            manifest = (await self._api.get(PODS, meta.name, meta.namespace)).obj()
        except Forbidden as refusal:
            raise Conflict(refusal.message) from None
        if manifest["metadata"]["uid"] != meta.uid:
            raise NotFound(f"pod {meta.key} is another one by now")
        return manifest

    async def report(self, pod: Pod, status: Obj) -> Obj:
        """Write the status, if the pod has not changed since it was worked out; returns the pod with it."""
        if self.is_static(pod):
            return self._statics.report(pod, status)
        meta = pod.metadata
        patch = guarded({"status": status}, meta, unchanged=True)
        written = await self._api.patch(PODS, meta.name, meta.namespace, patch, PatchType.MERGE, subresource="status")
        return written.obj()

    async def remove(self, pod: Pod) -> None:
        """Nothing of it runs any more; finalizers may still keep the object."""
        if self.is_static(pod):
            self._statics.remove(pod)
            return
        meta = pod.metadata
        if pod.is_finished and meta.deletion_grace_period_seconds == 0:
            return
        options = DeleteOptions(grace_period_seconds=0, precondition_uid=meta.uid)
        await self._api.delete(PODS, meta.name, meta.namespace, options)
