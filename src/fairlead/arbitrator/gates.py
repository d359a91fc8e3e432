"""The arbitrator's scheduling gate, for clusters whose scheduler cannot be made to ask.

A gate cannot be put back, so the pod counts as started once it is lifted; an annotation tells the next leader so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from fairlead.api import builtin
from fairlead.api.errors import ApiError
from fairlead.api.guards import guarded
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.accounting import RequestVector, has_foreign_gate, queue_order
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.objects import GATE, GRANTED
from fairlead.runtime import clock

log = logging.getLogger(__name__)


def start_allowed(grants: GrantTable, pods: Iterable[Pod]) -> Iterator[Pod]:
    """The pods that may start, in queue order; each counts as started once it is yielded.

    When a pod is refused, those of its namespace with the same requests are skipped: thousands may be waiting.
    """
    waiting = [pod for pod in pods if not (pod.metadata.is_terminating or has_foreign_gate(pod))]
    refused = set[tuple[str, RequestVector]]()
    for pod in sorted(waiting, key=queue_order):
        equals = (pod.metadata.namespace, grants.accounting.vector(pod))
        if equals in refused:
            continue
        if grants.ask(pod):
            refused.add(equals)
        else:
            yield pod


async def lift(api: Api, grants: GrantTable, pods: Iterable[Pod]) -> None:
    """Lift the gates of the pods that may start."""
    for pod in start_allowed(grants, pods):
        try:
            await _lift(api, pod)
            grants.keep(pod)
        except ApiError as error:
            log.warning("cannot lift the gate of %s: %s", pod.metadata.key, error)
            grants.release(pod)


async def _lift(api: Api, pod: Pod) -> None:
    meta = pod.metadata
    lifted: Obj = {
        "metadata": {"annotations": {GRANTED: clock.timestamp()}},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
    }
    await api.patch(builtin.PODS, meta.name, meta.namespace, guarded(lifted, meta), PatchType.STRATEGIC)
