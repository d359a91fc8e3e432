"""The garbage collector looks at large heaps in parts, and keeps no circle for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_PROGRAM = """
import gc, json, sys, weakref
from fairlead.runtime import memory
from fairlead.runtime.memory import collect_in_parts, keep_started

class Circle:
    def __init__(self):
        self.itself = self

memory._CALM_SECONDS = float(sys.argv[2])
keep_started()
collect_in_parts()
looked_at = []
gc.callbacks.append(
    lambda phase, details: phase == "start" and looked_at.append(
        sum(gc.get_count()[0] if not generation else len(gc.get_objects(generation))
            for generation in range(details["generation"] + 1))
    )
)
kept, gone = [], []
for _ in range(int(sys.argv[1])):
    circle = Circle()
    gone.append(weakref.ref(circle))
    kept += [[] for _ in range(400_000)]  # it lives through full collections
    del circle
print(json.dumps({"looked_at": looked_at, "left": sum(each() is not None for each in gone), "kept": len(kept)}))
"""


def collected(rounds: int, calm_seconds: float = 0.0) -> dict[str, Any]:
    """What comes of so many rounds of 400,000 objects that stay, each with a circle that goes."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(rounds), str(calm_seconds)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_server_with_millions_of_objects_looks_at_few_at_once() -> None:
    """Each full collection had looked at all of them: half a second of a turn for a cluster of 50,000 pods."""
    found = collected(5)
    looked_at = sorted(found["looked_at"])
    assert found["kept"] == 2_000_000
    whole = [count for count in looked_at if count > 200_000]
    assert len(whole) <= 3  # each when there were twice as many


def test_what_came_just_now_is_no_reason_to_look_at_everything() -> None:
    """It may be of a single request, and gone in a moment."""
    assert max(collected(5, 60.0)["looked_at"]) < 200_000


def test_circles_that_went_after_they_had_been_looked_at_are_collected_in_the_end() -> None:
    assert collected(8)["left"] <= 5
