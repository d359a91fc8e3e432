"""Which of several tolerations are needed, and whether they are all covered by others (pkg/util/tolerations).

Upstream compares each with each. A pod can have ten thousand of them, so here each is looked up by what it reaches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from fairlead.api.objects import Obj
from fairlead.api.taints import NO_EXECUTE

#: The operator of a toleration of every value.
_EVERY: Final = "Exists"


class _Reach(NamedTuple):
    """Which taints a toleration tolerates."""

    key: str
    effect: str
    values: Hashable  # every value, one, or what only an equal toleration does

    def wider(self) -> Iterator[_Reach]:
        """All reaches that include this one, itself first."""
        for values in dict.fromkeys((self.values, _EVERY)):
            for key in dict.fromkeys((self.key, "" if values == _EVERY else self.key)):
                for effect in dict.fromkeys((self.effect, "")):
                    yield _Reach(key, effect, values)


def merged_tolerations(tolerations: Iterable[Obj]) -> list[Obj]:
    """Without those that another one covers: tolerates all that they do, for at least as long (MergeTolerations).

    Of those that cover each other the last stays, of equal ones the first.
    """
    kept: dict[tuple[_Reach, float], Obj] = {}
    longest: dict[_Reach, float] = {}
    for toleration in tolerations:
        reach, seconds = identity = _reach(toleration), _seconds(toleration)
        if kept.get(identity) != toleration:
            kept.pop(identity, None)
            kept[identity] = toleration
        longest[reach] = max(seconds, longest.get(reach, -inf))
    return [toleration for (reach, seconds), toleration in kept.items() if not _is_covered(reach, seconds, longest)]


def all_allowed(tolerations: Iterable[Obj], allowed: Iterable[Obj]) -> bool:
    """Whether each of them is covered by one that is allowed."""
    longest: dict[_Reach, float] = {}
    for toleration in allowed:
        reach = _reach(toleration)
        longest[reach] = max(_seconds(toleration), longest.get(reach, -inf))
    return all(_is_in(_reach(toleration).wider(), _seconds(toleration), longest) for toleration in tolerations)


def _is_covered(reach: _Reach, seconds: float, longest: Mapping[_Reach, float]) -> bool:
    own, *wider = reach.wider()
    if longest[own] > seconds:
        return True
    return _is_in(wider, seconds, longest)


def _is_in(reaches: Iterable[_Reach], seconds: float, longest: Mapping[_Reach, float]) -> bool:
    """Whether one of these reaches is there for that long; only with NoExecute the time matters."""
    return any(reach in longest and (reach.effect != NO_EXECUTE or longest[reach] >= seconds) for reach in reaches)


def _reach(toleration: Obj) -> _Reach:
    operator = toleration.get("operator") or "Equal"
    values: Hashable = ("Equal", toleration.get("value", ""))
    if operator != "Equal":
        values = _EVERY if operator == _EVERY else tuple(sorted(toleration.items()))
    return _Reach(toleration.get("key", ""), toleration.get("effect", ""), values)


def _seconds(toleration: Obj) -> float:
    """How long it tolerates; limited for NoExecute alone."""
    limit = toleration.get("tolerationSeconds")
    return inf if limit is None or toleration.get("effect") != NO_EXECUTE else limit
