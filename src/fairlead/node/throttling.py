"""What cpu limits cost a pod, read from what its kubelet shows of every container (`/metrics/cadvisor`).

Nothing in a pod's status tells of throttling: it is slow, and nobody says why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fairlead.api.objects import Obj
from fairlead.api.quantity import Quantity
from fairlead.node.requests import stated_limit

#: Below this share of its periods nobody notices.
_LEAST_SHARE: Final = 0.01
_PERIOD_SECONDS: Final = 0.1
_LINE: Final = re.compile(r"container_cpu_cfs_(periods|throttled_periods|throttled_seconds)_total\{([^}]*)\} (\S+)")
_LABEL: Final = re.compile(r'(container|namespace|pod)="([^"]*)"')
#: Of a container that is held back all the time it is not known how much it wants.
_HARDLY_RUNS: Final = 0.99


class Throttling(NamedTuple):
    """Since the container started: enforcement periods, those in which it was held back, and for how long."""

    periods: float = 0.0
    throttled_periods: float = 0.0
    throttled_seconds: float = 0.0


def throttling_of(pod: Obj, exposition: str) -> Mapping[str, Throttling]:
    """By container of the pod, as far as the text tells."""
    meta, found = pod["metadata"], dict[str, Throttling]()
    for name, labels, value in _LINE.findall(exposition):
        known = dict(_LABEL.findall(labels))
        container = known.get("container", "")
        if container and (known.get("namespace"), known.get("pod")) == (meta["namespace"], meta["name"]):
            found[container] = found.get(container, Throttling())._replace(**{name: float(value)})
    return found


def throttling_notes(pod: Obj, containers: Iterable[Obj], found: Mapping[str, Throttling]) -> Iterator[str]:
    for container in containers:
        name, known = container["name"], found.get(container["name"], Throttling())
        if not known.periods or known.throttled_periods < _LEAST_SHARE * known.periods:
            continue
        limit = stated_limit(container, "cpu") or stated_limit(pod["spec"], "cpu")
        share, periods = (
            known.throttled_periods / known.periods,
            f"{known.throttled_periods:.0f} of {known.periods:.0f}",
        )
        yield (
            f"container {name} was throttled in {share:.0%} of its periods ({periods}): it wants more cpu than its "
            f"limit of {limit}; {_remedy(limit, known)} would have spared it"
        )


def _remedy(limit: Quantity, known: Throttling) -> str:
    """A quota of so much lasts for part of a period; the rest of the period is what more of it would have filled."""
    waited = known.throttled_seconds / (known.throttled_periods * _PERIOD_SECONDS)
    if not 0 < waited < _HARDLY_RUNS:
        return "a greater limit, or none,"
    wanted = Quantity(10**7 * math.ceil(limit.milli / (1 - waited) / 10 - 1e-6))
    return f"a limit of {wanted}, or none,"
