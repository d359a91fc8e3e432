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


def test_a_cluster_starts_without_what_few_need() -> None:
    """A third of a second of imports that wait for whoever uses them."""
    script = "import sys, fairlead.cli.up; print({'aiohttp', 'lark', 'zoneinfo'} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "set()"
