"""The decisions of kube-scheduler 1.36, replayed in-process and in virtual time, scores and all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.runtime.loops import run_virtual
from tests.conftest import GOLDEN
from tests.scheduler.replay_in_process import failures


@pytest.mark.parametrize("file", sorted((GOLDEN / "scheduler").glob("*.yaml")), ids=lambda file: file.stem)
def test_decides_like_kube_scheduler(file: Path) -> None:
    """S3-10 to S3-34, S0-50 to S0-74."""
    found = run_virtual(failures(file))
    assert not found, "\n".join(f"{case}: {why}" for case, why in found.items())
