"""The workloads that come with Fairlead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fairlead.verify.workload import Workload, read

_FOLDER: Final = Path(__file__).with_name("workloads")


def names() -> Sequence[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def packaged(name: str) -> Workload:
    return read(_FOLDER / f"{name}.yaml")
