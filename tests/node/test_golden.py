"""Every row of every table that was recorded from the real kubelet (golden/node/), replayed.

The replays are in `recorded/`, a module for each kind of table, and are collected here. A table or a kind of row that
none of them takes fails. The tables come from `FAIRLEAD_GOLDEN`.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import GOLDEN, TESTS
from tests.node.golden import read

_MODULES = sorted(path.stem for path in (TESTS / "node" / "recorded").glob("[!_]*.py"))
pytest.register_assert_rewrite(*(f"tests.node.recorded.{module}" for module in _MODULES))


def _replays() -> dict[str, Callable[..., Any]]:
    """The tests of all modules, by name; two of one name would hide each other."""
    found: dict[str, Callable[..., Any]] = {}
    for module in _MODULES:
        for name, test in vars(importlib.import_module(f"tests.node.recorded.{module}")).items():
            if name.startswith("test_"):
                assert name not in found, name
                found[name] = test
    return found


_REPLAYS = _replays()
globals().update(_REPLAYS)


def test_every_recorded_row_has_a_reader() -> None:
    marks = [mark for test in _REPLAYS.values() for mark in getattr(test, "pytestmark", ())]
    taken = [mark.args[1] for mark in marks if mark.name == "parametrize" and mark.args[0] == "row"]
    replayed = Counter(row["id"] for rows in taken for row in rows)
    tables = sorted(path.stem for path in (GOLDEN / "node").glob("*.yaml"))
    recorded = Counter(row["id"] for table in tables for row in read(table))
    assert recorded
    assert recorded - replayed == Counter()
