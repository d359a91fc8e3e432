"""What an expression is compiled to, and which names it knows while it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.cel.errors import TooCostlyError
from fairlead.cel.types import Type

#: The values of all variables of one evaluation, by their places; the first place has the meter.
Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Any]

METER: Final = 0


#: Values of a schema that were read already, by the ids of their JSON, which is kept with them.
Read: TypeAlias = dict[int, tuple[Any, Any]]


class Meter:
    """How much an evaluation may still cost, in Kubernetes' units: about one for each node that is evaluated."""

    __slots__ = ("left", "read")

    def __init__(self, budget: int, read: Read | None = None) -> None:
        self.left = budget
        #: Several evaluations about one object may share it: a long list is read once, however often it is named.
        self.read: Read = {} if read is None else read

    def take(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise self.exceeded()

    @staticmethod
    def exceeded() -> TooCostlyError:
        return TooCostlyError("operation cancelled: actual cost limit exceeded")


class Compiled(msgspec.Struct, frozen=True):
    """A checked part of an expression."""

    type: Type
    run: Run
    #: What evaluating it once costs, without what depends on the sizes of values and on which branches are taken.
    weight: int
    #: Whether it is written out, so that it is made once, and costs nothing.
    is_constant: bool = False

    def paid_run(self) -> Run:
        """For a part that is not always evaluated: it takes what it costs when it is."""
        run, weight = self.run, self.weight
        if not weight:
            return run

        def paid(frame: Frame) -> Any:
            frame[METER].take(weight)
            return run(frame)

        return paid


class Scope:
    """The variables that are known, each with its place in the frame and its type."""

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self.size = 1
        self._known: dict[str, tuple[int, Type]] = {}
        for name, type_ in variables.items():
            self.declare(name, type_)

    def declare(self, name: str, type_: Type) -> tuple[int, tuple[int, Type] | None]:
        """A new place for a variable, and what the name meant until now."""
        before, place = self._known.get(name), self.size
        self._known[name] = place, type_
        self.size += 1
        return place, before

    def restore(self, name: str, before: tuple[int, Type] | None) -> None:
        """The name means again what it meant."""
        if before is None:
            del self._known[name]
        else:
            self._known[name] = before

    def find(self, name: str) -> tuple[int, Type] | None:
        return self._known.get(name)


class Findings(msgspec.Struct):
    """What is wrong with an expression, in order."""

    errors: list[tuple[int, str]] = msgspec.field(default_factory=list)

    def add(self, at: int, text: str) -> None:
        self.errors.append((at, text))
