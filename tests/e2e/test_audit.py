"""The example of docs/audit.md with a real cluster and kubectl: who did what is in the file when the cluster stops."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.docs.test_audit import policy
from tests.kubectl import kubectl
from tests.processes import fairlead_up


def run(kubeconfig: Path, *arguments: str) -> None:
    subprocess.run([kubectl("1.36"), "--kubeconfig", kubeconfig, *arguments], check=True, capture_output=True)


def test_the_log_has_what_kubectl_did(tmp_path: Path) -> None:
    file, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    file.write_bytes(policy())
    options = ("--nodes", "0", "--audit-policy-file", str(file), "--audit-log-path", str(log))
    with fairlead_up(tmp_path / "data", *options) as up:
        run(up.kubeconfig, "create", "deployment", "web", "--image=nginx")
        run(up.kubeconfig, "create", "secret", "generic", "s", "--from-literal=password=open-sesame")
    text = log.read_text()
    events = [json.loads(line) for line in text.splitlines()]
    (made,) = (
        event for event in events if event.get("objectRef", {}).get("name") == "web" and event["verb"] == "create"
    )
    assert (made["level"], made["stage"], made["responseStatus"]["code"]) == ("Request", "ResponseComplete", 201)
    assert made["user"]["username"] == "kubernetes-admin"
    assert made["requestObject"]["spec"]["strategy"]["type"] == "RollingUpdate"  # the default of what was not said
    assert made["userAgent"].startswith("kubectl")
    (secret,) = (event for event in events if event.get("objectRef", {}).get("name") == "s")
    assert (secret["level"], "requestObject" in secret) == ("Metadata", False)
    assert "open-sesame" not in text
