"""Somebody sets the clock of a node: what it waits for comes neither later nor sooner, and what it keeps is in order.

With real containers and the clock of a machine: `vm/inside.py`; what a pod comes to: `sim/test_pod_lifecycle.py`.
"""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.agent.certificates.kept import KeptCertificate
from fairlead.agent.pods import log_rotation
from fairlead.agent.pods.log_rotation import LogRotation
from fairlead.agent.pods.probe_metrics import ProbeAnswers
from fairlead.agent.pods.probing import Probes
from fairlead.agent.pods.requests_to_pods import Answer
from fairlead.agent.runtimes.base import State
from fairlead.api.objects import Obj
from fairlead.api.users import node_user
from fairlead.node.log_rotation import LogPolicy
from fairlead.runtime.authority import Authority
from fairlead.runtime.clock import ClockSteps, monotonic, now
from fairlead.runtime.identity import Identity
from fairlead.runtime.loops import VirtualLoop, run_virtual

HOUR = 3600.0


class _Well:
    async def ask(self, action: Obj, seconds: float) -> Answer:
        """Without a failure."""
        return Answer()


def test_it_is_noticed_once_and_by_how_much() -> None:
    async def main() -> None:
        loop, steps = asyncio.get_running_loop(), ClockSteps()
        assert isinstance(loop, VirtualLoop)
        await asyncio.sleep(100)
        assert steps.since_last() == 0
        loop.epoch -= 8 * HOUR
        assert steps.since_last() == pytest.approx(-8 * HOUR)
        loop.epoch += 0.1
        assert steps.since_last() == 0

    run_virtual(main())


def test_a_probe_of_what_started_before_the_clock_was_set_back_is_asked_in_time() -> None:
    async def main() -> None:
        container = {"name": "c", "readinessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 5}}
        began, changed = monotonic(), asyncio.Event()
        probes = Probes(container, cast(Any, _Well()), now() + 8 * HOUR, changed.set, lambda _: None, ProbeAnswers())
        await changed.wait()
        assert probes.result.is_ready and monotonic() - began <= 10
        probes.stop()

    run_virtual(main())


def test_a_certificate_is_renewed_in_time_when_the_clock_was_set(tmp_path: Path) -> None:
    day = 24 * HOUR

    async def main() -> None:
        loop, made = asyncio.get_running_loop(), Authority.make("ca")
        assert isinstance(loop, VirtualLoop)
        first, second = (made.certify_server(node_user("n"), ["n"], seconds=10 * day) for _ in range(2))

        async def ask() -> Identity:
            return second

        renewed: asyncio.Future[Identity] = loop.create_future()
        kept = KeptCertificate("certificate", tmp_path / "kept.pem", ask, lambda _: True)
        renewing = asyncio.create_task(kept.renew(first, renewed.set_result))
        await asyncio.sleep(HOUR)
        loop.epoch += 9.5 * day
        async with asyncio.timeout(HOUR):
            assert await renewed is second
        renewing.cancel()

    run_virtual(main())


class _Container:
    """Its log, and its runtime."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.say("0")

    def say(self, line: str) -> None:
        self._log.write_text(f"2026-01-01T00:00:01.000000000Z stdout F {line}\n")

    def containers(self) -> list[Any]:
        return [SimpleNamespace(id="c", log=self._log, state=State.RUNNING)]

    async def reopen_log(self, id_: str) -> None:
        pass


async def _rotated(log: Path, moments: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    container = _Container(log)
    policy = LogPolicy(max_bytes=1, max_files=3, interval_seconds=3.0, workers=1)
    rotation = LogRotation(cast(Any, container), policy)
    for number, moment in enumerate(moments, 1):
        monkeypatch.setattr(log_rotation, "now", lambda moment=moment: moment)
        await rotation.look()
        container.say(str(number))


def test_of_logs_the_oldest_go_first_also_after_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [1e9, 1e9 + 60, 1e9 - 8 * HOUR, 1e9 - 8 * HOUR + 60]
    asyncio.run(_rotated(tmp_path / "0.log", moments, monkeypatch))
    current, *rotated = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    texts = [*(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content for content in rotated), current]
    assert [text.split()[-1] for text in texts] == [b"2", b"3", b"4"]
