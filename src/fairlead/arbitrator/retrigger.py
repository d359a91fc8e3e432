"""Makes an external scheduler retry the pods that the extender refused, once they may start.

kube-scheduler retries such a pod when something that it watches changes. It does not watch grants, so in a quiet
cluster that takes minutes. An update of the pod itself triggers a retry at once, so the arbitrator annotates the pod.
"""

from __future__ import annotations

import logging
from typing import Final

from fairlead.api import builtin
from fairlead.api.errors import ApiError
from fairlead.api.guards import guarded
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.arbitrator.gates import start_allowed
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.objects import GROUP
from fairlead.client.informer import Informer
from fairlead.runtime import clock

#: Annotation on a pod: when a retry was last triggered.
RETRIGGERED_AT: Final = f"{GROUP}/woken"

log = logging.getLogger(__name__)


async def retrigger(api: Api, grants: GrantTable, pods: Informer[Pod]) -> None:
    """Annotate the refused pods that may start now. Their room is kept until the scheduler asks again, or for a
    while.
    """
    for pod in start_allowed(grants, _waiting(grants, pods)):
        if grants.refused.pop(pod.metadata.uid, None) is None:
            continue  # while another was written, its scheduler asked again and was told yes
        patch = guarded({"metadata": {"annotations": {RETRIGGERED_AT: clock.timestamp()}}}, pod.metadata)
        try:
            await api.patch(builtin.PODS, pod.metadata.name, pod.metadata.namespace, patch)
        except ApiError as error:
            log.warning("cannot wake %s: %s", pod.metadata.key, error)
            grants.release(pod)


def _waiting(grants: GrantTable, pods: Informer[Pod]) -> list[Pod]:
    """The refused pods that still exist and have no node; drops the rest from the table."""
    found = []
    for uid, key in list(grants.refused.items()):
        pod = pods.get(key)
        if pod is None or pod.metadata.uid != uid or pod.spec.node_name:
            del grants.refused[uid]
        else:
            found.append(pod)
    return found
