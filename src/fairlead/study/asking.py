"""What a kept run says of one pod: its story, before and after a change."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.sim.durations import span
from fairlead.sim.histories import PodHistory
from fairlead.study.comparison import in_words, lost, missing, worse
from fairlead.study.outcome import AT_ONCE_SECONDS, Outcome
from fairlead.study.records import Run
from fairlead.study.tables import clock, fewer_pods, gone_since, not_evicted


class NotInRun(ValueError):
    """The run, or the variant of it that is asked, has nothing of that name."""


def story(run: Run, key: str, variant: str = "") -> list[str]:
    """In lines of text. Raises NotInRun."""
    names = [outcome.name for outcome in run.outcomes]
    if variant and variant not in names:
        raise NotInRun(f"{run.name} has no variant {variant!r}: there are {', '.join(names)}")
    asked = [outcome for outcome in run.outcomes if variant in ("", outcome.name)]
    lines: list[str] = []
    for outcome in asked:
        lines += _of_outcome(run, outcome, key)
        lines += _of_drains(outcome, key)
        lines += _of_workload(run, outcome, key)
    namespace = key.partition("/")[0]
    if not lines:
        if all(group.namespace != namespace for outcome in asked for group in outcome.waits):
            raise NotInRun(f"{run.name} has no pod in namespace {namespace!r}")
        return [
            f"{key}: {run.name} tells nothing of it: if there was a pod of that name, it waited for nothing, and was "
            "left alone"
        ]
    return lines


def _of_outcome(run: Run, outcome: Outcome, key: str) -> Iterator[str]:
    causes = {hurt.pod: hurt.causes for hurt in worse(run.before, outcome)} if outcome is not run.before else {}
    for pod in outcome.pods:
        if key not in (pod.pod, pod.lineage):
            continue
        yield f"{outcome.name}: {pod.pod} {_fate(pod, outcome)}"
        if pod.waits_for:
            yield f"  {pod.waits_for}"
        for disruption in pod.disruptions:
            yield f"  {clock(disruption.at, outcome)} {in_words(disruption)}"
        if pod.oom_kills > 1:
            yield f"  OOM-killed {pod.oom_kills} times"
        for cause in causes.get(pod.pod, ()):
            yield f"  {cause}"
        if pod.priority:
            yield f"  priority {pod.priority}"


def _of_drains(outcome: Outcome, key: str) -> Iterator[str]:
    for held in outcome.held_up:
        if held.pod == key:
            yield f"{outcome.name}: {not_evicted(held)}"


def _of_workload(run: Run, outcome: Outcome, key: str) -> Iterator[str]:
    """What is told of pods that did not come, where the workload is asked for, or its Job or ReplicaSet."""
    fewer = {(it.namespace, it.workload): fewer_pods(it) for it in missing(run.before, outcome)}
    for (namespace, workload), text in fewer.items():
        if key == f"{namespace}/{workload.rpartition('/')[2]}":
            yield f"{outcome.name}: {text}"
    for gone in lost(run.before, outcome):
        if key == f"{gone.namespace}/{gone.workload.rpartition('/')[2]}":
            yield f"{outcome.name}: {gone_since(gone, outcome)}"
    for short in outcome.shortfalls:
        names = {name.rpartition("/")[2] for name in (short.owner, short.workload)}
        if key in {f"{short.namespace}/{name}" for name in names}:
            yield f"{outcome.name}: {short.namespace}/{short.owner} could not create pods: {short.message}"


def _fate(pod: PodHistory, outcome: Outcome) -> str:
    waited = span(pod.waited(outcome.ended))
    if pod.is_waiting:
        return f"has waited {waited}, since {clock(pod.created, outcome)}"
    if pod.bound is None:
        return f"was never placed; it was gone after {waited}"
    where = f"was placed on {pod.node} after {waited}"
    if (without := pod.waited_for_volumes(outcome.ended)) >= AT_ONCE_SECONDS:
        where += f", waited {span(without)} for its volumes"
    if pod.ended is None:
        return f"{where}, and is there at the end"
    return f"{where}, and ended {clock(pod.ended, outcome)}" + (f" ({pod.phase})" if pod.phase else "")
