"""Every module can be imported by itself, on every Python: also those that no other test needs there."""

from __future__ import annotations

import subprocess
import sys

_EACH = """
import importlib, pkgutil, warnings
import fairlead
warnings.filterwarnings("error", category=DeprecationWarning, module="fairlead")
for module in pkgutil.walk_packages(fairlead.__path__, "fairlead."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_every_module_can_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _EACH], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
