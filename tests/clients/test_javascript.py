"""The JavaScript client (`@kubernetes/client-node`), from npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.clients.conftest import Ways

#: The newest that runs on Node 20.
PACKAGE = "@kubernetes/client-node@1"
FOLDER = Path(tempfile.gettempdir()) / f"fairlead-node-{os.getuid()}"


@pytest.fixture(scope="session")
def modules() -> Path:
    """A folder in which the client is installed, once per machine."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no node or npm here: nothing to run the JavaScript client with")
    if not (FOLDER / "node_modules" / "@kubernetes").exists():
        FOLDER.mkdir(exist_ok=True)
        done = subprocess.run(["npm", "install", "--no-fund", "--no-audit", PACKAGE], cwd=FOLDER, capture_output=True)
        if done.returncode:
            pytest.skip(f"npm cannot install the JavaScript client: {done.stderr.decode()[-200:]}")
    return FOLDER


@pytest.mark.parametrize("way", ["admin", "certificate", "token"])
def test_create_list_patch_apply_watch_delete(ways: Ways, modules: Path, kubectl_path: Path, way: str) -> None:
    script = modules / "client.mjs"
    script.write_text(Path(__file__).with_name("client.mjs").read_text())
    namespace = "team"
    kubectl = [str(kubectl_path), "--kubeconfig", str(ways.admin), "-n", namespace]
    subprocess.run([*kubectl, "delete", "configmaps", "--all"], check=True, capture_output=True)
    command = ["node", str(script), str(getattr(ways, way)), namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=modules)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "listed": ["a"],
        "patched": {"k": "w", "m": "1", "s": "2"},
        "applied": "Apply",
        "informed": True,
        "refused": [409, "AlreadyExists"],
    }
