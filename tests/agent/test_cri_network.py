"""Fairlead's network under containerd, on a machine of its own (a network namespace): it attaches the pods itself."""

from __future__ import annotations

import contextlib
import json
from functools import partial
from pathlib import Path

import pytest

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from tests.agent.containerd import containerd, with_containerd
from tests.agent.machine import own_cgroup, root_file_system
from tests.agent.network.namespaces import Wire, real
from tests.agent.network.nodes import eventually
from tests.agent.runtime_place import IMAGE
from tests.agent.test_node_network import (
    ADDRESS,
    HTTP,
    POLICY,
    SERVICE,
    Machine,
    got,
    is_fetched,
    left,
    machine_with,
    pod,
    within,
)


@pytest.mark.slow
@with_containerd
@real
def test_pods_of_containerd_have_services_ports_policies_and_names(tmp_path: Path, kubectl_path: Path) -> None:
    rootfs = root_file_system(tmp_path / "rootfs")
    with contextlib.closing(Wire()) as wire:
        netns, neighbour = wire.host("node", 1), wire.host("other", 2)
        before = left(netns)
        with (
            own_cgroup(Cgroups(hierarchies())) as cgroup,
            containerd(rootfs, within(netns), has_network=False) as daemon,
        ):
            daemon.load(f"docker.io/{IMAGE}", rootfs, Cmd=["sh"])
            runtime = ("--node-runtime", "cri", "--container-runtime-endpoint", daemon.endpoint)
            with contextlib.contextmanager(machine_with)(
                netns, neighbour, tmp_path, kubectl_path, cgroup, *runtime
            ) as machine:
                _use(machine)
            assert list((daemon.folder / "cni").iterdir()) == [] and daemon.containers() == []
        assert left(netns) == before


def _use(machine: Machine) -> None:
    web = {"ports": [{"name": "http", "containerPort": 8080, "hostPort": 8088}]}
    probe = {"readinessProbe": {"httpGet": {"port": "http", "path": "/hostname"}, "periodSeconds": 1}}
    machine.create(pod("web", *HTTP.split(), **web, **probe), pod("asker", "sleep", "1000"), SERVICE)
    machine.until_ready("web", "asker")
    status = json.loads(machine.kubectl("get", "pod", "web", "-o", "json"))["status"]
    assert status["podIP"].startswith("10.244.")
    eventually(partial(is_fetched, machine, "http://web.default.svc.cluster.local/hostname"))
    assert got(machine.neighbour, f"http://{ADDRESS}:8088/hostname") == "web"
    machine.create(POLICY)
    eventually(lambda: machine.fetched("asker", "http://web/hostname", seconds=1) == "")
