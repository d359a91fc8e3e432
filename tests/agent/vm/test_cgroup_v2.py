"""cgroup v2, whatever this machine has: group kill, weights, protected memory, and a machine that runs out of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.agent.machine import missing as missing_containers
from tests.agent.vm.machine import missing, run_inside

_missing = missing() or missing_containers()

#: Software emulation on a busy machine; a quiet one takes a fraction.
_LONGEST_SECONDS = 900.0


@pytest.mark.slow
@pytest.mark.skipif(bool(_missing), reason=f"CGROUP V2 NOT TESTED: {_missing}")
def test_a_node_with_cgroup_v2(tmp_path: Path) -> None:
    """SC-28, SC-55, SC-56. The tests in there are those of inside.py; what they say is shown if one fails."""
    own = Path(__file__).with_name("inside.py")
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider", "--tb=short", "-v"]
    command += ["--color=no", str(own)]
    env = {"PATH": f"/usr/sbin:/sbin:{os.environ['PATH']}", "HOME": "/run", "TMPDIR": "/run"}
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}  # plugins take longer than tests
    plain |= {"PYTHONPATH": os.pathsep.join(sys.path)}  # the sources that are tested here
    ended = run_inside(command, tmp_path, memory_mib=1024, cpus=3, seconds=_LONGEST_SECONDS, env=env | plain)
    assert ended.code == 0, ended.output
