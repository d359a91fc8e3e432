"""What makes pods: replicated kinds, jobs, and the templates and revisions they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead.api import conditions, selectors
from fairlead.runtime.clock import parse_timestamp
from fairlead.server.tables.base import AGE, NAME, Column, Subject, containers, count, field, printer
from fairlead.server.tables.text import NONE, human_duration, labels_text, yes_or_no

_TEMPLATE: Final = ("spec", "template")


def _number(name: str, description: str, *path: str) -> Column:
    return Column(name, field(*path, default=0), description, type="integer")


def _ratio(name: str, description: str, done: str, target: str) -> Column:
    """How many of the replicas that the spec wants have come so far."""
    return Column(name, lambda it: f"{it.status.get(done) or 0}/{it.spec.get(target) or 0}", description)


def _selector(value: Callable[[Subject], str]) -> Column:
    return Column("Selector", value, "Which pods belong to it.", priority=1)


_STRUCTURED_SELECTOR: Final = _selector(lambda it: selectors.shown(it.spec.get("selector")))

#: What a ReplicationController and a ReplicaSet show alike.
_REPLICATED: Final = (
    NAME,
    _number("Desired", "How many pods there should be.", "spec", "replicas"),
    _number("Current", "How many pods there are.", "status", "replicas"),
    _number("Ready", "How many of them are ready.", "status", "readyReplicas"),
    AGE,
    *containers(*_TEMPLATE),
)

REPLICATION_CONTROLLERS: Final = printer(
    *_REPLICATED,
    _selector(lambda it: labels_text(it.spec.get("selector"))),
)

REPLICA_SETS: Final = printer(
    *_REPLICATED,
    _STRUCTURED_SELECTOR,
)


def _deployment_selector(it: Subject) -> str:
    try:
        return str(selectors.of_structured(it.spec.get("selector")))
    except selectors.SelectorError:
        return "<invalid>"


DEPLOYMENTS: Final = printer(
    NAME,
    _ratio("Ready", "Ready pods out of those wanted.", "readyReplicas", "replicas"),
    Column("Up-to-date", field("status", "updatedReplicas", default=0), "Pods of the newest template."),
    Column("Available", field("status", "availableReplicas", default=0), "Pods that have been ready long enough."),
    AGE,
    *containers(*_TEMPLATE),
    _selector(_deployment_selector),
)

STATEFUL_SETS: Final = printer(
    NAME,
    _ratio("Ready", "Ready pods out of those wanted.", "readyReplicas", "replicas"),
    AGE,
    *containers(*_TEMPLATE),
)

_NODE_SELECTOR: Final = field(*_TEMPLATE, "spec", "nodeSelector", default=None)

DAEMON_SETS: Final = printer(
    NAME,
    _number("Desired", "On how many nodes it should run.", "status", "desiredNumberScheduled"),
    _number("Current", "On how many of them it has a pod.", "status", "currentNumberScheduled"),
    _number("Ready", "On how many a pod is ready.", "status", "numberReady"),
    _number("Up-to-date", "On how many the pod is of the newest template.", "status", "updatedNumberScheduled"),
    _number("Available", "On how many a pod has been ready long enough.", "status", "numberAvailable"),
    Column(
        "Node Selector",
        lambda it: labels_text(_NODE_SELECTOR(it)),
        "Labels of the nodes on which its pods may run.",
    ),
    AGE,
    *containers(*_TEMPLATE),
    _STRUCTURED_SELECTOR,
)

#: What a job is, by the first of its conditions that holds; a deleted job is Terminating unless it is over.
_JOB_IS_OVER: Final = ("Complete", "Failed")
_JOB_IS_HELD_UP: Final = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job_status(job: Subject) -> str:
    found = job.status.get("conditions")
    for kind in _JOB_IS_OVER:
        if conditions.is_true(found, kind):
            return kind
    if job.is_deleted:
        return "Terminating"
    return next((kind for kind in _JOB_IS_HELD_UP if conditions.is_true(found, kind)), "Running")


def _completions(job: Subject) -> str:
    succeeded, completions = job.status.get("succeeded") or 0, job.spec.get("completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = job.spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Subject) -> str:
    start, end = job.status.get("startTime"), job.status.get("completionTime")
    if not start:
        return ""
    return human_duration((parse_timestamp(end) if end else job.now) - parse_timestamp(start))


JOBS: Final = printer(
    NAME,
    Column("Status", _job_status, "How far it is."),
    Column("Completions", _completions, "Pods that succeeded, out of those wanted."),
    Column("Duration", _duration, "How long it ran, or has been running."),
    AGE,
    *containers(*_TEMPLATE),
    _STRUCTURED_SELECTOR,
)


def _last_schedule(cron_job: Subject) -> str:
    last = cron_job.status.get("lastScheduleTime")
    return cron_job.since(last) if last else NONE


_JOB_SELECTOR: Final = field("spec", "jobTemplate", "spec", "selector", default=None)

CRON_JOBS: Final = printer(
    NAME,
    Column("Schedule", field("spec", "schedule"), "When it makes a job, in the format of cron."),
    Column("Timezone", field("spec", "timeZone", default=NONE), "Time zone of the schedule."),
    Column("Suspend", lambda it: yes_or_no(it.spec.get("suspend")), "Whether it pauses.", type="boolean"),
    Column("Active", count("status", "active"), "How many of its jobs are running.", type="integer"),
    Column("Last Schedule", _last_schedule, "Time since it last made a job."),
    AGE,
    *containers("spec", "jobTemplate", "spec", "template"),
    _selector(lambda it: selectors.shown(_JOB_SELECTOR(it))),
)

_POD_LABELS: Final = field("template", "metadata", "labels", default=None)

POD_TEMPLATES: Final = printer(
    NAME,
    *containers("template", priority=0),
    Column(
        "Pod Labels",
        lambda it: labels_text(_POD_LABELS(it)),
        "Labels of the pods made from it.",
    ),
)


def _controller(revision: Subject) -> str:
    for owner in revision.metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = f"{owner['kind']}.{group}" if group else owner["kind"]
            return f"{kind.lower()}/{owner['name']}"
    return NONE


CONTROLLER_REVISIONS: Final = printer(
    NAME,
    Column("Controller", _controller, "Whose history it belongs to."),
    Column("Revision", field("revision", default=0), "Its number in that history."),
    AGE,
)

#: What `kubectl get --subresource=scale` shows.
SCALES: Final = printer(
    Column("Name", NAME.value, NAME.description),
    _number("Desired", "How many replicas there should be.", "spec", "replicas"),
    _number("Available", "How many replicas there are.", "status", "replicas"),
    AGE,
)
