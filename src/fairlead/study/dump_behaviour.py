"""What a dump shows of how its pods and nodes behave, they go on doing.

Simulated containers start well and run for ever unless they are told otherwise. So a dump in which pods crash, wait for
an image or are not ready would heal as soon as it is played, jobs that run would be over at once, nodes that are silent
would come back, and autoscalers would follow figures that nobody measured. What is seen is therefore declared, in the
words of docs/simulated-nodes.md and docs/usage.md; what somebody has declared already counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from fairlead.api.binding import PROVISIONED_BY, PROVISIONERS
from fairlead.api.objects import Obj, metadata
from fairlead.api.quantity import QuantityError, parse
from fairlead.node.restarts import CRASH_LOOP
from fairlead.sim.behaviour import EXIT_CODE, FOREVER, LIFETIME_SECONDS, PULL_ERROR, START_SECONDS, UNREADY
from fairlead.sim.manifests import is_node, latest_date
from fairlead.sim.nodes import FAILED
from fairlead.sim.usage.objects import GROUP, USAGE_PROFILES, VERSION
from fairlead.sim.volumes import SIMULATED
from fairlead.study.reading import controller_of, key_of, mapping_at, mappings, moment

#: Why a container waits whose image is not to be had.
_NO_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName"})
#: Why it waits while its pod is only begun.
_NOT_MADE: Final = frozenset({"ContainerCreating", "PodInitializing"})
#: What has waited for so long in the dump goes on waiting; before that it may just be starting.
_LONG_SECONDS: Final = 600.0
_MEASURES: Final = frozenset({"cpu", "memory"})


def declared(objects: Sequence[Obj], taken: float | None = None) -> list[Obj]:
    """Declare it in the objects themselves; returns those that are needed besides. `taken` is when the dump was."""
    taken = taken or latest_date(objects) or 0.0
    lifetimes, idle_classes = _lifetimes(objects), _classes_without_volumes(objects)
    for obj in objects:
        match obj["kind"]:
            case "Pod":
                _declare(obj, _of_pod(obj, lifetimes, taken))
            case "Node" if is_node(obj) and _ready_status(obj) in ("False", "Unknown"):
                _declare(obj, {FAILED: "true"})
                # no kubelet of ours, until somebody switches it on again
                mapping_at(obj, "status").pop("nodeInfo", None)
            case "StorageClass" if metadata(obj).get("name") not in idle_classes:
                _declare(obj, {SIMULATED: "true"})
            case "CronJob" if (seconds := lifetimes.get(key_of(obj))) is not None:
                _declare_template(mapping_at(obj, "spec", "jobTemplate"), seconds)
            case "Job" if (seconds := lifetimes.get(key_of(obj))) is not None:
                _declare_template(obj, seconds)
    return list(_profiles(objects))


# -- pods


def _of_pod(pod: Obj, lifetimes: Mapping[str, float], taken: float) -> dict[str, str]:
    status = mapping_at(pod, "status")
    if status.get("phase") not in ("Running", "Pending"):
        return {}
    found: dict[str, str] = {}
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in mappings(status.get(field)):
            found |= {f"{container.get('name')}.{name}": value for name, value in _of_container(container).items()}
    found |= _never_ends(pod, taken) or _never_begins(pod, taken)
    if (seconds := lifetimes.get(_owner(pod, "Job"))) is not None:
        found.setdefault(LIFETIME_SECONDS, _text(seconds))
    return found


def _never_ends(pod: Obj, taken: float) -> dict[str, str]:
    """Init containers that wait for something which has not come for long."""
    sidecars = {
        container.get("name")
        for container in mappings(mapping_at(pod, "spec").get("initContainers"))
        if container.get("restartPolicy") == "Always"
    }
    return {
        f"{container['name']}.{LIFETIME_SECONDS}": FOREVER
        for container in mappings(mapping_at(pod, "status").get("initContainerStatuses"))
        if _is_long_ago(mapping_at(container, "state", "running").get("startedAt"), taken)
        and container.get("name") not in sidecars
    }


def _never_begins(pod: Obj, taken: float) -> dict[str, str]:
    """A pod that a node has had for long, and of which no container was made: its network, or a volume that is not for
    us to know. What its claims wait for is.
    """
    spec, status = mapping_at(pod, "spec"), mapping_at(pod, "status")
    volumes = mappings(spec.get("volumes"))
    states = [*mappings(status.get("initContainerStatuses")), *mappings(status.get("containerStatuses"))]
    reasons = {mapping_at(container, "state", "waiting").get("reason") for container in states}
    is_new = all(not container.get("restartCount") for container in states) and reasons <= _NOT_MADE
    has_claims = any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes)
    if spec.get("nodeName") and is_new and not has_claims and _is_long_ago(status.get("startTime"), taken):
        return {START_SECONDS: FOREVER}
    return {}


def _is_long_ago(text: object, taken: float) -> bool:
    return 0 < moment(text) < taken - _LONG_SECONDS


def _of_container(status: Obj) -> dict[str, str]:
    """What it does again and again; nothing if it is well."""
    state = mapping_at(status, "state")
    reason = mapping_at(state, "waiting").get("reason")
    if reason in _NO_IMAGE:
        return {PULL_ERROR: "true"}
    if reason == CRASH_LOOP and (ended := mapping_at(status, "lastState", "terminated")):
        seconds = max(moment(ended.get("finishedAt")) - moment(ended.get("startedAt")), 0.0)
        return {LIFETIME_SECONDS: _text(seconds), EXIT_CODE: str(ended.get("exitCode", 1))}
    if "running" in state and status.get("started") and status.get("ready") is False:
        return {UNREADY: "true"}
    return {}


def _lifetimes(objects: Iterable[Obj]) -> dict[str, float]:
    """How long pods of jobs live, by CronJob and by Job: as its earlier jobs took, or for ever (infinity) where that is
    not known and some run. So do those that replace them, or wait beside them.
    """
    took: dict[str, list[float]] = defaultdict(list)
    jobs: dict[str, str] = {}  # by job: its CronJob
    running: set[str] = set()  # jobs
    for obj in objects:
        if obj["kind"] == "Pod" and mapping_at(obj, "status").get("phase") == "Running":
            running.add(_owner(obj, "Job"))
        elif obj["kind"] == "Job" and (cron_job := _owner(obj, "CronJob")):
            jobs[key_of(obj)] = cron_job
            status = mapping_at(obj, "status")
            if end := moment(status.get("completionTime")):
                took[cron_job].append(max(end - moment(status.get("startTime")), 0.0))
    known = {cron_job: median(seconds) for cron_job, seconds in took.items()}
    of_jobs = {job: known[cron_job] for job, cron_job in jobs.items() if cron_job in known}
    return known | dict.fromkeys(running - {""}, math.inf) | of_jobs


def _declare_template(job: Obj, seconds: float) -> None:
    template = mapping_at(job, "spec", "template")
    if template:
        _declare(template, {LIFETIME_SECONDS: _text(seconds)})


# -- storage


def _classes_without_volumes(objects: Iterable[Obj]) -> set[str]:
    """The classes whose provisioner makes none, as it seems: claims wait for it, and none has got a volume."""
    waiting: set[str] = set()
    served: set[str] = set()
    for obj in objects:
        spec, annotations = mapping_at(obj, "spec"), mapping_at(obj, "metadata", "annotations")
        if obj["kind"] == "PersistentVolume" and PROVISIONED_BY in annotations:
            served.add(str(spec.get("storageClassName")))
        elif obj["kind"] == "PersistentVolumeClaim" and not spec.get("volumeName") and PROVISIONERS[-1] in annotations:
            waiting.add(str(spec.get("storageClassName")))
    return waiting - served


# -- autoscalers


def _profiles(objects: Iterable[Obj]) -> Iterator[Obj]:
    """What the pods of autoscalers use: as these saw it last, else what they aim at, so that they rest.

    One for each target that declares nothing: without it every container would use half of what it requests.
    """
    selectors: dict[str, Any] = {}
    containers: dict[str, int] = {}
    autoscalers = []
    for obj in objects:
        if obj["kind"] == "HorizontalPodAutoscaler":
            autoscalers.append(obj)
        elif obj["kind"] in ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"):
            selectors[key_of(obj)] = mapping_at(obj, "spec").get("selector")
            containers[key_of(obj)] = len(mappings(mapping_at(obj, "spec", "template", "spec").get("containers")))
    for autoscaler in autoscalers:
        target = mapping_at(autoscaler, "spec", "scaleTargetRef")
        namespace = str(metadata(autoscaler).get("namespace", "default"))
        key = f"{target.get('kind')} {namespace}/{target.get('name')}"
        usage = _usage(autoscaler, max(containers.get(key, 1), 1))
        selector = selectors.get(key)
        if usage and isinstance(selector, dict):
            if not {"matchLabels", "matchExpressions"} & selector.keys():
                selector = {"matchLabels": selector}  # of a ReplicationController
            yield {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": USAGE_PROFILES.kind,
                "metadata": {"name": f"hpa-{metadata(autoscaler).get('name')}", "namespace": namespace},
                "spec": {"selector": selector, "usage": usage},
            }


def _usage(autoscaler: Obj, containers: int) -> dict[str, str]:
    spec, status = mapping_at(autoscaler, "spec"), mapping_at(autoscaler, "status")
    found: dict[str, str] = {}
    if (aim := spec.get("targetCPUUtilizationPercentage")) is not None:  # autoscaling/v1
        found["cpu"] = f"{status.get('currentCPUUtilizationPercentage') or aim}%"
    seen = {
        resource["name"]: mapping_at(resource, "current")
        for metric in mappings(status.get("currentMetrics"))
        if (resource := mapping_at(metric, "resource")).get("name") in _MEASURES
    }
    for metric in mappings(spec.get("metrics")):
        resource = mapping_at(metric, "resource")
        if (name := resource.get("name")) in _MEASURES:
            figures = seen.get(name) or mapping_at(resource, "target")
            if (percent := figures.get("averageUtilization")) is not None:
                found[name] = f"{percent}%"
            elif amount := _part(figures.get("averageValue"), containers):
                found[name] = amount
    return found


def _part(amount: object, containers: int) -> str:
    """A container's part of what its pod uses."""
    try:
        return f"{max(parse(str(amount)).milli // containers, 1)}m" if amount is not None else ""
    except QuantityError:
        return ""


# -- reading what may be malformed


def _declare(obj: Obj, annotations: Mapping[str, str]) -> None:
    if annotations:
        meta = metadata(obj)
        meta["annotations"] = {**annotations, **(meta.get("annotations") or {})}


def _ready_status(node: Obj) -> str:
    conditions = mappings(mapping_at(node, "status").get("conditions"))
    return next((str(each.get("status")) for each in conditions if each.get("type") == "Ready"), "")


def _owner(obj: Obj, kind: str) -> str:
    """The key of its controller, if it is of that kind."""
    owner = controller_of(obj)
    return (
        f"{kind} {metadata(obj).get('namespace', 'default')}/{owner.get('name')}" if owner.get("kind") == kind else ""
    )


def _text(seconds: float) -> str:
    return FOREVER if math.isinf(seconds) else f"{seconds:g}"
