"""A reclaim plan lets others have turns between two trials of a placement, and what they change meanwhile counts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.objects import PolicySpec, default_consumer
from fairlead.arbitrator.outcomes import Division, ShareOutcome
from fairlead.arbitrator.reclaim import ReclaimPlan, plan_reclaim
from fairlead.arbitrator.reclaimable import ReclaimInputs
from fairlead.arbitrator.trials import Trials
from fairlead.runtime import loops, turns
from tests.turns import counting_turns

WAITING = [f"w{number}" for number in range(4)]
CAPACITY = 8000


@pytest.fixture(autouse=True)
def a_turn_per_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)


def pod(namespace: str, name: str, node: str = "") -> Pod:
    meta = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return encoded({"metadata": meta, "spec": {"containers": containers, "nodeName": node}}).view(Pod)


class World:
    """Pods of `b` have all of the cluster; those of `a` wait for what they deserve. One fits where one has gone."""

    def __init__(self) -> None:
        self.accounting = Accounting()
        self.pods = {name: pod("a", name) for name in WAITING}
        self.pods |= {name: pod("b", name, "n") for name in (f"h{number}" for number in range(8))}
        for each in self.pods.values():
            self.accounting.pod_event(None, each)
        self.trials = 0

    def remove(self, name: str) -> None:
        self.accounting.pod_event(self.pods.pop(name), None)

    def fits(self, pod: Pod, without: Sequence[Pod], beside: Sequence[tuple[Pod, str]]) -> str:
        self.trials += 1
        return "n" if len(without) > len(beside) else ""

    async def plan(self) -> ReclaimPlan:
        half, everything = {"cpu": CAPACITY // 2}, {"cpu": CAPACITY}
        wanting = ShareOutcome(request=half, deserved=half, used={}, staying={})
        overused = ShareOutcome(request=everything, deserved=half, used=everything, staying=everything)
        inputs = ReclaimInputs(
            Division(everything, {"a": wanting, "b": overused}, {}),
            {name: default_consumer(name) for name in "ab"},
            PolicySpec(),
            self.accounting,
            lambda namespace: [each for each in self.pods.values() if each.metadata.namespace == namespace],
            lambda namespace: [self.pods[name] for name in WAITING if name in self.pods and namespace == "a"],
            lambda _: [each for each in self.pods.values() if each.spec.node_name],
            lambda _: [],
        )
        return await plan_reclaim(inputs, self, Trials(self.accounting.vector, lambda *_: None))


def test_others_have_a_turn_after_each_trial() -> None:
    world = World()
    found, count = loops.run(counting_turns(world.plan()))
    assert len(found.victims) == len(WAITING)
    assert count >= world.trials > len(WAITING)


def test_nobody_goes_for_a_pod_that_has_gone_meanwhile() -> None:
    async def story() -> ReclaimPlan:
        world = World()
        planning = asyncio.create_task(world.plan())
        await asyncio.sleep(0)
        for name in WAITING[:-1]:
            world.remove(name)
        return await planning

    found = loops.run(story())
    assert {beneficiary.metadata.name for beneficiary, _ in found.for_whom.values()} == {WAITING[-1]}


def test_others_have_turns_while_many_pods_are_looked_at_that_need_no_help() -> None:
    """Ten thousand of them, for which no placement is tried, were one turn of 0.2 s."""

    class Fresh(World):
        """Its pods have just come, and there is room for all of them."""

        def __init__(self) -> None:
            self.accounting = Accounting()
            self.trials = 0
            self.pods = {}
            for number in range(40):
                each = pod("a", f"w{number}")
                meta = replace(each.metadata, creation_timestamp="2999-01-01T00:00:00Z")
                self.pods[f"w{number}"] = replace(each, metadata=meta)
                self.accounting.pod_event(None, self.pods[f"w{number}"])

        async def plan(self) -> ReclaimPlan:
            all_ = {"cpu": 100_000}
            wanting = ShareOutcome(request=all_, deserved=all_, used={}, staying={})
            waiting = list(self.pods.values())
            inputs = ReclaimInputs(
                Division(all_, {"a": wanting}, {}),
                {"a": default_consumer("a")},
                PolicySpec(),
                self.accounting,
                lambda _: waiting,
                lambda _: waiting,
                lambda _: [],
                lambda _: [],
            )
            return await plan_reclaim(inputs, self, Trials(self.accounting.vector, lambda *_: None))

    world = Fresh()
    found, count = loops.run(counting_turns(world.plan()))
    assert (found.victims, world.trials) == ([], 0)
    assert count >= len(world.pods)
