"""What expressions about a request may cost, and where they are evaluated.

Each evaluation has a limit, and those of one policy share a budget (k8s.io/apiserver/pkg/apis/cel/config.go and
pkg/admission/plugin/cel/activation.go, 1.36). What would hold the event loop begins again beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from fairlead.cel.environment import PER_CALL_LIMIT, Program
from fairlead.cel.errors import CelError, TooCostlyError
from fairlead.cel.scope import Meter
from fairlead.runtime.clock import stopwatch
from fairlead.runtime.offload import offload

T = TypeVar("T")

#: What the expressions of a policy may cost, for one binding and one parameter (`RuntimeCELCostBudget`).
POLICY_BUDGET: Final = 10_000_000
#: And match conditions, of a policy or a webhook (`RuntimeCELCostBudgetMatchConditions`).
CONDITIONS_BUDGET: Final = POLICY_BUDGET // 4
#: What policies may cost takes seconds. Who waits for that waits for other policies, and nobody else does.
_THREAD: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policies")
#: How many seconds of the event loop all expressions about one request may have.
_SECONDS_OF_LOOP: Final = 0.02


class OutOfBudgetError(TooCostlyError):
    """All evaluations together cost too much. Nothing more is asked, whatever was found before."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class _TakesLongError(Exception):
    """An evaluation has had its time on the event loop. No CelError: no expression can go on after it."""


class _LoopMeter(Meter):
    """The meter of an evaluation on the event loop."""

    __slots__ = ("_until",)

    def __init__(self, budget: int, until: float) -> None:
        super().__init__(budget)
        self._until = until

    def take(self, cost: int) -> None:
        super().take(cost)
        if stopwatch() > self._until:
            raise _TakesLongError


class Budget:
    """What several evaluations may cost together, beside what each may; `until` when they may be on the loop."""

    def __init__(self, units: int, until: float | None) -> None:
        self._left, self._until = units, until

    def evaluate(self, program: Program, variables: Mapping[str, Any]) -> Any:
        """The value; CelError says of which expression there is none."""
        try:
            return self.value(program, variables)
        except OutOfBudgetError:
            raise
        except CelError as error:
            raise CelError(f"expression '{program.source}' resulted in error: {error}") from None

    def value(self, program: Program, variables: Mapping[str, Any]) -> Any:
        """The same for part of an expression, which says itself of what it is."""
        until = self._until
        meter = Meter(PER_CALL_LIMIT) if until is None else _LoopMeter(PER_CALL_LIMIT, until)
        try:
            return program.metered(variables, meter)
        finally:
            self._left -= PER_CALL_LIMIT - meter.left
            if self._left < 0:
                raise OutOfBudgetError


class LoopTime:
    """How long expressions about one request may still hold the event loop."""

    def __init__(self) -> None:
        self._left = _SECONDS_OF_LOOP

    async def evaluate(self, work: Callable[[float | None], T], *, is_long: bool = False) -> T:
        """What `work` finds with budgets that last until then; called again, in a thread, if that is too short."""
        if not is_long and self._left > 0:
            began = stopwatch()
            try:
                return work(began + self._left)
            except _TakesLongError:
                pass
            finally:
                self._left -= stopwatch() - began
        return await offload(lambda: work(None), is_long=True, threads=_THREAD)
