"""An autoscaler with thousands of metrics holds up nobody, and asks once for what its pods use."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from fairlead.api.autoscaling import HorizontalPodAutoscaler
from fairlead.controllers.actions import Actions, GiveWay
from fairlead.controllers.base import World
from fairlead.controllers.horizontal import HorizontalPodAutoscalers
from fairlead.node.stats.measurements import PodsUse
from tests.controllers.cluster import Cluster, run
from tests.controllers.horizontal.autoscaled import Agents, cpu_metric, create_workload, serve, status_of

_MANY = 1000


class Watched(HorizontalPodAutoscalers):
    """Counts what it does in one go."""

    longest = 0

    def reconcile(self, obj: HorizontalPodAutoscaler, world: World) -> Actions:
        steps, outcome, count = super().reconcile(obj, world), None, 0
        while True:
            try:
                action = steps.send(outcome)
            except StopIteration:
                return
            count = 0 if isinstance(action, GiveWay) else count + 1
            Watched.longest = max(Watched.longest, count)
            outcome = yield action


class Counted(Agents):
    asked = 0

    async def pods_use(self, node: str, uids: Collection[str]) -> PodsUse:
        self.asked += 1
        return await super().pods_use(node, uids)


def test_metrics_that_nobody_serves_are_told_of_in_many_turns() -> None:
    """Each of 8,000 has an event: a turn of 0.4 s."""

    async def story(cluster: Cluster) -> None:
        target = {"type": "Value", "value": "1"}
        metrics = [{"external": {"metric": {"name": f"m{number}"}, "target": target}} for number in range(_MANY)]
        await create_workload(cluster, 1, metrics=[{"type": "External"} | metric for metric in metrics])
        await asyncio.sleep(17)
        _, conditions = await status_of(cluster)
        assert conditions["ScalingActive"][:2] == ("False", "FailedGetExternalMetric")
        assert 0 < Watched.longest < _MANY / 2

    run(story, Watched)


def test_what_pods_use_is_asked_once_for_all_metrics() -> None:
    async def story(cluster: Cluster) -> None:
        await create_workload(cluster, 2, metrics=[cpu_metric(50 + number) for number in range(20)])
        agents = Counted(cluster)
        serve(cluster, agents)
        agents.milli |= {"web-0": 50, "web-1": 50}
        await asyncio.sleep(17)
        status, _ = await status_of(cluster)
        assert len(status["currentMetrics"]) == 20
        assert agents.asked == 1

    run(story, HorizontalPodAutoscalers)
