"""What a kubelet takes a pod to request of one resource, when it evicts, preempts and resizes.

Source: GetResourceRequestQuantity of pkg/api/v1/resource/helpers.go.
"""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.api.podresources import has_pod_level_resources, parsed, pod_requests
from fairlead.api.quantity import ZERO, Quantity


def resource_request(spec: Obj, name: str) -> Quantity:
    """Unlike the scheduler, it looks at the pod level alone where there is one; overhead comes on top."""
    if has_pod_level_resources(spec):
        requests = parsed(spec["resources"].get("requests") or {})
    else:
        requests = pod_requests(spec, with_overhead=False)
    request = requests.get(name, ZERO)
    overhead = parsed(spec.get("overhead") or {}).get(name)
    return request + overhead if request and overhead is not None else request
