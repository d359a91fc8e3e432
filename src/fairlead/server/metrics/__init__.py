"""What the API server counts, by kube-apiserver's names.

A module for each part that counts; the part is given its own, and raises plain numbers. Source of names, labels and
buckets: the `metrics.go` of k8s.io/apiserver's packages (1.36).
"""

from __future__ import annotations

from fairlead.runtime.metrics import MetricsRegistry
from fairlead.server.metrics.access import AccessMetrics
from fairlead.server.metrics.admission import AdmissionMetrics
from fairlead.server.metrics.audit import AuditMetrics
from fairlead.server.metrics.fairness import FairnessMetrics
from fairlead.server.metrics.health import HealthMetrics
from fairlead.server.metrics.requests import RequestMetrics
from fairlead.server.metrics.storage import StorageMetrics
from fairlead.server.metrics.watches import WatchMetrics


class ServerMetrics:
    """All of them, and what else this process serves at `/metrics`."""

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self.access = AccessMetrics()
        self.audit = AuditMetrics()
        self.admission = AdmissionMetrics()
        self.storage = StorageMetrics()
        self.watches = WatchMetrics()
        self.fairness = FairnessMetrics()
        #: Other parts of the process add theirs.
        self.served = MetricsRegistry(
            *self.requests.families,
            *self.access.families,
            *self.audit.families,
            *self.admission.families,
            *self.storage.families,
            *self.watches.families,
            *self.fairness.families,
        )
        #: Served apart, at `/metrics/slis`.
        self.health = HealthMetrics()
