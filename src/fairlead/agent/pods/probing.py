"""The probes of one running container: asked in time, counted, and what they come to.

    startup (if there is one) ─▶ succeeded ─▶ readiness and liveness, each in its own period

Source: pkg/kubelet/prober.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from fairlead.agent.pods.probe_metrics import ProbeAnswers
from fairlead.agent.pods.requests_to_pods import Answer, Asker
from fairlead.api.objects import Obj
from fairlead.api.pods import Probe
from fairlead.node.container_runtime import Probed
from fairlead.node.probes import AnswerCounter, first_probe_at
from fairlead.runtime.clock import monotonic, now

_KINDS: Final = {"Startup": "startupProbe", "Readiness": "readinessProbe", "Liveness": "livenessProbe"}


class Told(msgspec.Struct, frozen=True):
    """A probe has failed, or its answer was odd: an event about the container."""

    kind: str
    answer: Answer

    @property
    def reason(self) -> str:
        return "Unhealthy" if self.answer.failure else "ProbeWarning"

    @property
    def message(self) -> str:
        failure, warning = self.answer
        return f"{self.kind} probe failed: {failure}" if failure else f"{self.kind} probe warning: {warning}"


class Probes:
    """`changed` is called when they come to something else, `told` of what is to be told; `answers` are counted."""

    def __init__(
        self,
        container: Obj,
        asker: Asker,
        started_at: float,
        changed: Callable[[], None],
        told: Callable[[Told], None],
        answers: ProbeAnswers,
    ) -> None:
        self._answers = answers
        self._container, self._asker, self._started_at = container, asker, started_at
        self._changed, self._told = changed, told
        self._is_ending = False
        self.result = Probed("startupProbe" not in container, self._is_ready_at_first)
        self._task = asyncio.create_task(self._run(), name=f"probes of {container['name']}")

    @property
    def _is_ready_at_first(self) -> bool:
        return "readinessProbe" not in self._container and "startupProbe" not in self._container

    def stop(self) -> None:
        self._task.cancel()

    def begin_to_end(self) -> None:
        """The container is being stopped: from now on only its readiness counts."""
        self._is_ending = True

    async def _run(self) -> None:
        since = self._started_at
        if "startupProbe" in self._container:
            if not await self._start_up():
                return
            since = now()
            self._come_to(Probed(True, "readinessProbe" not in self._container))
        async with asyncio.TaskGroup() as group:
            for kind in ("Readiness", "Liveness"):
                if _KINDS[kind] in self._container:
                    group.create_task(self._watch(kind, since), name=f"{kind} of {self._container['name']}")

    async def _start_up(self) -> bool:
        async for has_passed in self._verdicts("Startup", self._started_at):
            if has_passed:
                return True
            break
        if not self._is_ending:
            self._come_to(self.result._replace(failed="Startup"))
        return False

    async def _watch(self, kind: str, since: float) -> None:
        async for has_passed in self._verdicts(kind, since):
            if kind == "Readiness":
                self._come_to(self.result._replace(is_ready=has_passed))
            elif not has_passed:
                self._come_to(self.result._replace(failed=kind))
                return

    async def _verdicts(self, kind: str, since: float) -> AsyncIterator[bool]:
        """Ask again and again, and tell whenever enough answers in a row say the same."""
        action = self._container[_KINDS[kind]]
        probe, counter = msgspec.convert(action, Probe), AnswerCounter()
        first = first_probe_at(probe, self._started_at, since, since)
        due = monotonic() + min(max(first - now(), 0.0), first - self._started_at)  # the clock may have been set back
        while True:
            await asyncio.sleep(max(due - monotonic(), 0.0))
            if self._is_over(kind):
                return
            due = max(due + probe.period_seconds, monotonic())
            asked_at = monotonic()
            answer = await self._asker.ask(action, action.get("timeoutSeconds") or 1)
            if self._is_over(kind):
                return
            self._answers.add(kind, self._container["name"], is_well=not answer.failure, seconds=monotonic() - asked_at)
            if answer.failure or answer.warning:
                self._told(Told(kind, answer))
            if (has_passed := counter.verdict(probe, is_well=not answer.failure)) is not None:
                yield has_passed

    def _is_over(self, kind: str) -> bool:
        return self._is_ending and kind != "Readiness"

    def _come_to(self, result: Probed) -> None:
        if result != self.result:
            self.result = result
            self._changed()
