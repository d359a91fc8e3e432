"""Pods of a dump that ask for a scheduler that is not played (Volcano's, YuniKorn's, one's own): ours takes its place.

Else they would wait for ever, and so would whatever replaces those that run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from fairlead.api.objects import Obj
from fairlead.api.scheduling import DEFAULT_SCHEDULER
from fairlead.study.reading import pod_specs
from fairlead.wording import counted


def replaced(objects: Iterable[Obj], played: Collection[str]) -> list[str]:
    """Makes those that ask for another than these ask for the default one; what is to be said of it, in lines of
    text.
    """
    asking: Counter[str] = Counter()
    for obj in objects:
        for spec in pod_specs(obj):
            name = spec.get("schedulerName")
            if isinstance(name, str) and name and name not in played:
                spec["schedulerName"] = DEFAULT_SCHEDULER
                asking[name] += 1
    return [
        f"the scheduler {name} is not played, and {DEFAULT_SCHEDULER} takes its place (of {counted(count, 'object')})"
        for name, count in sorted(asking.items())
    ]
