"""What a dump lacks, and what in it does not fit together: said before a run, for it bounds what can be foretold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.kinds.scheduling import SYSTEM_PREFIX
from fairlead.node.start_requirements import ConfigSource
from fairlead.sim.config_sources import AssumedSources
from fairlead.sim.manifests import is_node
from fairlead.study.reading import mapping_at, mappings, pod_specs
from fairlead.wording import counted

#: What cannot be foretold where a dump has none of a kind, although the cluster may have some.
_FORETELLS: Final = {
    "Namespace": "labels of namespaces",
    "ResourceQuota": "refusals by quota",
    "LimitRange": "defaults and limits of new pods",
    "PodDisruptionBudget": "what budgets forbid",
    "PriorityClass": "the priority of new pods",
    "HorizontalPodAutoscaler": "scaling",
    "CronJob": "what comes by schedule",
}
#: What these make pods of.
_OWNERS: Final = frozenset(
    {"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "Deployment", "CronJob"}
)
#: Types of metrics that come from elsewhere than from the use of pods.
_FOREIGN_METRICS: Final = ("Pods", "Object", "External")
_MOST_NAMED: Final = 3
#: How a kubelet says that one of them is not there.
_SOURCES: Final = {"configmap": "ConfigMap", "secret": "Secret"}
_NOT_FOUND: Final = re.compile(r'(configmap|secret) "([^"]+)" not found')
#: Without which no claim of devices is allocated.
_OF_DEVICES: Final = ("DeviceClass", "ResourceSlice")


def assumed_sources(objects: Sequence[Obj]) -> AssumedSources:
    """Of ConfigMaps and Secrets, what a dump of a cluster has left out: its pods did start, so it was there; but for
    what is missed in it.
    """
    kinds = {obj["kind"] for obj in objects}
    if not {"Node", "Pod"} <= kinds:
        return AssumedSources()
    return AssumedSources(frozenset(_SOURCES.values()) - kinds, frozenset(_missed_sources(objects)))


def _missed_sources(objects: Sequence[Obj]) -> Iterator[tuple[str, ConfigSource]]:
    """By pods that do not start for lack of them."""
    waiting = {_key(obj): obj for obj in objects if obj["kind"] == "Pod" and _phase(obj) == "Pending"}
    texts: list[tuple[str, object]] = []  # with their namespaces
    for (namespace, _), pod in waiting.items():
        for field in ("initContainerStatuses", "containerStatuses"):
            for container in mappings(mapping_at(pod, "status").get(field)):
                texts.append((namespace, mapping_at(container, "state", "waiting").get("message")))
    for obj in objects if waiting else ():
        about = mapping_at(obj, "involvedObject") or mapping_at(obj, "regarding")
        key = str(about.get("namespace") or ""), str(about.get("name") or "")
        if obj["kind"] == "Event" and about.get("kind") == "Pod" and key in waiting:
            texts.append((key[0], obj.get("message") or obj.get("note")))
    for namespace, text in texts:
        for kind, name in _NOT_FOUND.findall(text) if isinstance(text, str) else ():
            yield namespace, ConfigSource(_SOURCES[kind], name)


def notes(objects: Sequence[Obj]) -> list[str]:
    """In lines of text, the weightiest first."""
    return [
        *_twice(objects),
        *_without_owner(objects),
        *_without_node(objects),
        *_with_devices(objects),
        *_without_class(objects),
        *_scaled_by_others(objects),
        *_lacking(objects),
    ]


def _twice(objects: Iterable[Obj]) -> Iterator[str]:
    counts = Counter((obj.get("apiVersion"), obj["kind"], *_key(obj)) for obj in objects)
    names = [f"{kind} {name}" for (_, kind, _, name), count in counts.items() if count > 1 and name]
    if names:
        yield f"{_some(names)} came twice: the first counts"


def _without_owner(objects: Sequence[Obj]) -> Iterator[str]:
    """What has lost its owner is collected as garbage, or made by nobody again."""
    there = {_meta(obj).get("uid") for obj in objects}
    missing = Counter(
        owner["kind"]
        for obj in objects
        for owner in _meta(obj).get("ownerReferences") or ()
        if isinstance(owner, dict) and owner.get("kind") in _OWNERS and owner.get("uid") not in there
    )
    for kind, count in sorted(missing.items()):
        belong = f"{counted(count, 'object')} belong{'s' if count == 1 else ''} to a {kind}"
        yield f"{belong} that is not in the dump: nobody makes {'it' if count == 1 else 'them'} anew"


def _without_node(objects: Sequence[Obj]) -> Iterator[str]:
    nodes = {_meta(obj).get("name") for obj in objects if is_node(obj)}
    lost = [
        "/".join(filter(None, _key(obj)))
        for obj in objects
        if obj["kind"] == "Pod" and (node := (obj.get("spec") or {}).get("nodeName")) and node not in nodes
    ]
    if lost and nodes:
        yield f"the node of {_some(lost)} is not in the dump: such pods are lost with it"


def _with_devices(objects: Sequence[Obj]) -> Iterator[str]:
    asking = sum(any(spec.get("resourceClaims") for spec in pod_specs(obj)) for obj in objects)
    kinds = {obj["kind"] for obj in objects}
    missing = [kind for kind in _OF_DEVICES if kind not in kinds]
    if asking and missing:
        asks = f"{counted(asking, 'object')} ask{'s' if asking == 1 else ''} for devices by resourceClaims"
        yield f"{asks}, and the dump has no {' and no '.join(missing)}: such pods wait where theirs are not there yet"


def _without_class(objects: Sequence[Obj]) -> Iterator[str]:
    """Classes of pods are made up where they lack (`registry/restore_classes.py`): that decides who preempts whom."""
    there = {_meta(obj).get("name") for obj in objects if obj["kind"] == "PriorityClass"}
    values: dict[str, int | None] = {}
    for obj in objects:
        for spec in pod_specs(obj):
            name, value = spec.get("priorityClassName"), spec.get("priority")
            if isinstance(name, str) and name not in there and not name.startswith(SYSTEM_PREFIX):
                values[name] = value if isinstance(value, int) else values.get(name)
    made_up = [f"{name} ({value or 0})" for name, value in sorted(values.items()) if name]
    if made_up:
        yield f"the PriorityClass {_some(made_up)} is not in the dump: its value is that of its pods, else 0"


def _scaled_by_others(objects: Iterable[Obj]) -> Iterator[str]:
    """Autoscalers follow cpu and memory; nothing in a run has other figures."""
    names = [
        "/".join(filter(None, _key(obj)))
        for obj in objects
        if obj["kind"] == "HorizontalPodAutoscaler"
        and any(metric.get("type") in _FOREIGN_METRICS for metric in mappings(mapping_at(obj, "spec").get("metrics")))
    ]
    if names:
        yield f"the autoscaler of {_some(names)} follows metrics that are not played ({', '.join(_FOREIGN_METRICS)})"


def _lacking(objects: Iterable[Obj]) -> Iterator[str]:
    kinds = {obj["kind"] for obj in objects}
    lacking = [f"{kind} ({what})" for kind, what in _FORETELLS.items() if kind not in kinds]
    if kinds and lacking:
        yield f"nothing in the dump of {', '.join(lacking)}: if the cluster has some, that cannot be foretold"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _key(obj: Obj) -> tuple[str, str]:
    meta = _meta(obj)
    return str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _phase(pod: Obj) -> object:
    return mapping_at(pod, "status").get("phase")


def _meta(obj: Obj) -> dict[str, Any]:
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}
