"""A process that is told to stop ends, whatever holds its event loop."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

_PROGRAM = """
import asyncio, sys
from fairlead.runtime.loops import run
from fairlead.runtime.stopping import stop_signals

async def main():
    with stop_signals() as stopping:
        print("ready", flush=True)
        if sys.argv[1] == "holds":
            while True:
                pass
        await stopping.wait()
        if sys.argv[1] == "never ends":
            await asyncio.Event().wait()
    print("in order", flush=True)

run(main())
"""


@contextmanager
def program(kind: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_free_loop_ends_in_order(signum: signal.Signals) -> None:
    with program("waits") as process:
        process.send_signal(signum)
        assert process.communicate(timeout=10) == ("in order\n", "")
        assert process.returncode == 0


@pytest.mark.parametrize("kind", ["holds", "never ends"])
def test_whatever_holds_the_loop_the_process_ends_within_five_seconds(kind: str) -> None:
    with program(kind) as process:
        process.terminate()
        assert process.wait(5) == 128 + signal.SIGTERM
        assert process.stderr is not None and "Stopped by force" in process.stderr.read()


def test_a_second_interrupt_ends_at_once() -> None:
    with program("holds") as process:
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        assert process.returncode == 128 + signal.SIGINT
        assert process.stderr is not None and "by force" not in process.stderr.read()
