"""`fairlead up --node-runtime process` of a user without root, with real kubectl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from fairlead.api.objects import Obj
from fairlead.client.kubeconfig import load
from tests.agent.machine import NO_RECLAIM, root_file_system
from tests.agent.network.nodes import eventually
from tests.agent.runtime_place import IMAGE, WORLD
from tests.agent.unprivileged import (
    as_user,
    environment,
    fairlead_command,
    home,
    processes,
    run_as_user,
    user_pods,
)
from tests.conftest import TESTS
from tests.processes import Up, fairlead_up, free_port

pytestmark = user_pods

BEGINNING = "echo begun > /e/begun; echo \"NAME='in a file'\" > /e/env"


@dataclass
class UserNode:
    folder: Path
    kubectl_path: Path
    up: Up | None = None

    @property
    def root(self) -> Path:
        return self.folder / ".local/share/fairlead"

    @contextmanager
    def running(self) -> Iterator[Up]:
        config = self.folder / "kubelet.yaml"
        options = ["--node-runtime", "process", "--node-config", str(config)]
        with fairlead_up(self.folder / "data", *options, within=[*_with_home(self.folder), *as_user()]) as up:
            self.up = up
            yield up

    def kubectl(self, *words: str, typed: str = "") -> str:
        assert self.up is not None
        command = [str(self.kubectl_path), "--kubeconfig", str(self.up.kubeconfig), *words]
        done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    @contextmanager
    def beside(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A kubectl that goes on while the block runs."""
        assert self.up is not None
        command = [str(self.kubectl_path), "--kubeconfig", str(self.up.kubeconfig), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                process.terminate()

    def apply(self, *manifests: Obj) -> None:
        said = self.kubectl("apply", "-f", "-", typed=yaml.safe_dump_all(manifests))
        assert said.count("created") == len(manifests), said

    def status(self, pod: str, container: str = "c") -> Obj:
        found: Obj = json.loads(self.kubectl("get", "pod", pod, "-o", "json"))["status"]
        every = (*found.get("containerStatuses", ()), *found.get("initContainerStatuses", ()))
        return next((each for each in every if each["name"] == container), {})

    def reset(self) -> str:
        return run_as_user(self.folder, *fairlead_command("node", "reset"))


def _with_home(folder: Path) -> list[str]:
    return ["env", f"HOME={folder}", "XDG_DATA_HOME=", "PYTHONDONTWRITEBYTECODE=1"]


@pytest.fixture
def node(kubectl_path: Path) -> Iterator[UserNode]:
    with home() as folder:
        rootfs = root_file_system(folder / "rootfs")
        run_as_user(folder, *fairlead_command("images", "load", str(rootfs), "--name", IMAGE, "--cmd", "sh"))
        kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        (folder / "kubelet.yaml").write_text(yaml.safe_dump({**kind, **NO_RECLAIM}))
        found = UserNode(folder, kubectl_path)
        try:
            yield found
        finally:
            found.reset()


def pod(name: str, *containers: Obj, **spec: object) -> Obj:
    each = [{"name": "c", "image": IMAGE, "imagePullPolicy": "Never", **container} for container in containers]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": each, "terminationGracePeriodSeconds": 1, **spec},
    }


def shell(script: str, **fields: object) -> Obj:
    return {"command": ["sh", "-c", script], **fields}


