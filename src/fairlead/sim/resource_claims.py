"""The ResourceClaims of pods of simulated nodes: read when a pod may start, watched once one is missing.

Simulated nodes need no drivers: every device that is allocated can be had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from fairlead.api.builtin import RESOURCE_CLAIMS
from fairlead.api.devices import ResourceClaim
from fairlead.api.errors import NotFound
from fairlead.api.pods import Pod
from fairlead.api.resource_claims import NotMadeYet
from fairlead.api.verbs import Api
from fairlead.client.informer import Informers
from fairlead.node.resource_claims import claims_problem, needed_claims


class ClaimedDevices:
    """Call `look` before a step of a pod that has not started; one that waits is woken by changes of its claims."""

    def __init__(self, as_node: Callable[[str], Api], informers: Informers, wake: Callable[[str], None]) -> None:
        self._as_node, self._informers, self._wake = as_node, informers, wake
        self._problems: dict[str, str] = {}  # by uid of the pod
        self._waiting: dict[str, set[str]] = defaultdict(set)  # by key of the claim: keys of pods
        self._is_watching = False

    def problem(self, pod: Pod) -> str:
        """Why the pod cannot start, as of the last look."""
        return self._problems.get(pod.metadata.uid, "")

    async def look(self, pod: Pod) -> None:
        try:
            needed = needed_claims(pod)
        except NotMadeYet as not_yet:  # its status tells when it has been
            self._problems[pod.metadata.uid] = str(not_yet)
            return
        api, namespace = self._as_node(pod.spec.node_name), pod.metadata.namespace
        for one in needed:  # before reading, so that no change in between is missed
            self._waiting[f"{namespace}/{one.name}"].add(pod.metadata.key)
        found: dict[str, ResourceClaim] = {}
        for one in needed:
            try:
                found[one.name] = (await api.get(RESOURCE_CLAIMS, one.name, namespace)).view(ResourceClaim)
            except NotFound:
                break
        if problem := claims_problem(pod, found):
            self._problems[pod.metadata.uid] = problem
            self._watch()
        else:
            self.forget(pod)

    def forget(self, pod: Pod) -> None:
        """It waits no more."""
        self._problems.pop(pod.metadata.uid, None)
        try:
            needed = needed_claims(pod)
        except NotMadeYet:
            return
        for one in needed:
            key = f"{pod.metadata.namespace}/{one.name}"
            self._waiting[key].discard(pod.metadata.key)
            if not self._waiting[key]:
                del self._waiting[key]

    def _watch(self) -> None:
        """From the first pod on that waits."""
        if not self._is_watching:
            self._is_watching = True
            self._informers.of(RESOURCE_CLAIMS, ResourceClaim).subscribe(self._changed)

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None:
            for pod in self._waiting.get(new.metadata.key, ()):
                self._wake(pod)
