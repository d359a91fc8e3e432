"""Volcano: queues become groups; a namespace belongs to the queue that most of its pod groups name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from fairlead.api.objects import Obj
from fairlead.study.queues.mapped import Mapped, amounts, group_name
from fairlead.study.reading import mapping_at, number_of
from fairlead.wording import counted

GROUP: Final = "scheduling.volcano.sh"
_UNMAPPED: Final = ("affinity", "dequeueStrategy", "extendClusters", "priority", "type")
_DEFAULT: Final = "default"


def mapped(objects: Sequence[Obj]) -> Mapped:
    found = Mapped()
    queues = {
        str(name): mapping_at(obj, "spec")
        for obj in objects
        if obj["kind"] == "Queue" and (name := mapping_at(obj, "metadata").get("name"))
    }
    closed = {
        str(mapping_at(obj, "metadata").get("name"))
        for obj in objects
        if obj["kind"] == "Queue" and mapping_at(obj, "status").get("state") in ("Closed", "Closing")
    }
    for name, spec in sorted(queues.items()):
        parent = str(spec.get("parent") or "")
        found.group(
            f"queue-{name}",
            weight=number_of(spec.get("weight"), 1) or 1,
            parent=group_name(f"queue-{parent}") if parent in queues else "",
            reserved=amounts(mapping_at(spec, "guarantee", "resource")),
            hard=amounts(mapping_at(spec, "capability")),
        )
        lacking = set(spec) & set(_UNMAPPED)
        if spec.get("reclaimable") is False:
            lacking.add("reclaimable: false")
        if spec.get("deserved"):
            lacking.add("deserved (weights and guarantees decide)")
        if mapping_at(spec, "capability").get("pods") is not None:
            lacking.add("the quota of pods")
        found.lacks(f"Queue {name}", lacking)
        if name in closed:
            found.notes.append(f"Queue {name} is closed: that nothing new comes into it could not be mapped")
    named: dict[str, Counter[str]] = defaultdict(Counter)
    for obj in objects:
        if obj["kind"] == "PodGroup":
            queue = str(mapping_at(obj, "spec").get("queue") or _DEFAULT)
            named[str(mapping_at(obj, "metadata").get("namespace") or "default")][queue] += 1
    for namespace, counts in sorted(named.items()):
        queue, _ = min(counts.most_common(), key=lambda entry: (-entry[1], entry[0]))
        if len(counts) > 1:
            others = ", ".join(sorted(set(counts) - {queue}))
            found.notes.append(f"namespace {namespace}: its pod groups name {queue} and {others}; {queue} counts")
        if queue in queues:
            found.consumer(namespace, parent=group_name(f"queue-{queue}"))
        else:
            found.notes.append(f"namespace {namespace}: its queue {queue} is not in the dump")
    sizes = [mapping_at(obj, "spec").get("minMember") for obj in objects if obj["kind"] == "PodGroup"]
    gangs = sum(number_of(size, 1) > 1 for size in sizes)
    if gangs:
        found.notes.append(f"{counted(gangs, 'PodGroup')}: minMember could not be mapped: pods are placed one by one")
    return found
