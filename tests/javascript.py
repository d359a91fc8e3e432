"""The JavaScript client (`@kubernetes/client-node`) from npm, installed once per machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

#: The newest that runs on Node 20.
PACKAGE = "@kubernetes/client-node@1"
FOLDER = Path(tempfile.gettempdir()) / f"fairlead-node-{os.getuid()}"


def client_modules() -> Path:
    """A folder in which the client is installed; the test is skipped where it cannot be."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node or npm here: nothing to run the JavaScript client with")
    if not (FOLDER / "node_modules" / "@kubernetes").exists():
        FOLDER.mkdir(exist_ok=True)
        done = subprocess.run(["npm", "install", "--no-fund", "--no-audit", PACKAGE], cwd=FOLDER, capture_output=True)
        if done.returncode:
            pytest.skip(f"npm cannot install the JavaScript client: {done.stderr.decode()[-200:]}")
    return FOLDER
