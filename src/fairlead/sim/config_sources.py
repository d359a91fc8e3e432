"""The ConfigMaps and Secrets that pods need: read when a container may start, watched once one is missing."""

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
from fairlead.node.start_requirements import NOTHING, ConfigSource, Found, Needs

_RESOURCES: Final = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


class _Content(View):
    data: dict[str, msgspec.Raw] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None


class AssumedSources(msgspec.Struct, frozen=True):
    """What is there although nobody has made it: of these kinds all that pods ask for, but for those named."""

    kinds: frozenset[str] = frozenset()
    missing: frozenset[tuple[str, ConfigSource]] = frozenset()  # by namespace

    def has(self, namespace: str, source: ConfigSource) -> bool:
        return source.kind in self.kinds and (namespace, source) not in self.missing


class ConfigSources:
    """Call `found` before a step of a pod and `settle` after it; a waiting pod is retried on any change."""

    def __init__(
        self,
        as_node: Callable[[str], Api],
        informers: Informers,
        wake: Callable[[str], None],
        assumed: AssumedSources = AssumedSources(),
    ) -> None:
        """`assumed` sources are there, with whatever is asked for."""
        self._as_node, self._informers, self._wake, self._assumed = as_node, informers, wake, assumed
        self._waiting: dict[tuple[str, ConfigSource], set[str]] = {}  # by namespace and source: keys of pods
        self._is_watching = False

    async def found(self, pod: Pod, needs: Needs) -> Found:
        """The existing sources among those that the pod needs."""
        if not needs.sources:
            return NOTHING
        for source in needs.sources:  # before reading, so that no change in between is missed
            self._waiting.setdefault((pod.metadata.namespace, source), set()).add(pod.metadata.key)
        return {source: await self._keys(source, pod, needs) for source in needs.sources}

    async def _keys(self, source: ConfigSource, pod: Pod, needs: Needs) -> frozenset[str] | None:
        if self._assumed.has(pod.metadata.namespace, source):
            return needs.keys_of(source)
        api = self._as_node(pod.spec.node_name)
        try:
            content = (await api.get(_RESOURCES[source.kind], source.name, pod.metadata.namespace)).view(_Content)
        except NotFound:
            return None
        return frozenset(content.data or ()) | frozenset(content.binary_data or ())

    def settle(self, pod: Pod, needs: Needs, *, is_waiting: bool) -> None:
        """After the step: keep or drop the pod's interest in its sources."""
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
        """Start watching when the first pod waits: most clusters never need a copy of their Secrets here."""
        if self._is_watching:
            return
        self._is_watching = True
        for kind, resource in _RESOURCES.items():

            def changed(old: Object | None, new: Object | None, kind: str = kind) -> None:
                if new is not None:
                    for pod in self._waiting.get((new.metadata.namespace, ConfigSource(kind, new.metadata.name)), ()):
                        self._wake(pod)

            self._informers.of(resource, Object).subscribe(changed)
