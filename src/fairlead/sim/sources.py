"""The ConfigMaps and Secrets that pods need: looked up when a container may start, watched once one is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from fairlead.api.builtin import CONFIG_MAPS, SECRETS
from fairlead.api.errors import NotFound
from fairlead.api.meta import Object, View
from fairlead.api.pods import Pod
from fairlead.api.verbs import Api
from fairlead.client.informer import Informers
from fairlead.node.starting import NOTHING, Found, Needs, Source

_RESOURCES: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


class _Content(View):
    data: dict[str, msgspec.Raw] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


class Sources:
    """`found` before a step is taken with a pod, `settle` afterwards; a pod that waits is woken by any change."""

    def __init__(self, api: Api, informers: Informers, wake: Callable[[str], None]) -> None:
        self._api, self._informers, self._wake = api, informers, wake
        self._waiting: dict[tuple[str, Source], set[str]] = {}  # by namespace and source: keys of pods
        self._is_watching = False

    async def found(self, pod: Pod, needs: Needs) -> Found:
        """What there is of what the pod needs."""
        if not needs.sources:
            return NOTHING
        for source in needs.sources:  # before looking: what comes in between is not to be missed
            self._waiting.setdefault((pod.metadata.namespace, source), set()).add(pod.metadata.key)
        return {source: await self._keys(source, pod.metadata.namespace) for source in needs.sources}

    async def _keys(self, source: Source, namespace: str) -> frozenset[str] | None:
        try:
            content = (await self._api.get(_RESOURCES[source.kind], source.name, namespace)).view(_Content)
        except NotFound:
            return None
        return frozenset(content.data or ()) | frozenset(content.binary_data or ())

    def settle(self, pod: Pod, needs: Needs, *, is_waiting: bool) -> None:
        """After the step: whether the pod still waits."""
        if not needs.sources:
            return
        if is_waiting:
            self._watch()
            return
        for source in needs.sources:
            where = (pod.metadata.namespace, source)
            if (pods := self._waiting.get(where)) is not None:
                pods.discard(pod.metadata.key)
                if not pods:
                    del self._waiting[where]

    def _watch(self) -> None:
        """Watch what may come, from the first pod on that waits for something: most clusters need no copy of it."""
        if self._is_watching:
            return
        self._is_watching = True
        for kind, resource in _RESOURCES.items():

            def changed(old: Object | None, new: Object | None, kind: str = kind) -> None:
                if new is not None:
                    for pod in self._waiting.get((new.metadata.namespace, Source(kind, new.metadata.name)), ()):
                        self._wake(pod)

            self._informers.of(resource, Object).subscribe(changed)
