"""A kept run for tests: three pods, one of which is lost with its node after an hour, and one that never fits."""

from __future__ import annotations

from msgspec.structs import replace

from fairlead.sim.histories import LOST, Disruption, PodHistory
from fairlead.study.changes.changed_cluster import HeldUp
from fairlead.study.outcome import Came, Fairness, GoneWorkload, Outcome, Shortfall, StepDone, waits_of
from fairlead.study.records import Run

BEGAN = 1_767_225_600.0
HOUR = 3600.0


def kept_run(hostile: str = "") -> Run:
    """With `hostile` as the scheduler's message about the pod that waits."""
    return Run(1, [_outcome("before", hostile), _outcome("after", hostile, is_lost=True)])


def troubled_run(team: str = "team") -> Run:
    """In which a drain does not end, a workload of that team is deleted, and a quota lets fewer pods come."""
    run = kept_run()
    run.outcomes[0] = replace(run.outcomes[0], came=[Came("shop", "CronJob/night", 4)])
    run.outcomes[1] = replace(
        run.outcomes[1],
        steps=[StepDone(BEGAN + HOUR, "drain node-1", has_ended=False)],
        held_up=[HeldUp("shop/web", 100, "node-1", "The disruption budget web needs 1 healthy pod")],
        gone=[GoneWorkload(team, "Deployment/etl", 2, BEGAN + HOUR)],
        came=[Came("shop", "CronJob/night", 1)],
        shortfalls=[Shortfall("shop", "Job/night-1", "exceeded quota: cap", "CronJob/night")],
    )
    return run


def _outcome(name: str, hostile: str, *, is_lost: bool = False) -> Outcome:
    end = BEGAN + 2 * HOUR
    web = PodHistory("shop/web", "shop/web", "u1", 100, BEGAN, bound=BEGAN + 5, node="node-1")
    late = PodHistory("shop/late", "shop/late", "u2", 0, BEGAN + HOUR, bound=BEGAN + HOUR + 60, node="node-2")
    large = PodHistory("team/large", "team/large", "u3", 0, BEGAN, waits_for=hostile or "3 Insufficient cpu.")
    if is_lost:
        web.ended = BEGAN + HOUR
        web.disruptions = [Disruption(BEGAN + HOUR, LOST, "PodGC: node no longer exists", "remove node node-1")]
    pods = [web, late, large]
    part = 0.4 if is_lost else 0.5
    return Outcome(
        name,
        BEGAN,
        end,
        {"digest": name, "utilisation": {"cpu": {"overTime": [0.5, part]}}},
        pods,
        placed=2,
        waiting=1,
        waits=waits_of(pods, end),
        disruptions={LOST: 1} if is_lost else {},
        oom_kills=0,
        steps=[StepDone(BEGAN + HOUR, "remove node node-1")] if is_lost else [],
        fairness=[Fairness("shop", 0.5, 0.25, [0.4, 0.6], [0.2, 0.3])],
    )
