"""The eviction loop over time (S3-35 to S3-44, S3-55, S3-59 to S3-70, S3-79 to S3-82)."""

from __future__ import annotations

from typing import Any

from fairlead.golang.durations import parse_seconds
from fairlead.node.admission import pressure_refusal
from fairlead.node.configuration.load import configure
from fairlead.node.eviction.manager import Eviction, EvictionInputs, EvictionState, PassOutcome, eviction_pass
from fairlead.node.eviction.messages import THRESHOLD_MET, attempting_to_reclaim
from fairlead.node.eviction.reclaim import Reclaim
from fairlead.node.eviction.settings import eviction_settings
from fairlead.node.eviction.signals import FileSystems
from fairlead.node.eviction.thresholds import Threshold
from tests.node.eviction import candidates, node_stats, pod_usages
from tests.node.golden import Row, expected, normalised, rows


class Run:
    """A row that is replayed pass by pass: what is observed stays in force until it is changed."""

    def __init__(self, row: Row) -> None:
        self.row = row
        isolation = f"--local-storage-capacity-isolation={row.get('localStorageCapacityIsolation', True)}"
        configured = configure(row.get("config"), [*row.get("flags", ()), isolation])
        self.settings = eviction_settings(configured.configuration)
        self.state = EvictionState()
        self.pods = candidates(row["pods"])
        self.available: Row = {}
        self.usage: Row = {}
        self.measured_at = 0.0

    def step(self, observed: Row) -> Row:
        now = parse_seconds(observed["at"])
        self.available |= observed.get("available", {})
        self.usage |= observed.get("usage", {})
        if not observed.get("staleStats"):
            self.measured_at = now
        reclaimed: list[Reclaim] = []
        outcome = self._outcome(observed, now, reclaimed)
        self.state = outcome.state
        gone = {eviction.candidate.uid for eviction in outcome.evictions}
        self.pods = [each for each in self.pods if each.uid not in gone]
        return self._told(observed, outcome, reclaimed)

    def _outcome(self, observed: Row, now: float, reclaimed: list[Reclaim]) -> PassOutcome:
        node = EvictionInputs.of_pods(FileSystems(self.row["filesystems"]), self.pods, pod_usages(self.usage))
        going = eviction_pass(self.settings, self.state, self._stats(), node, now)
        try:
            for action in (wanted := next(going)):
                reclaimed.append(action)
                self.available |= observed.get("afterReclaim", {}).get(action, {})
            going.send(self._stats())
        except StopIteration as end:
            outcome: PassOutcome = end.value
            return outcome
        raise AssertionError(f"a pass that has reclaimed {wanted} wants more")

    def _stats(self) -> Any:
        return node_stats(self.row["capacity"], self.available, self.measured_at)

    def _told(self, observed: Row, outcome: PassOutcome, reclaimed: list[Reclaim]) -> Row:
        state, resource = outcome.state, outcome.starved_resource
        found: Row = {
            "at": observed["at"],
            "conditions": sorted(state.conditions),
            "thresholdsMet": sorted(map(_written, state.first_met)),
            "thresholdsPastGrace": sorted(map(_written, state.past_grace)),
            "nodeReclaim": list(map(str, reclaimed)),
            "evicted": list(map(_evicted, outcome.evictions)),
            "nodeEvents": [_node_event(resource)] if resource else [],
        }
        if "admit" in observed:
            found["admit"] = {each["metadata"]["name"]: self._admitted(each) for each in observed["admit"]}
        return found

    def _admitted(self, manifest: Row) -> Row:
        refusal = pressure_refusal(manifest, self.state.conditions)
        if refusal is None:
            return {"admit": True}
        return {"admit": False, "reason": refusal.reason, "message": refusal.message}


def _written(threshold: Threshold) -> str:
    return f"{threshold.signal} {'hard' if threshold.is_hard else 'soft'}"


def _evicted(eviction: Eviction) -> Row:
    found = {"pod": eviction.candidate.name, **eviction.status(), "gracePeriodSeconds": eviction.grace_seconds}
    if (condition := eviction.condition()) is not None:
        assert condition.pop("message") == eviction.message
        found["condition"] = condition
    return found | ({"eventAnnotations": dict(eviction.annotations)} if eviction.annotations else {})


def _node_event(resource: str) -> Row:
    message = attempting_to_reclaim(resource)
    return {"object": "node/node-1", "type": "Warning", "reason": THRESHOLD_MET, "message": message}


@rows("eviction_run")
def test_the_loop_runs_as_recorded(row: Row) -> None:
    run = Run(row)
    answer = [run.step(observed) for observed in row["passes"]]
    assert normalised(answer) in expected(row)
