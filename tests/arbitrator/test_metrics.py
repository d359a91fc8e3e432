"""The arbitrator's metrics, as Prometheus reads them."""

from __future__ import annotations

import asyncio

from fairlead.arbitrator.metrics import ArbitratorMetrics
from fairlead.arbitrator.outcomes import ShareOutcome
from fairlead.runtime.exposition import exposition

GI = 1 << 30


def outcome(used: int, deserved: int) -> ShareOutcome:
    amounts = {"cpu": deserved, "memory": GI}
    return ShareOutcome(
        request={"cpu": 3000},
        deserved=amounts,
        granted={"cpu": 500},
        used={"cpu": used},
        staying={"cpu": used},
        reserved={"cpu": 2000},
        dominant_share="0.2500",
        bottleneck="cpu",
    )


def exposed(metrics: ArbitratorMetrics) -> list[str]:
    lines = asyncio.run(exposition(metrics.families)).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_last_cycle_is_told_in_cores_and_bytes() -> None:
    metrics = ArbitratorMetrics()
    metrics.cycle(0.003, {"gone": outcome(1000, 1000)})
    metrics.cycle(0.0005, {"a": outcome(used=2500, deserved=1500)})
    lines = exposed(metrics)
    for line in (
        'fairlead_arbitrator_request{namespace="a",resource="cpu"} 3',
        'fairlead_arbitrator_deserved{namespace="a",resource="cpu"} 1.5',
        'fairlead_arbitrator_deserved{namespace="a",resource="memory"} 1.073741824e+09',
        'fairlead_arbitrator_granted{namespace="a",resource="cpu"} 0.5',
        'fairlead_arbitrator_used{namespace="a",resource="cpu"} 2.5',
        'fairlead_arbitrator_borrowed{namespace="a",resource="cpu"} 0.5',
        'fairlead_arbitrator_dominant_share{namespace="a"} 0.25',
        'fairlead_arbitrator_overused{namespace="a"} 1',
        'fairlead_arbitrator_cycle_duration_seconds_bucket{le="0.001"} 1',
        "fairlead_arbitrator_cycle_duration_seconds_count 2",
    ):
        assert line in lines
    assert not any("gone" in line for line in lines)


def test_evictions_and_proposals_are_counted() -> None:
    metrics = ArbitratorMetrics()
    metrics.proposed("a")
    metrics.evicted("a", "evicted")
    metrics.evicted("a", "evicted")
    metrics.evicted("a", "blocked")
    lines = exposed(metrics)
    assert 'fairlead_arbitrator_reclaim_proposals_total{namespace="a"} 1' in lines
    assert 'fairlead_arbitrator_evictions_total{namespace="a",result="evicted"} 2' in lines
    assert 'fairlead_arbitrator_evictions_total{namespace="a",result="blocked"} 1' in lines


def test_nothing_is_told_of_namespaces_before_the_first_cycle() -> None:
    assert not any("namespace=" in line for line in exposed(ArbitratorMetrics()))
