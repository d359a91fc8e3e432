"""The benchmarks: what they can be told is asked without a measurement, which takes minutes."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import benchmarks

NAMES = sorted(
    path.stem for path in Path(benchmarks.__path__[0]).glob("*.py") if '__name__ == "__main__"' in path.read_text()
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_help_measures_nothing(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ended(name, "--help", monkeypatch) == 0
    assert f"python -m benchmarks.{name}" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_a_benchmark_does_not_know_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "contention":
        pytest.skip("what it does not know is for fairlead up")
    assert _ended(name, "--wek", monkeypatch) == 2


def _ended(name: str, argument: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of `python -m`, which begins without the module."""
    monkeypatch.setattr(sys, "argv", [name, argument])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
    return ended.value.code
