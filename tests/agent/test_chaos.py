"""Keepers, first processes of containers, and the agent are killed at random for a while; then all is as it should be.

FAIRLEAD_CHAOS_SECONDS and FAIRLEAD_CHAOS_SEED say for how long, and by which chance.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.api.objects import Obj
from fairlead.cli.main import main
from tests.agent.machine import NO_RECLAIM, own_cgroup, real_containers, root_file_system
from tests.agent.network.namespaces import Namespace, Wire, real
from tests.agent.oci_node import manifest, state
from tests.agent.runtime_place import IMAGE
from tests.processes import Up, fairlead_up

NODE = "chaotic"
SECONDS = float(os.environ.get("FAIRLEAD_CHAOS_SECONDS", "25"))
SEED = int(os.environ.get("FAIRLEAD_CHAOS_SEED", "17"))
WORD = "99992"
FOREVER = ("sh", "-c", f"trap 'exit 0' TERM; sleep {WORD} & wait")
SETTLED_SECONDS = 90


def _pods() -> Iterator[Obj]:
    for number in range(3):
        yield manifest(f"always-{number}", *FOREVER)
    for number in range(2):
        first = {"name": "first", "image": IMAGE, "command": ["sleep", "0.2"]}
        sidecar = {"name": "beside", "image": IMAGE, "command": list(FOREVER), "restartPolicy": "Always"}
        yield manifest(f"beside-{number}", *FOREVER, spec={"initContainers": [first, sidecar]})
    volumes = [{"name": "memory", "emptyDir": {"medium": "Memory"}}, {"name": "disk", "emptyDir": {}}]
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    yield manifest("volumes", *FOREVER, volumeMounts=mounts, spec={"volumes": volumes})
    yield manifest("together", *FOREVER, spec={"shareProcessNamespace": True})
    yield manifest("task", "sleep", "3", spec={"restartPolicy": "OnFailure"})
    yield manifest("long-task", *FOREVER[:2], f"sleep {WORD}", spec={"restartPolicy": "OnFailure"})
    yield manifest("once", "sh", "-c", f"sleep {WORD}", spec={"restartPolicy": "Never"})


#: How many processes that go on for ever a pod has.
_PROCESSES = {"beside-0": 2, "beside-1": 2, "task": 0}


@dataclass
class _Node:
    up: Up
    netns: Namespace
    folder: Path
    cgroup: str
    chance: random.Random
    agent: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        return self.folder / "node"

    def fairlead(self, *words: str) -> list[str]:
        return ["nsenter", f"--net={self.netns.path}", sys.executable, "-m", "fairlead", *words]

    def kubectl(self, *words: str, typed: str = "") -> str:
        command = ["nsenter", f"--net={self.netns.path}", "kubectl", "--kubeconfig", str(self.up.kubeconfig), *words]
        done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def pods(self) -> list[Obj]:
        found: list[Obj] = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return found

    def write_kubeconfigs(self) -> None:
        users = {"node": [f"system:node:{NODE}", "--group", "system:nodes"], "network": ["system:fairlead:network"]}
        for name, user in users.items():
            result = CliRunner().invoke(main, ["kubeconfig", "--data-dir", str(self.up.data_dir), "--user", *user])
            assert result.exit_code == 0, result.output
            (self.folder / f"{name}.kubeconfig").write_text(result.output)

    def start(self) -> None:
        where = ["--kubeconfig", str(self.folder / "node.kubeconfig"), "--root", str(self.root), "--node-name", NODE]
        where += ["--network-kubeconfig", str(self.folder / "network.kubeconfig")]
        where += ["--config", str(self.folder / "kubelet.yaml")]
        with (self.folder / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(self.fairlead("node", "run", *where), stdout=log, stderr=log)

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait()

    def mayhem(self) -> None:
        began = time.monotonic()
        while time.monotonic() < began + SECONDS:
            time.sleep(self.chance.random() * 1.5)
            what = self.chance.choices(["keeper", "first", "both", "agent"], [4, 4, 1, 1.5])[0]
            if what == "agent":
                self.kill_agent()
                time.sleep(self.chance.random() * 2)
                self.start()
                continue
            keepers, firsts = self.keepers(), self.firsts()
            for pids in {"keeper": [keepers], "first": [firsts], "both": [keepers, firsts]}[what]:
                for pid in self.chance.sample(sorted(pids), min(len(pids), self.chance.choice([1, 1, 1, 3]))):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def keepers(self) -> set[int]:
        return {pid for pid, words in _processes() if words[0].endswith(b"conmon") and self._ours(words)}

    def _ours(self, words: list[bytes]) -> bool:
        return any(os.fsencode(self.root) in word for word in words)

    def firsts(self) -> set[int]:
        """The first process of each container."""
        cgroups, found = Cgroups(hierarchies()), set()
        for pod in self.cgroups():
            for container in cgroups.children(f"{self.cgroup}/kubepods/besteffort/{pod}"):
                if pids := cgroups.processes(f"{self.cgroup}/kubepods/besteffort/{pod}/{container}"):
                    found.add(min(pids))
        return found

    def cgroups(self) -> set[str]:
        return set(Cgroups(hierarchies()).children(f"{self.cgroup}/kubepods/besteffort"))

    def running(self) -> dict[str, int]:
        """How many of the processes that go on for ever there are, by uid of the pod."""
        cgroups, found = Cgroups(hierarchies()), {}
        words = {pid for pid, each in _processes() if each[0].endswith(b"sleep") and WORD.encode() in each}
        for name in self.cgroups():
            inside = cgroups.processes(f"{self.cgroup}/kubepods/besteffort/{name}")
            if count := len(inside & words):
                found[name.removeprefix("pod")] = count
        return found

    def unsettled(self) -> list[str]:
        """What is not as restart policies want it."""
        pods, wrong, wanted = self.pods(), [], {}
        for pod in pods:
            name, phase = pod["metadata"]["name"], pod["status"]["phase"]
            if name == "task":
                is_so = phase == "Succeeded"
            elif name == "once":
                is_so = phase in ("Running", "Failed")
            else:
                ready = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
                is_so = phase == "Running" and ready["Ready"] == "True" and "running" in state(pod)["state"]
            if not is_so:
                wrong.append(f"{name}: {pod['status']}")
            if phase == "Running":
                wanted[pod["metadata"]["uid"]] = _PROCESSES.get(name, 1)
        wanted = {uid: count for uid, count in wanted.items() if count}
        if wanted != (running := self.running()):
            wrong.append(f"processes: {running} instead of {wanted}")
        if len(self.keepers()) != sum(wanted.values()):
            wrong.append(f"keepers: {len(self.keepers())} for {sum(wanted.values())}")
        return wrong

    def settle(self) -> None:
        began = time.monotonic()
        while wrong := self.unsettled():
            if time.monotonic() > began + SETTLED_SECONDS:
                raise AssertionError("\n".join([*wrong, (self.folder / "agent.log").read_text()[-5000:]]))
            time.sleep(0.5)

    def left(self) -> list[str]:
        found = [f"mount {path}" for path in linux.mount_points(self.root)]
        mine = [words for _, words in _processes() if self._ours(words) or WORD.encode() in words]
        found += [f"process {words}" for words in mine]
        found += [f"cgroup {name}" for name in Cgroups(hierarchies()).children(self.cgroup)]
        found += [f"file {path}" for path in self.root.iterdir() if path.name != "images"]
        return found


def _processes() -> Iterator[tuple[int, list[bytes]]]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(path.name), (path / "cmdline").read_bytes().split(b"\0")


def _network(machine: Namespace) -> list[str]:
    return [machine.run(command) for command in ("nft list tables", "ip -o link show", "ip -4 route show")]


@pytest.mark.slow
@real_containers
@real
def test_after_a_while_of_mayhem_pods_are_as_they_should_be_and_nothing_is_left(tmp_path: Path) -> None:
    with contextlib.closing(Wire()) as wire, own_cgroup(Cgroups(hierarchies())) as cgroup:
        netns = wire.host("node", 1)
        before = _network(netns)
        kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        soon = {
            "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
            "featureGates": {"KubeletCrashLoopBackOffMax": True},
        }
        config = {**kind, "cgroupRoot": cgroup, "failCgroupV1": False, **NO_RECLAIM, **soon}
        (tmp_path / "kubelet.yaml").write_text(yaml.safe_dump(config))
        rootfs = root_file_system(tmp_path / "rootfs")
        loading = ["images", "load", "--root", str(tmp_path / "node"), "--name", IMAGE, "--cmd", "sh", str(rootfs)]
        assert CliRunner().invoke(main, loading).exit_code == 0
        with fairlead_up(tmp_path / "data", "--nodes", "0", within=["nsenter", f"--net={netns.path}"]) as up:
            node = _Node(up, netns, tmp_path, cgroup, random.Random(SEED))
            try:
                node.write_kubeconfigs()
                node.start()
                kinds = {"apiVersion": "v1", "kind": "Pod"}
                node.kubectl("create", "-f", "-", typed=yaml.safe_dump_all({**kinds, **pod} for pod in _pods()))
                node.mayhem()
                node.settle()
                node.kill_agent()
                node.start()
                node.settle()
            finally:
                node.kill_agent()
                subprocess.run(node.fairlead("node", "reset", "--root", str(node.root)), check=True)
        assert node.left() == []
        assert _network(netns) == before
