"""What came to the cluster by itself, as far as a dump still shows: Jobs and single pods, there or gone.

A Job or a pod that is there says it itself. One that is gone has left Events, if these are young enough: who made it,
when it started, when it was over; how large it was only others of its kind can tell.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from fairlead.api.objects import Obj, metadata
from fairlead.study.past.events import COMPLETED, CREATED, JOB_FAILED, KILLING, SCHEDULED, STARTED, Said
from fairlead.study.past.made import Makers, stem
from fairlead.study.past.templates import job_of_job, job_of_pod
from fairlead.study.reading import controller_of, mapping_at, mappings, moment, number_of


class Came(msgspec.Struct, frozen=True):
    """A Job or a pod that came once."""

    namespace: str
    #: Its name without what is its own: those of one stem are of a kind.
    stem: str
    at: float
    #: The spec of a Job that comes to the same; None: nobody knows any more.
    job: Obj | None
    #: How long each of its pods lived; None: that is not told.
    life: float | None
    is_running: bool
    has_failed: bool = False


class _Traces(msgspec.Struct):
    """What Events say of one that is gone."""

    times: dict[str, float] = msgspec.field(default_factory=dict)  # by reason

    def add(self, event: Said) -> None:
        if event.reason in (KILLING, COMPLETED, *JOB_FAILED):
            self.times[event.reason] = max(self.times.get(event.reason, 0.0), event.last)
        else:
            self.times[event.reason] = min(self.times.get(event.reason, math.inf), event.first)

    def first_of(self, *reasons: str) -> float:
        return next((self.times[reason] for reason in reasons if reason in self.times), 0.0)

    def life(self, begin: float, *ends: str) -> float | None:
        end = self.first_of(*ends)
        return max(end - begin, 0.0) if begin and end else None


def evidence_of(objects: Sequence[Obj], said: Sequence[Said]) -> list[Came]:
    """In no certain order. What controllers of the dump make again is left out."""
    makers = Makers(objects, said)
    return [*_there(objects, makers), *_gone(objects, said, makers)]


def _there(objects: Sequence[Obj], makers: Makers) -> Iterator[Came]:
    classes = {str(metadata(obj).get("name")) for obj in objects if obj["kind"] == "PriorityClass"}
    lives: dict[tuple[str, str], list[float]] = defaultdict(list)  # of pods, by namespace and Job
    for obj in objects:
        owner, life = controller_of(obj), _pod_life(obj) if obj["kind"] == "Pod" else None
        if owner.get("kind") == "Job" and life is not None:
            lives[str(metadata(obj).get("namespace", "default")), str(owner.get("name"))].append(life)
    for obj in objects:
        at = moment(metadata(obj).get("creationTimestamp"))
        if obj["kind"] not in ("Job", "Pod") or not at or makers.makes(obj):
            continue
        namespace, name = str(metadata(obj).get("namespace", "default")), str(metadata(obj).get("name"))
        status = mapping_at(obj, "status")
        if obj["kind"] == "Job":
            end, has_failed = _job_end(status)
            of_pods = lives.get((namespace, name))
            life = median(of_pods) if of_pods and end else _job_life(obj, end)
            yield Came(namespace, stem(name), at, job_of_job(obj, classes), life, not end, has_failed)
        else:
            life, is_over = _pod_life(obj), status.get("phase") in ("Succeeded", "Failed")
            has_failed = status.get("phase") == "Failed"
            yield Came(namespace, stem(name), at, job_of_pod(obj, classes), life, not is_over, has_failed)


def _gone(objects: Sequence[Obj], said: Sequence[Said], makers: Makers) -> Iterator[Came]:
    there = {
        (obj["kind"], str(metadata(obj).get("namespace", "default")), str(metadata(obj).get("name")))
        for obj in objects
        if obj["kind"] in ("Job", "Pod")
    }
    traces: dict[tuple[str, str, str], _Traces] = defaultdict(_Traces)
    for event in said:
        if (who := (event.kind, event.namespace, event.name)) not in there:
            traces[who].add(event)
    for (kind, namespace, name), seen in traces.items():
        if kind == "Job" and not makers.has_made_job(namespace, name) and (at := seen.first_of(CREATED)):
            life = seen.life(at, COMPLETED, *JOB_FAILED)
            has_failed = bool(seen.first_of(*JOB_FAILED))
            yield Came(namespace, stem(name), at, None, life, is_running=False, has_failed=has_failed)
        if kind == "Pod" and not makers.has_made_pod(namespace, name) and (at := seen.first_of(SCHEDULED, STARTED)):
            life = seen.life(seen.first_of(STARTED, SCHEDULED), KILLING)
            yield Came(namespace, stem(name), at, None, life, is_running=False)


def _pod_life(pod: Obj) -> float | None:
    """From the start of its first container to the end of its last; None while it runs."""
    ended = [
        mapping_at(container, "state", "terminated")
        for container in mappings(mapping_at(pod, "status").get("containerStatuses"))
    ]
    begins, ends = (
        [time for state in ended if (time := moment(state.get(name)))] for name in ("startedAt", "finishedAt")
    )
    return max(max(ends) - min(begins), 0.0) if ended and all(ended) and begins and ends else None


def _job_end(status: Obj) -> tuple[float, bool]:
    """When it was over (0: it is not), and whether it had failed."""
    for condition in mappings(status.get("conditions")):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            at = moment(status.get("completionTime")) or moment(condition.get("lastTransitionTime"))
            return at, condition["type"] == "Failed"
    return moment(status.get("completionTime")), False


def _job_life(job: Obj, end: float) -> float | None:
    """How long each of its pods lived, if as many as it may ran at a time."""
    spec, status = mapping_at(job, "spec"), mapping_at(job, "status")
    if not end:
        return None
    begin = moment(status.get("startTime")) or moment(metadata(job).get("creationTimestamp"))
    at_once = max(number_of(spec.get("parallelism"), 1), 1)
    rounds = math.ceil(number_of(spec.get("completions"), at_once) / at_once)
    return max(end - begin, 0.0) / max(rounds, number_of(status.get("failed"), 0), 1)
