"""Posts the binding of a pod to the server (DefaultBinder)."""

from __future__ import annotations

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.scheduler.framework import Handle, Plugin


class DefaultBinder(Plugin):
    name = "DefaultBinder"

    async def bind(self, pod: Pod, node: str, handle: Handle) -> bool:
        meta = pod.metadata
        binding: Obj = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"kind": "Node", "name": node},
        }
        await handle.api.create(builtin.PODS, binding, meta.namespace, name=meta.name, subresource="binding")
        return True
