"""What a kubelet answers over HTTP about itself: which path shows what (pkg/kubelet/server/server.go, 1.36)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.objects import Obj
from fairlead.node.stats import cadvisor, kubelet_metrics, resource_metrics
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.node.stats.pod_lists import pod_list, running_pods
from fairlead.node.stats.summary import summary
from fairlead.runtime.http.replies import NOT_FOUND, Reply

#: What Prometheus reads.
EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


class KubeletState(msgspec.Struct, frozen=True):
    """What a kubelet knows besides what it measures."""

    #: By signal.
    evictions: Mapping[str, int]
    #: Those that it was told to run; looked up only for whoever wants them.
    pods: Sequence[Obj] = ()


def answer(
    path: str,
    query: Mapping[str, str],
    node: NodeMeasurements,
    configuration: Obj | None = None,
    state: KubeletState | None = None,
) -> Reply:
    """The answer to a GET of `/path`. `configuration`: the KubeletConfiguration, where it is known."""
    match path:
        case "pods" | "pods/" if state is not None:
            return Reply.json(encode(pod_list(state.pods)))
        case "runningpods" | "runningpods/":
            return Reply.json(encode(running_pods(node)))
        case "metrics" if state is not None:
            return Reply(kubelet_metrics.exposition(node, state.evictions), media_type=EXPOSITION)
        case "healthz" | "healthz/ping":
            return Reply(b"ok")
        case "stats/summary":
            shown = summary(node, only_cpu_and_memory=query.get("only_cpu_and_memory") == "true")
            return Reply.json(msgspec.json.format(encode(shown), indent=1))
        case "metrics/resource":
            return Reply(resource_metrics.exposition(node), media_type=EXPOSITION)
        case "metrics/cadvisor":
            return Reply(cadvisor.exposition(node), media_type=EXPOSITION)
        case "metrics/probes":  # without probes there is none of its counters
            return Reply(b"", media_type=EXPOSITION)
        case "configz" if configuration is not None:
            return Reply.json(encode({"kubeletconfig": configuration}))
    return NOT_FOUND
