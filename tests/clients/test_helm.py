"""Helm, from the PyPI packages that carry kubectl."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Ways, deployment
from tests.examples import each_time
from tests.kubectl import helm

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\nappVersion: '1'\n",
    "values.yaml": "replicas: 1\n",
    "templates/config.yaml": """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}
data:
  replicas: {{ .Values.replicas | quote }}
  kube: {{ .Capabilities.KubeVersion.Version }}
  batch: {{ .Capabilities.APIVersions.Has "batch/v1/CronJob" | quote }}
""",
    "templates/service.yaml": """apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: web}, ports: [{port: 80}]}
""",
    "templates/hook.yaml": """apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-migrate
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: "before-hook-creation"}
spec:
  template:
    metadata: {annotations: {sim.fairlead.dev/lifetime-seconds: "0.1"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: migrate}]}
""",
}


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    web = json.dumps(deployment("web")).replace('"replicas": 2', '"replicas": {{ .Values.replicas }}')
    for name, text in (CHART | {"templates/web.yaml": web}).items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shop"


@pytest.mark.parametrize("way", each_time(["admin"], ["admin", "token"]))
def test_install_upgrade_roll_back_uninstall(ways: Ways, chart: Path, kubectl_path: Path, way: str) -> None:
    kubeconfig = getattr(ways, way)

    def run(*command: str | Path) -> str:
        where = ("--kubeconfig", str(kubeconfig), "-n", "team")
        done = subprocess.run([*map(str, command), *where], capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def replicas() -> Any:
        return json.loads(run(kubectl_path, "get", "deployment", "web", "-o", "json"))["status"]["readyReplicas"]

    run(helm(), "install", "shop", chart, "--wait", "--timeout", "60s")
    assert replicas() == 1
    run(helm(), "upgrade", "shop", chart, "--set", "replicas=3", "--wait", "--timeout", "60s")
    assert replicas() == 3
    listed = json.loads(run(helm(), "list", "-o", "json"))
    assert [(each["name"], each["revision"], each["status"]) for each in listed] == [("shop", "2", "deployed")]
    data = json.loads(run(kubectl_path, "get", "configmap", "shop", "-o", "json"))["data"]
    assert data == {"replicas": "3", "kube": "v1.36.0", "batch": "true"}
    run(helm(), "rollback", "shop", "1", "--wait", "--timeout", "60s")
    assert replicas() == 1
    run(helm(), "uninstall", "shop", "--wait", "--timeout", "60s")
    assert "NAME" not in run(kubectl_path, "get", "deployments,services")
