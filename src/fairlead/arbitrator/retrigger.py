"""Pods that a scheduler of another process was told to let wait, woken when they may start.

kube-scheduler tries a pod that an extender refused again upon any change in the cluster, but what is granted is nothing
that it watches: in a quiet cluster that may be minutes. A change of the pod itself is one, so a note on it will do.
"""

from __future__ import annotations

import logging
from typing import Final

from fairlead.api import builtin
from fairlead.api.errors import ApiError
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.arbitrator.gates import let_start
from fairlead.arbitrator.ledger import Ledger
from fairlead.arbitrator.objects import GROUP
from fairlead.client.informer import Informer
from fairlead.runtime import clock

#: On a pod: when it was woken.
WOKEN: Final = f"{GROUP}/woken"

log = logging.getLogger(__name__)


async def wake(api: Api, ledger: Ledger, pods: Informer[Pod]) -> None:
    """Wake as many as may start; until the scheduler asks again, or a while has passed, their room is kept."""
    for pod in let_start(ledger, _waiting(ledger, pods)):
        del ledger.refused[pod.metadata.uid]
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {WOKEN: clock.timestamp()}}}
        try:
            await api.patch(builtin.PODS, pod.metadata.name, pod.metadata.namespace, patch)
        except ApiError as error:
            log.warning("cannot wake %s: %s", pod.metadata.key, error)
            ledger.release(pod)


def _waiting(ledger: Ledger, pods: Informer[Pod]) -> list[Pod]:
    """Those of the refused that are still there, without a node. The others are forgotten."""
    found = []
    for uid, key in list(ledger.refused.items()):
        pod = pods.get(key)
        if pod is None or pod.metadata.uid != uid or pod.spec.node_name:
            del ledger.refused[uid]
        else:
            found.append(pod)
    return found
