"""Pods with devices of plugins on a real node: the scheduler counts, the plugin gives, the container has them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from fairlead.agent.device_plugins.messages import Allocated, DeviceSpec, MountSpec
from fairlead.api.builtin import NODES
from fairlead.api.objects import Obj
from tests.agent.device_driver import short as short
from tests.agent.device_plugin import RESOURCE, FakePlugin, offering
from tests.agent.machine import in_loop
from tests.agent.oci_node import NODE, RealNode, is_phase, manifest, real_node, state
from tests.agent.runtime_place import on_each

ZERO = Allocated(
    envs={"ZERO": "from the plugin", "SAID": "by the plugin"},
    devices=[DeviceSpec(container_path="/dev/naught", host_path="/dev/zero", permissions="rw")],
    mounts=[MountSpec(container_path="/etc/machine", host_path="/etc/hostname", read_only=True)],
)


def with_zeros(name: str, command: str, count: int = 1, **spec: object) -> Obj:
    return manifest(
        name,
        "sh",
        "-c",
        command,
        spec=spec,
        resources={"limits": {RESOURCE: str(count)}},
        env=[{"name": "SAID", "value": "by the pod"}],
    )


async def node_has(node: RealNode, capacity: str | None, allocatable: str | None) -> None:
    """Return once its status says so."""
    shown: Obj = {}
    try:
        async with asyncio.timeout(20):
            while shown != {"capacity": capacity, "allocatable": allocatable}:
                status = (await node.api.get(NODES, NODE)).obj()["status"]
                shown = {each: status[each].get(RESOURCE) for each in ("capacity", "allocatable")}
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(shown) from None


@on_each
@in_loop
async def test_a_container_has_the_device_the_files_and_the_variables_of_its_plugin(short: Path, kind: str) -> None:
    async with real_node(short, kind=kind) as node, offering(FakePlugin(node.root, given=ZERO)) as plugin:
        await node_has(node, "3", "3")
        seen = "$ZERO, $SAID, $(head -c 2 /dev/naught | wc -c), $(cat /etc/machine)"
        command = f"echo {seen} > /dev/termination-log; touch /etc/machine 2>/dev/null && exit 3; exit 0"
        await node.create(with_zeros("p", command, restartPolicy="Never"))
        pod = await node.until("p", is_phase("Succeeded"))
        words = [part.strip() for part in state(pod)["state"]["terminated"]["message"].split(",")]
        assert words == ["from the plugin", "by the pod", "2", socket.gethostname()]
        assert plugin.asked == ["allocate zero-0"]
