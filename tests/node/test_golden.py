"""Every row of every table that was recorded from the real kubelet is replayed by some test (golden/node/).

A table or a kind of row that nobody reads fails here. The tables come from `FAIRLEAD_GOLDEN`, as those of the readers.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conftest import GOLDEN, TESTS
from tests.node.golden import read

#: Beside the `test_golden_*.py` of this folder.
_ELSEWHERE = ("tests.node.test_restarts", "tests.server.test_golden_resize")


def _readers() -> Iterator[str]:
    for path in sorted((TESTS / "node").glob("test_golden_*.py")):
        yield f"tests.node.{path.stem}"
    yield from _ELSEWHERE


def _replayed() -> Counter[str]:
    """The ids of the rows that tests take, and how many tests take each."""
    marks = [
        mark
        for module in _readers()
        for test in vars(importlib.import_module(module)).values()
        for mark in getattr(test, "pytestmark", ())
        if isinstance(mark, pytest.Mark) and mark.name == "parametrize" and mark.args[0] == "row"
    ]
    return Counter(row["id"] for mark in marks for row in mark.args[1])


def test_every_recorded_row_has_a_reader() -> None:
    tables = sorted(path.stem for path in (GOLDEN / "node").glob("*.yaml"))
    recorded = Counter(row["id"] for table in tables for row in read(table))
    assert recorded
    assert recorded - _replayed() == Counter()
