"""Which queues a dump has, and what they come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairlead.api.objects import Obj
from fairlead.study.queues import kueue, volcano, yunikorn
from fairlead.study.queues.mapped import Mapped
from fairlead.wording import counted

_SYSTEMS: Final[Mapping[str, Callable[[Sequence[Obj]], Mapped]]] = {
    "Kueue": kueue.mapped,
    "Volcano": volcano.mapped,
    "YuniKorn": yunikorn.mapped,
}


def _of(system: str, obj: Obj) -> bool:
    version = str(obj.get("apiVersion", ""))
    match system:
        case "Kueue":
            return version.startswith(f"{kueue.GROUP}/")
        case "Volcano":
            return version.startswith(f"{volcano.GROUP}/")
    return obj["kind"] in ("ConfigMap", "Namespace")


def admit(objects: Sequence[Obj]) -> list[str]:
    """Let go on in the dump whatever waits for a batch system: from now on the arbitrator says who waits. What is to be
    said of that, in lines of text.
    """
    waiting = kueue.held_back(objects)
    for obj in waiting:
        kueue.release(obj)
    what = _kinds(waiting)
    return [f"Kueue: {what} that it holds back go on: the arbitrator decides when"] if what else []


def stuck(objects: Sequence[Obj]) -> str:
    """What waits for ever without the arbitrator; nothing if nothing does."""
    what = _kinds(kueue.held_back(objects))
    return f"; without it {what} wait for Kueue for ever" if what else ""


def _kinds(objects: Sequence[Obj]) -> str:
    counts = Counter("Job" if obj["kind"] == "Job" else "pod" for obj in objects)
    return " and ".join(counted(count, kind) for kind, count in sorted(counts.items()))


def queues_of(objects: Sequence[Obj]) -> tuple[list[Obj], list[str]]:
    """The arbitrator's objects for the queues of a dump, and what is to be said of them, in lines of text."""
    found: list[Obj] = []
    notes: list[str] = []
    for system, read in _SYSTEMS.items():
        mapped = read([obj for obj in objects if _of(system, obj)])
        if made := mapped.objects():
            found += made
            notes.append(f"{system}: {len(mapped.groups)} groups and {len(mapped.consumers)} namespaces are divided by")
        notes += mapped.notes
    return found, notes
