"""What the resource metrics API says of each pod, in thousandths of the resource's unit.

Source: pkg/controller/podautoscaler/metrics/client.go.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead.api.errors import ApiError, NotFound
from fairlead.api.metrics import POD_METRICS, PodMetrics
from fairlead.api.quantity import parse
from fairlead.controllers.horizontal.replicas import Incomputable
from fairlead.golang.durations import parse_seconds
from fairlead.runtime.clock import parse_timestamp

_UNSERVED: Final = f"the server could not find the requested resource (get {POD_METRICS.qualified})"


class Sample(NamedTuple):
    amount: int
    at: float
    window_seconds: float


def unavailable(error: ApiError) -> Incomputable:
    """The API answers with an error, or does not exist."""
    text = _UNSERVED if isinstance(error, NotFound) else str(error)
    return Incomputable(f"unable to fetch metrics from resource metrics API: {text}")


def sample_of(metrics: PodMetrics, resource: str, container: str) -> Sample | None:
    """What a pod uses, or one of its containers; None if that is not known of every container asked about."""
    if not container:
        amounts = [measured.usage.get(resource) for measured in metrics.containers]
        if not amounts:
            return None
    else:
        amounts = [measured.usage.get(resource) for measured in metrics.containers if measured.name == container]
        if not amounts:
            pod = metrics.metadata
            raise Incomputable(
                "failed to get container metrics: "
                f"container {container} not present in metrics for pod {pod.namespace}/{pod.name}"
            )
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += parse(amount).milli
    return Sample(total, parse_timestamp(metrics.timestamp), parse_seconds(metrics.window))
