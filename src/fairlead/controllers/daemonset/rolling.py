"""Which nodes get the new template next: pure decisions about the pods of each node.

Without surge an old pod is deleted, within `maxUnavailable`, and its successor made when it is gone; with surge the
successor comes first, within `maxSurge` (pkg/controller/daemon/update.go).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fairlead.api.pods import Pod
from fairlead.api.workloads import DaemonSet, RollingUpdate
from fairlead.controllers.rounding import rounded_up

#: Node name → the set's pods that are there or are to be there; nodes that want a pod have an entry even if none is.
PodsByNode = Mapping[str, Sequence[Pod]]
Judge = Callable[[Pod], bool]


def limits(owner: DaemonSet, desired: int) -> tuple[int, int]:
    """(surge, unavailable) in pods; never both zero."""
    if owner.spec.update_strategy.type != "RollingUpdate":
        return 0, 0
    rolling = owner.spec.update_strategy.rolling_update or RollingUpdate(max_unavailable=1)
    surge, unavailable = rounded_up(rolling.max_surge, desired), rounded_up(rolling.max_unavailable, desired)
    return (0, 1) if desired and surge == unavailable == 0 else (surge, unavailable)


def replace_in_place(pods: PodsByNode, unavailable_limit: int, is_new: Judge, is_available: Judge) -> list[Pod]:
    """The old pods to delete now."""
    unavailable, broken, candidates = 0, [], []
    for _, on_node in sorted(pods.items()):
        new, old, is_clear = split(on_node, is_new)
        if not is_clear or (new is None) == (old is None):
            unavailable += 1
        elif new is not None:
            unavailable += not is_available(new)
        elif old is not None and not is_available(old):
            broken.append(old)
        elif old is not None:
            candidates.append(old)
    return broken + candidates[: max(unavailable_limit - unavailable, 0)]


def surge(
    pods: PodsByNode, wanting: Collection[str], surge_limit: int, is_new: Judge, is_available: Judge
) -> tuple[list[Pod], list[str]]:
    """The old pods to delete now, and the nodes that get a second, new one.

    Nodes that only keep a pod, but would not get one, lose it when as many are available as are wanted.
    """
    surging = available = 0
    done: list[Pod] = []
    unwanted: list[Pod] = []
    broken: list[str] = []
    candidates: list[str] = []
    for node, on_node in sorted(pods.items()):
        new, old, is_clear = split(on_node, is_new)
        if not is_clear:
            surging += 1
            continue
        shown = old or new
        available += shown is not None and is_available(shown)
        if old is None:
            continue
        if new is not None:
            if is_available(new):
                done.append(old)
            else:
                surging += 1
        elif node not in wanting:
            (unwanted if is_available(old) else done).append(old)
        else:
            (candidates if is_available(old) else broken).append(node)
    spare = max(available - len(wanting), 0)
    return done + unwanted[:spare], broken + candidates[: max(surge_limit - surging, 0)]


def split(on_node: Sequence[Pod], is_new: Judge) -> tuple[Pod | None, Pod | None, bool]:
    """The new pod and the old pod of a node, and whether there is at most one of each."""
    staying = [pod for pod in on_node if not pod.metadata.is_terminating]
    new = [pod for pod in staying if is_new(pod)]
    old = [pod for pod in staying if not is_new(pod)]
    return (new[0] if new else None, old[0] if old else None, len(new) <= 1 and len(old) <= 1)
