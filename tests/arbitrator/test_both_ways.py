"""T1 to T3 of the documents twice: in one process over the registry, in virtual time; and over HTTP, an arbitrator
process beside an API server whose scheduler asks it as an extender (SC-58; S2-08, S2-44, S2-47).
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.api import builtin
from fairlead.arbitrator.objects import GATE
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load
from fairlead.runtime.loops import run
from tests.arbitrator.world import World, scene
from tests.played import played
from tests.processes import Up, component, fairlead_up, free_port

#: 2Gi for pods: the node's kubelet keeps 100Mi.
ONE_NODE = ("--nodes", "1", "--node-cpu", "2", "--node-memory", "2148Mi")


async def _t1_to_t3(world: World) -> None:
    await world.namespace("consumer-1", evictionGrace="2s")
    await world.controller("consumer-1", "a", 2)
    await world.until(lambda: world.are_running(("consumer-1",), [2]))
    await world.namespace("consumer-2")
    await world.controller("consumer-2", "b", 1)
    await world.until(lambda: world.are_running(("consumer-1", "consumer-2"), [1, 1]))
    await world.settle()
    assert await world.running("consumer-1", "consumer-2") == [1, 1]
    assert len(world.evicted) == 1


@played(scene, cpu="2", memory="2Gi")
async def test_over_the_registry(world: World) -> None:
    await _t1_to_t3(world)
    (message,) = await world.why("consumer-1")
    assert "Allocation consumer-1" in message  # an extender is not asked once no node has room


@pytest.mark.slow
def test_over_http_with_an_extender(tmp_path: Path) -> None:
    port = free_port()
    extender = {"urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "nodeCacheCapable": True}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    }
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    asked = ("--scheduler-config", str(file))
    with (
        fairlead_up(tmp_path / "data", *ONE_NODE, *asked) as up,
        component(up, "arbitrator", "--listen", f"127.0.0.1:{port}"),
    ):
        run(_over_http(up, _t1_to_t3))


@pytest.mark.slow
def test_another_arbitrator_takes_over_what_the_first_began(tmp_path: Path) -> None:
    """Killed when it had given notice: the second evicts one pod, not two. Pods wait behind the arbitrator's gate."""

    async def act(world: World) -> None:
        gates: dict[str, Any] = {"schedulingGates": [{"name": GATE}]}
        await world.namespace("consumer-1", evictionGrace="5s")
        await world.controller("consumer-1", "a", 2, **gates)
        await world.until(lambda: world.are_running(("consumer-1",), [2]))
        await world.namespace("consumer-2")
        await world.controller("consumer-2", "b", 1, **gates)
        await world.until(lambda: _has_notice(world))
        first.send_signal(signal.SIGKILL)
        await world.until(lambda: world.are_running(("consumer-1", "consumer-2"), [1, 1]), seconds=60)
        await world.settle()
        assert len(world.evicted) == 1

    with (
        fairlead_up(tmp_path / "data", *ONE_NODE) as up,
        component(up, "arbitrator", ends_with=-signal.SIGKILL) as first,
    ):
        run(_over_http(up, _until_led))
        with component(up, "arbitrator"):
            run(_over_http(up, act))


async def _until_led(world: World) -> None:
    async def is_led() -> bool:
        leases = await world.api.list(builtin.LEASES, "kube-system")
        return any(lease.obj()["metadata"]["name"] == "fairlead-arbitrator" for lease in leases.items)

    await world.until(is_led)


async def _has_notice(world: World) -> bool:
    return bool((await world.status("consumer-1")).get("proposal"))


async def _over_http(up: Up, act: Callable[[World], Awaitable[None]]) -> None:
    async with HttpApi(load(up.kubeconfig), user_agent="test") as api:
        world = World(api)
        async with world.watching():
            await act(world)
