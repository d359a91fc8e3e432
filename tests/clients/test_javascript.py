"""The JavaScript client (`@kubernetes/client-node`), from npm."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Ways
from tests.examples import each_time
from tests.javascript import client_modules


@pytest.fixture(scope="session")
def modules() -> Path:
    return client_modules()


@pytest.mark.parametrize("way", each_time(["token"], ["admin", "certificate", "token"]))
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
