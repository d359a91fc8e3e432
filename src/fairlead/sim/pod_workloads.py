"""Of which workload a pod is: what a person made, rather than what a controller made of it.

Deployment web ─▶ ReplicaSet web-5f6d ─▶ pod        CronJob report ─▶ Job report-29930715 ─▶ pod
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from fairlead.api.builtin import JOBS, REPLICA_SETS
from fairlead.api.jobs import Job
from fairlead.api.meta import Object
from fairlead.api.workloads import ReplicaSet
from fairlead.client.informer import Informer, Informers

#: Jobs that nobody makes again and again are one workload in each namespace: there may be a hundred thousand.
SINGLE_JOBS: Final = "single Jobs"


class Workloads:
    def __init__(self, informers: Informers) -> None:
        self._between: Mapping[str, Informer[Job] | Informer[ReplicaSet]] = {
            JOBS.kind: informers.of(JOBS, Job),
            REPLICA_SETS.kind: informers.of(REPLICA_SETS, ReplicaSet),
        }

    def of_pod(self, pod: Object) -> str:
        """`Deployment/web`; nothing for a pod without controller."""
        owner = pod.metadata.controller
        return "" if owner is None else sys.intern(self.of_owner(pod.metadata.namespace, owner.kind, owner.name))

    def of_owner(self, namespace: str, kind: str, name: str) -> str:
        """Of the controller of a pod. It has to be there."""
        informer = self._between.get(kind)
        found: Object | None = informer.get(f"{namespace}/{name}") if informer is not None else None
        above = found.metadata.controller if found is not None else None
        if above is not None:
            return f"{above.kind}/{above.name}"
        return SINGLE_JOBS if kind == JOBS.kind else f"{kind}/{name}"
