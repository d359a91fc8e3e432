"""Pods that wait behind the arbitrator's own scheduling gate, where the scheduler cannot be told to ask.

A gate is lifted once and for all, so the pod is counted as started from then on, and an annotation says so to whoever
arbitrates next.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from fairlead.api import builtin
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.arbitrator.books import Kind, in_line, is_held_back_by_others
from fairlead.arbitrator.ledger import Ledger
from fairlead.arbitrator.objects import GATE, GRANTED
from fairlead.runtime import clock

log = logging.getLogger(__name__)


def let_start(ledger: Ledger, pods: Iterable[Pod]) -> Iterator[Pod]:
    """Those that may start, the most important and oldest first; each is counted as started when it is told.

    Of equal pods of a namespace none is asked for once one was refused: thousands may wait.
    """
    waiting = [pod for pod in pods if not (pod.metadata.is_terminating or is_held_back_by_others(pod))]
    refused = set[tuple[str, Kind]]()
    for pod in sorted(waiting, key=in_line):
        equals = (pod.metadata.namespace, ledger.books.kind(pod))
        if equals in refused:
            continue
        if ledger.ask(pod):
            refused.add(equals)
        else:
            yield pod


async def lift(api: Api, ledger: Ledger, pods: Iterable[Pod]) -> None:
    """Lift the gates of those of these pods that may start."""
    for pod in let_start(ledger, pods):
        try:
            await _lift(api, pod)
            ledger.keep(pod)
        except ApiError as error:
            log.warning("cannot lift the gate of %s: %s", pod.metadata.key, error)
            ledger.release(pod)


async def _lift(api: Api, pod: Pod) -> None:
    patch: Obj = {
        "metadata": {"uid": pod.metadata.uid, "annotations": {GRANTED: clock.timestamp()}},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
    }
    await api.patch(builtin.PODS, pod.metadata.name, pod.metadata.namespace, patch, PatchType.STRATEGIC)
