"""Settings of the garbage collector. A full collection stops a server for up to 50 ms.

Simulations otherwise spend an eighth of their time on objects that are never freed, and a command's start runs 170
collections over modules that stay.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def collect_seldom() -> None:
    """Collect less often: modules are never freed, and requests create few cycles."""
    gc.set_threshold(20_000, 20, 50)


def keep_started() -> None:
    """Exclude all objects that exist now: they live until the process ends.

    A start leaves too little garbage to be worth the 70 ms of looking for it first.
    """
    gc.freeze()


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing meanwhile: what is read stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def keeping_loaded() -> Iterator[None]:
    """Exclude all objects that exist now from collections meanwhile, and no longer: others may follow."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def leave_to_system() -> None:
    """Free nothing any more: the process ends, and object by object that took a second for a cluster of 20,000 pods."""
    gc.freeze()
