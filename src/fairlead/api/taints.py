"""Taints keep pods off a node, tolerations let them on.

The scheduler, the DaemonSet controller, the eviction of silent nodes and the kubelet must all agree on who tolerates
what. See k8s.io/api/core/v1/toleration.go and taint.go; `Lt` and `Gt` are alpha in 1.36 and off, so they match nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from fairlead.api.meta import WrittenView

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

EFFECTS: Final = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
#: Taints with these effects keep a pod off; `PreferNoSchedule` only makes the node less welcome.
BINDING_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})


class Taint(WrittenView):
    key: str = ""
    value: str = ""
    effect: str = ""


class TimedTaint(Taint):
    """With what decides how long a pod may stay."""

    time_added: str | None = None


class Toleration(WrittenView):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TimedToleration(Toleration):
    toleration_seconds: int | None = None


AnyTaint = TypeVar("AnyTaint", bound=Taint)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key or effect covers all of them; no operator means `Equal`."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(
    taints: Iterable[AnyTaint], tolerations: Sequence[Toleration], effects: frozenset[str] = BINDING_EFFECTS
) -> AnyTaint | None:
    """The first taint of one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations):
            return taint
    return None


def written(taint: Taint) -> str:
    """`key=value:Effect`; what is empty is left out, with its separator."""
    value = f"={taint.value}" if taint.value else ""
    effect = f":{taint.effect}" if taint.effect else ""
    return f"{taint.key}{value}{effect}"