def test_a_user_without_root_runs_pods_and_leaves_nothing(node: UserNode) -> None:
    port, shared = free_port(), {"name": "e", "mountPath": "/e"}
    whole = pod(
        "whole",
        shell(
            "cat /e/begun /s/key; echo $NAMED; id -u; touch /e/mine /nowhere; hostname; sleep 1000",
            securityContext={"runAsUser": 1000, "runAsNonRoot": True, "readOnlyRootFilesystem": True},
            volumeMounts=[shared, {"name": "s", "mountPath": "/s", "readOnly": True}],
            env=[{"name": "NAMED", "valueFrom": {"fileKeyRef": {"volumeName": "e", "path": "env", "key": "NAME"}}}],
        ),
        shell(f"while true; do echo served | nc -l -p {port}; done", name="server", readinessProbe=_probe("true")),
        initContainers=[{**shell(BEGINNING, volumeMounts=[shared]), "name": "i", "image": IMAGE}],
        volumes=[{"name": "e", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "s"}}],
        securityContext={"fsGroup": 3000},
    )
    greedy = shell("x=a; while true; do x=$x$x; done", resources={"limits": {"memory": "16Mi"}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "secret\n"}}
    rooted = pod("rooted", shell("sleep 1", securityContext={"privileged": True}))
    with node.running() as up:
        assert "this machine as node" in up.greeting
        node.apply(secret, whole, pod("greedy", greedy), rooted)
        said = node.kubectl("wait", "--for=condition=Ready", "pod/whole", "--timeout=30s")
        assert "condition met" in said, said + node.kubectl("describe", "pod", "whole")
        expected = sorted(["begun", "secret", "in a file", "1000", "touch: /nowhere: Read-only file system", "whole"])
        eventually(lambda: sorted(node.kubectl("logs", "whole", "-c", "c").splitlines()) == expected)
        look = ("sh", "-c", "id -u; cat; ls /; ps; exit 7")
        said = node.kubectl("exec", "-i", "whole", "-c", "c", "--", *look, typed="typed\n")
        assert said.startswith("1000\ntyped\nbin\n") and said.endswith("command terminated with exit code 7\n")
        assert str(node.folder) not in said and "pytest" not in said
        server = ("sh", "-c", "echo https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT")
        assert node.kubectl("exec", "whole", "-c", "c", "--", *server).strip() == load(up.kubeconfig).server
        forwarded = free_port()
        with node.beside("port-forward", "whole", f"{forwarded}:{port}") as forwarding:
            assert forwarding.stdout is not None and forwarding.stdout.readline()
            asked = ["busybox", "nc", "127.0.0.1", str(forwarded)]
            told = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
            assert told.stdout == b"served\n"
        eventually(lambda: node.status("greedy").get("restartCount", 0) > 0)
        ended = node.status("greedy")["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        message = "jsonpath={.status.message}"
        refused = "spec.containers[0].securityContext.privileged true is not supported by this node"
        assert refused in node.kubectl("get", "pod", "rooted", "-o", message)
        ready = 'jsonpath={.items[0].status.conditions[?(@.type=="Ready")].message}'
        warnings = node.kubectl("get", "nodes", "-o", ready)
        assert "memory limits are enforced by looking twice a second" in warnings
        assert "pods have the network of this machine" in warnings
        assert "deleted" in node.kubectl("delete", "pod", "greedy", "rooted")
        up.process.send_signal(signal.SIGINT)
        assert up.process.stdout is not None
        assert "Stopped. 2 containers run on; fairlead node reset would end them." in up.process.stdout.read()
    assert node.reset() == "Removed 1 pod, 3 containers.\n"
    eventually(lambda: not processes(node.folder))
    assert sorted(path.name for path in node.root.iterdir()) == ["images"]


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["agent", "cluster"])
def test_what_runs_outlives_its_agent_and_is_found_again(node: UserNode, killed: str) -> None:
    script = "trap 'echo told; exit 0' TERM; echo began; while true; do sleep 0.1; done"
    stopped = {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /m/said"]}}}}
    memory = {"volumeMounts": [{"name": "m", "mountPath": "/m"}]}
    volumes = [{"name": "m", "emptyDir": {"medium": "Memory"}}]
    lasting = pod("lasting", shell(script, **stopped, **memory), volumes=volumes)
    with node.running() as up:
        node.apply(lasting)
        eventually(lambda: node.kubectl("logs", "lasting") == "began\n")
        node.kubectl("exec", "lasting", "--", "sh", "-c", "echo kept > /m/said")
        (agent,) = (pid for pid, words in processes(node.folder).items() if "fairlead.cli.prepared" in words)
        os.kill(agent if killed == "agent" else up.process.pid, signal.SIGKILL)
        up.process.wait(10)
    with node.running():
        eventually(lambda: node.kubectl("exec", "lasting", "--", "cat", "/m/said") == "kept\n")
        assert node.status("lasting")["restartCount"] == 0
        eventually(lambda: node.kubectl("top", "pod", "lasting", "--no-headers").startswith("lasting"), 40)
        with node.beside("logs", "-f", "lasting") as following:
            assert "deleted" in node.kubectl("delete", "pod", "lasting")
            assert following.communicate(timeout=20)[0] == b"began\ntold\n"
    eventually(lambda: not processes(node.folder))  # with the last pod goes what kept its mounts
    assert node.reset() == "Removed 0 pods, 0 containers.\n"


def _probe(*command: str) -> Obj:
    return {"exec": {"command": list(command)}, "periodSeconds": 1}


@pytest.mark.slow
def test_of_many_who_come_at_once_one_makes_the_namespace_of_the_node(node: UserNode) -> None:
    """The others are told that it has the folder, or find it clean."""
    command = as_user(*fairlead_command("node", "reset"))
    coming = [
        subprocess.Popen(command, cwd=node.folder, env=environment(node.folder), stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for each in coming:
        said = each.communicate(timeout=60)[1]
        assert each.returncode == 0 or "a node agent runs with" in said
    assert processes(node.folder) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("module", "count"), [("runtimes", 14), ("hostile_containers", 12)])
def test_its_runtime_is_held_to_what_is_asked_of_it(node: UserNode, module: str, count: int) -> None:
    """The tests of other modules, in the world of a user."""
    where = ["--rootdir", str(TESTS.parent), "-c", str(TESTS.parent / "pyproject.toml"), "-p", "no:cacheprovider"]
    tests = [fairlead_command()[0], "-m", "pytest", *where, "-n", "0", str(TESTS / "agent" / f"test_{module}.py")]
    env = {**environment(node.folder), WORLD: "1", "PYTEST_DEBUG_TEMPROOT": str(node.folder)}
    command = as_user("unshare", "--user", "--mount", "--map-root-user", *tests)
    done = subprocess.run(command, cwd=node.folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and f"{count} passed" in done.stdout, done.stdout[-3000:] + done.stderr[-1000:]
