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
from fairlead.agent.pods.requests_to_pods import Asker
from fairlead.api.objects import Obj
from fairlead.api.pods import Probe
from fairlead.node.container_runtime import Probed
from fairlead.node.probes import AnswerCounter, first_probe_at
from fairlead.runtime.clock import monotonic, now

_KINDS: Final = {"Startup": "startupProbe", "Readiness": "readinessProbe", "Liveness": "livenessProbe"}


class Told(msgspec.Struct, frozen=True):
    """A probe has failed: an event about the container."""

    kind: str
    text: str

    @property
    def message(self) -> str:
        return f"{self.kind} probe failed: {self.text}"


class Probes:
    """`changed` is called when they come to something else, `failed` at each failure; `answers` are counted."""

    def __init__(
        self,
        container: Obj,
        asker: Asker,
        started_at: float,
        changed: Callable[[], None],
        failed: Callable[[Told], None],
        answers: ProbeAnswers,
    ) -> None:
        self._answers = answers
        self._container, self._asker, self._started_at = container, asker, started_at
        self._changed, self._failed = changed, failed
        self.result = Probed("startupProbe" not in container, self._is_ready_at_first)
        self._task = asyncio.create_task(self._run(), name=f"probes of {container['name']}")

    @property
    def _is_ready_at_first(self) -> bool:
        return "readinessProbe" not in self._container and "startupProbe" not in self._container

    def stop(self) -> None:
        self._task.cancel()

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
            due = max(due + probe.period_seconds, monotonic())
            asked_at = monotonic()
            text = await self._asker.ask(action, action.get("timeoutSeconds") or 1)
            self._answers.add(kind, self._container["name"], is_well=not text, seconds=monotonic() - asked_at)
            if text:
                self._failed(Told(kind, text))
            if (has_passed := counter.verdict(probe, is_well=not text)) is not None:
                yield has_passed

    def _come_to(self, result: Probed) -> None:
        if result != self.result:
            self.result = result
            self._changed()
