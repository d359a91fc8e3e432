"""Several variants at once, each in a process of its own: they share nothing but what they begin with."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from msgspec.structs import replace

from fairlead.study.changes.document import Change
from fairlead.study.outcome import Outcome
from fairlead.study.recorded import OnArrival
from fairlead.study.run import Scene, play

#: What the forked processes have inherited: nothing of it is copied or sent.
_inherited: list[tuple[Scene, Sequence[Change]]] = []


def play_all(scene: Scene, changes: Sequence[Change], progress: OnArrival) -> list[Outcome]:
    """The outcomes in the order of the changes. Raises what `play` raises of the first that fails."""
    workers = min(len(changes), os.cpu_count() or 1)
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [play(scene, change, progress) for change in changes]
    _inherited.append((scene, changes))
    try:
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(workers, mp_context=fork, initializer=_end_with_parent) as pool:
            return list(pool.map(_play, range(len(changes))))
    finally:
        _inherited.pop()


def _end_with_parent() -> None:
    """Whoever is killed alone leaves nobody who computes for nothing."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()


def _play(index: int) -> Outcome:
    scene, changes = _inherited[-1]
    if index:  # what is imported is the same for all: the first tells of it
        scene = replace(scene, settings=replace(scene.settings, on_restored=None))
    return play(scene, changes[index], lambda count, at: None)
