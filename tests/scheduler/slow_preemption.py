"""Whom preemption drives away, plainly: the whole choice in the words of S3-19 and S3-21."""

from __future__ import annotations

from dataclasses import dataclass

from tests.scheduler.slow_cluster import Obj, SlowCluster, priority, selects
from tests.scheduler.slow_scheduler import hopeless, lesser, reasons

NOT_YET = "9999-12-31T23:59:59Z"


@dataclass(frozen=True)
class SlowPlan:
    victims: list[Obj]
    violations: int

    def rank(self) -> tuple[int, int, int, int, int]:
        """The lower the better. The last: the later the longest running of the most important started, the better."""
        top = max(priority(victim) for victim in self.victims)
        earliest = min(started(victim) for victim in self.victims if priority(victim) == top)
        total = sum(priority(victim) + 2**31 for victim in self.victims)
        return self.violations, top, total, len(self.victims), -earliest


def started(pod: Obj) -> int:
    """The digits of the timestamp; a pod that has not started is the youngest."""
    return int("".join(filter(str.isdigit, pod["status"].get("startTime", NOT_YET))))


def plan(pod: Obj, name: str, cluster: SlowCluster, budgets: list[Obj]) -> SlowPlan | None:
    """All lesser pods leave, then come back one by one as long as the pod fits; None if nothing helps."""
    if hopeless(pod, name, cluster):
        return None
    victims = sorted(lesser(pod, cluster.nodes[name]), key=lambda victim: (-priority(victim), started(victim)))
    violating = violating_budgets(victims, budgets)
    violations = 0
    out = []
    state = cluster.without(name, victims)
    for victim in violating + [victim for victim in victims if victim not in violating]:
        with_him = state.beside(name, [victim])
        if not reasons(pod, name, with_him)[0]:
            state = with_him
            continue
        state = with_him.without(name, [victim])
        out.append(victim)
        violations += victim in violating
    return SlowPlan([victim for victim in victims if victim in out], violations)


def violating_budgets(victims: list[Obj], budgets: list[Obj]) -> list[Obj]:
    """Those whose leaving would break a budget if all left in this order."""
    found = []
    allowed = [budget["status"]["disruptionsAllowed"] for budget in budgets]
    for victim in victims:
        protecting = [index for index, budget in enumerate(budgets) if protects(budget, victim)]
        for index in protecting:
            allowed[index] -= 1
        if any(allowed[index] < 0 for index in protecting):
            found.append(victim)
    return found


def protects(budget: Obj, pod: Obj) -> bool:
    """An empty selector protects nobody (S3-106), no selector a pod without labels (default_preemption.go), and who was
    let go already is no longer protected."""
    selector = budget["spec"].get("selector")
    return (
        bool(pod["metadata"]["labels"])
        and budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and bool(selector)
        and selects(selector, pod["metadata"]["labels"])
        and pod["metadata"]["name"] not in budget["status"].get("disruptedPods", {})
    )


def plans(pod: Obj, cluster: SlowCluster, budgets: list[Obj]) -> dict[str, SlowPlan]:
    found = {name: plan(pod, name, cluster, budgets) for name in cluster.nodes}
    return {name: plan for name, plan in found.items() if plan is not None}


def best_plans(pod: Obj, cluster: SlowCluster, budgets: list[Obj]) -> dict[str, SlowPlan]:
    """The nodes among which the lot decides, with their victims."""
    found = plans(pod, cluster, budgets)
    best = min((plan.rank() for plan in found.values()), default=None)
    return {name: plan for name, plan in found.items() if plan.rank() == best}
