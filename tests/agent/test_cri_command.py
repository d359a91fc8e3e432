"""`fairlead up --node-runtime cri` and `fairlead node reset`, as processes."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.api.builtin import PODS
from fairlead.cli.main import main
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load
from tests.agent.containerd import Containerd, containerd, with_containerd
from tests.agent.machine import in_loop, own_cgroup, root_file_system, write_configuration
from tests.agent.oci_node import is_running, manifest
from tests.agent.runtime_place import IMAGE
from tests.processes import fairlead_up

pytestmark = with_containerd


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Containerd]:
    rootfs = root_file_system(tmp_path / "rootfs")
    with containerd(rootfs) as found:
        said = _invoke(
            "images",
            "load",
            str(rootfs),
            "--name",
            IMAGE,
            "--cmd",
            "sh",
            "--container-runtime-endpoint",
            found.endpoint,
        )
        assert IMAGE in said
        yield found


def _invoke(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    return result.output


@pytest.mark.slow
def test_a_cluster_whose_pods_containerd_runs(tmp_path: Path, daemon: Containerd, kubectl_path: Path) -> None:
    root, config = tmp_path / "node", tmp_path / "kubelet.yaml"
    with own_cgroup(Cgroups(hierarchies())) as cgroup:
        write_configuration(config, cgroup)
        options = ["--node-runtime", "cri", "--container-runtime-endpoint", daemon.endpoint]
        options += ["--node-root", str(root), "--node-config", str(config), "--cluster-network", "none"]
        with fairlead_up(tmp_path / "data", *options) as up:

            @in_loop
            async def run_a_pod() -> None:
                async with HttpApi(load(up.kubeconfig)) as api:
                    await api.create(PODS, manifest("web", "sh", "-c", "echo up; sleep 1000"), "default")
                    while not is_running((await api.get(PODS, "web", "default")).obj()):  # noqa: ASYNC110
                        await asyncio.sleep(0.1)

            def kubectl(*words: str, typed: str = "") -> str:
                command = [str(kubectl_path), "--kubeconfig", str(up.kubeconfig), *words]
                done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60)
                return done.stdout + done.stderr

            run_a_pod()
            assert kubectl("logs", "web") == "up\n"
            assert kubectl("exec", "web", "--", "hostname") == "web\n"
            assert kubectl("exec", "-i", "web", "--", "cat", typed="to and fro") == "to and fro"
            assert "exit code 3" in kubectl("exec", "web", "--", "sh", "-c", "exit 3")
            assert "nonsense" in kubectl("exec", "web", "--", "nonsense")
            version = "{.items[*].status.nodeInfo.containerRuntimeVersion}"
            assert kubectl("get", "nodes", "-o", f"jsonpath={version}").startswith("containerd://")
        other = _invoke("node", "run", "--kubeconfig", str(up.kubeconfig), "--root", str(root), "--config", str(config))
        assert "fairlead node reset first" in other
        daemon.stop()
        assert "does not answer" in _invoke("node", "reset", "--root", str(root))
        daemon.start()
        assert _invoke("node", "reset", "--root", str(root)) == "Removed 1 pod, 1 container.\n"
        assert not root.exists() and daemon.containers() == []
