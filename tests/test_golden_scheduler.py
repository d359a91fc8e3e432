"""The decisions of kube-scheduler 1.36, replayed in-process and in virtual time, scores and all; some over the wire."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.runtime.loops import run_virtual
from tests.conftest import GOLDEN
from tests.examples import each_time
from tests.processes import fairlead_up
from tests.scheduler.replay_in_process import failures

FILES = sorted((GOLDEN / "scheduler").glob("*.yaml"))
#: More of what others say, too.
MORE = ("random-3", "random-4")


@pytest.mark.parametrize(
    "file", each_time([file for file in FILES if file.stem not in MORE], FILES), ids=lambda file: file.stem
)
def test_decides_like_kube_scheduler(file: Path) -> None:
    """S3-10 to S3-34, S0-50 to S0-74."""
    found = run_virtual(failures(file))
    assert not found, "\n".join(f"{case}: {why}" for case, why in found.items())


@pytest.mark.slow
def test_the_recorders_own_tool_agrees_over_the_wire(tmp_path: Path) -> None:
    """A few of the files against a real `fairlead up`, with the configuration under which all were recorded."""
    folder = GOLDEN / "scheduler"
    config = tmp_path / "scheduler.yaml"
    config.write_text((folder / "profiles.yaml").read_text().split("\n---\n")[0])
    without = ("--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
    options = ("--components", "api,scheduler", *without, "--scheduler-config", str(config))
    with fairlead_up(tmp_path / "data", *options) as up:
        command = [sys.executable, str(GOLDEN / "scheduler.py"), "check", "--kubeconfig", str(up.kubeconfig)]
        files = [str(folder / f"{name}.yaml") for name in ("events", "profiles", "retry")]
        done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
