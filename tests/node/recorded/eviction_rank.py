"""Who is evicted first, and what is said about it (S3-41, S3-71 to S3-78)."""

from __future__ import annotations

from fairlead.node.eviction.messages import eviction_message
from fairlead.node.eviction.ranking import ranked
from fairlead.node.eviction.signals import RESOURCE, FileSystems, Signal
from fairlead.node.eviction.thresholds import parse_thresholds
from tests.node.eviction import candidates, node_stats, pod_usages
from tests.node.golden import Row, expected, rows


@rows("eviction_rank")
def test_pods_are_ranked_as_recorded(row: Row) -> None:
    signal, filesystems = Signal(row["signal"]), FileSystems(row["filesystems"])
    pods, usages = candidates(row["pods"]), pod_usages(row["usage"])
    observations = node_stats(row["capacity"], row["available"], 0.0).observations(filesystems)
    thresholds = parse_thresholds({signal: row["threshold"]}, {}, {}, {}, enforces_pods=False)
    messages = {
        pod.name: eviction_message(RESOURCE[signal], pod, usages.get(pod.uid), thresholds, observations) for pod in pods
    }
    answer = {
        "order": [pod.name for pod in ranked(pods, usages, signal, filesystems)],
        "messages": {name: found.message for name, found in messages.items()},
        "annotations": {name: found.annotations for name, found in messages.items()},
    }
    assert answer in expected(row)
