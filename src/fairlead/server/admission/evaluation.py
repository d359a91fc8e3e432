"""What expressions about a request may cost, and where they are evaluated.

Each evaluation has a limit, and those of one policy share a budget (k8s.io/apiserver/pkg/apis/cel/config.go and
pkg/admission/plugin/cel/activation.go, 1.36). What would hold the event loop begins again beside it, and ends with its
request: with its time, its client, or the server.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from fairlead.api.errors import ServerTimeout
from fairlead.cel.environment import PER_CALL_LIMIT, Program
from fairlead.cel.errors import CelError, TooCostlyError
from fairlead.cel.scope import Meter
from fairlead.runtime.clock import monotonic, stopwatch
from fairlead.runtime.fair_threads import FairThreads
from fairlead.runtime.offload import offload

T = TypeVar("T")

#: What the expressions of a policy may cost, for one binding and one parameter (`RuntimeCELCostBudget`).
POLICY_BUDGET: Final = 10_000_000
#: And match conditions, of a policy or a webhook (`RuntimeCELCostBudgetMatchConditions`).
CONDITIONS_BUDGET: Final = POLICY_BUDGET // 4
#: What policies may cost takes seconds. Who waits for that waits for slices of other policies, and nobody else does.
_THREADS: Final = FairThreads("policies", users=32)
#: For how many seconds an evaluation beside the loop goes on while those of other users wait.
_SLICE: Final = 0.01
#: How many seconds of the event loop all expressions about one request may have.
_SECONDS_OF_LOOP: Final = 0.02
#: How long webhooks, and policies beside the loop, may take together (apiserver, `requestTimeoutUpperBound`).
_REQUEST_SECONDS: Final = 34.0


class OutOfBudgetError(TooCostlyError):
    """All evaluations together cost too much. Nothing more is asked, whatever was found before."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class _TakesLongError(Exception):
    """An evaluation has had its time. No CelError: no expression can go on after it."""


class Until:
    """Until when, by the stopwatch, an evaluation may go on."""

    __slots__ = ("moment",)

    def __init__(self, moment: float) -> None:
        self.moment = moment

    def passed(self) -> None:
        """Called at every step after that moment."""
        raise _TakesLongError


class _Slices(Until):
    """For an evaluation beside the loop: it goes on after those of others, as long as somebody waits for it."""

    __slots__ = ("is_wanted",)

    def __init__(self) -> None:
        super().__init__(-math.inf)
        self.is_wanted = True

    def begin(self) -> Until:
        self.moment = stopwatch() + _SLICE
        return self

    def passed(self) -> None:
        _THREADS.let_others_go_on()
        if not self.is_wanted:
            raise _TakesLongError
        self.begin()


class _TimedMeter(Meter):
    __slots__ = ("_until",)

    def __init__(self, budget: int, until: Until) -> None:
        super().__init__(budget)
        self._until = until

    def take(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise self.exceeded()
        if stopwatch() > self._until.moment:
            self._until.passed()


class Budget:
    """What several evaluations may cost together, beside what each may; and until when they may go on."""

    def __init__(self, units: int, until: Until) -> None:
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
        meter = _TimedMeter(PER_CALL_LIMIT, self._until)
        try:
            return program.metered(variables, meter)
        finally:
            self._left -= PER_CALL_LIMIT - meter.left
            if self._left < 0:
                raise OutOfBudgetError


class RequestTime:
    """How long expressions about one request may hold the event loop, and how long others may keep it waiting."""

    def __init__(self, user: str) -> None:
        """It begins with the first question. `user`: who waits for his own policies before others wait for them."""
        self._user = user
        self._of_loop = _SECONDS_OF_LOOP
        self._ends_at: float | None = None

    def seconds_left(self) -> float:
        """How long the request may still wait; ServerTimeout if that is over."""
        now = monotonic()
        if self._ends_at is None:
            self._ends_at = now + _REQUEST_SECONDS
        if (left := self._ends_at - now) > 0:
            return left
        raise _timeout()

    async def evaluate(self, work: Callable[[Until], T], *, is_long: bool = False) -> T:
        """What `work` finds with budgets that last until then; called again, in a thread, if that is too short."""
        if not is_long and self._of_loop > 0:
            began = stopwatch()
            try:
                return work(Until(began + self._of_loop))
            except _TakesLongError:
                pass
            finally:
                self._of_loop -= stopwatch() - began
        slices = _Slices()
        try:
            async with asyncio.timeout(self.seconds_left()):
                return await offload(lambda: work(slices.begin()), is_long=True, threads=_THREADS.of(self._user))
        except TimeoutError:
            raise _timeout() from None
        finally:
            slices.is_wanted = False


def _timeout() -> ServerTimeout:
    return ServerTimeout("Timeout: request did not complete within requested timeout - context deadline exceeded")
