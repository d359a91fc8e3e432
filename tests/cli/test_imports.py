"""A command does not wait for libraries that it does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", ["up", "simulate"])
def test_a_cluster_of_this_process_does_without_an_http_client(command: str) -> None:
    code = f"import sys, fairlead.cli.{command}; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
