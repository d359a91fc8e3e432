"""Stopping on a signal, in order if possible and by force if not: a callback that never returns must not prevent it.

    signal ──▶ the event is set: everything ends in order ──▶ 0
       └─────▶ not over after 4 s, or another Ctrl-C: the process ends at once

Acknowledged writes are on disk by then, so ending by force loses no data.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

#: Within five seconds, with some to spare for a machine that is busy.
LONGEST_SECONDS: Final = 4.0


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set while the block runs.

    The handlers are the interpreter's, not the event loop's: they run even while a callback blocks the loop.
    """
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    is_asked = False

    def asked(signum: int, frame: FrameType | None) -> None:
        nonlocal is_asked
        if not is_asked:
            is_asked = True
            loop.call_soon_threadsafe(stopping.set)
            threading.Thread(target=_end_later, args=(signum,), name="stopping", daemon=True).start()
        elif signum == signal.SIGINT:  # not SIGTERM: `timeout` and others send that twice
            os._exit(128 + signum)

    before = {signal_: signal.signal(signal_, asked) for signal_ in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        if not is_asked:
            for signal_, handler in before.items():
                signal.signal(signal_, handler)


def _end_later(signum: int) -> NoReturn:
    time.sleep(LONGEST_SECONDS)
    os.write(2, b"Stopped by force: something did not end in time. What was acknowledged is kept.\n")
    os._exit(128 + signum)
