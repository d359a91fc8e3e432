"""A machine that goes down: its pods end in order, in the time that the configuration gives, and it waits for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dbus_fast import Message
from dbus_fast.aio import MessageBus

from fairlead.agent.shutdown import logind as our_logind
from fairlead.agent.shutdown import setting as our_setting
from fairlead.agent.shutdown.logind import NoLogind, connected
from fairlead.agent.shutdown.shutdown import STATE
from fairlead.api.builtin import NODES, PRIORITY_CLASSES
from fairlead.api.objects import Obj
from tests.agent.logind import MANAGER, bus, logind, with_bus
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node, state

#: Outlives no SIGTERM by itself: writes down when it got one.
ENDS = ("sh", "-c", "trap 'echo asked to end; exit 0' TERM; sleep 1000 & wait")
STAYS = ("sh", "-c", "trap '' TERM; while true; do sleep 1; done")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """That of the system bus."""
    with bus(tmp_path / "bus") as found:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", found)
        monkeypatch.setattr(our_setting, "SETTING", setting(tmp_path))
        yield found


def setting(tmp_path: Path) -> Path:
    return tmp_path / "logind.conf.d" / "99-fairlead.conf"


def times(root: Path) -> Obj:
    """When the last shutdown was, as the agent keeps it for the next one to show."""
    found: Obj = json.loads((root / STATE).read_bytes())["data"]
    return found


async def ready(node: RealNode) -> Obj:
    conditions = (await node.api.get(NODES, NODE)).obj()["status"]["conditions"]
    found: Obj = next(each for each in conditions if each["type"] == "Ready")
    return found


async def until_ready(node: RealNode, status: str, message: str) -> None:
    async with asyncio.timeout(20):
        assert node.agent is not None
        await node.agent.registered.wait()
        while (found := await ready(node))["status"] != status or message not in found["message"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@with_bus
@real_containers
@in_loop
async def test_pods_end_before_the_machine_the_important_ones_last(tmp_path: Path, address: str) -> None:
    document = {"shutdownGracePeriod": "8s", "shutdownGracePeriodCriticalPods": "4s"}
    async with logind(address, setting(tmp_path)) as machine, real_node(tmp_path / "node", document) as node:
        async with asyncio.timeout(20):
            await machine.locked()
        assert setting(tmp_path).read_text().endswith("[Login]\nInhibitDelayMaxSec=8\n")
        assert machine.asked == [["shutdown", "fairlead", "the node needs time to end its pods", "delay"]]
        critical = {"priorityClassName": "system-node-critical"}
        await node.create(manifest("usual", *ENDS))
        await node.create(manifest("critical", *ENDS, spec=critical))
        await node.until("usual", is_running)
        await node.until("critical", is_running)

        await machine.announce(is_going_down=True)

        await node.create(manifest("late", *ENDS))
        late = await node.until("late", is_phase("Failed"))
        assert late["status"]["reason"] == "NodeShutdown"
        assert late["status"]["message"] == "Pod was rejected: Pod was rejected as the node is shutting down."
        async with asyncio.timeout(20):
            await machine.free()
        assert node.remains() == []
        usual, important = await node.pod("usual"), await node.pod("critical")
        for pod in (usual, important):
            message = "Pod was terminated in response to imminent node shutdown."
            status = pod["status"]
            assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Terminated", message)
            disruption = next(each for each in status["conditions"] if each["type"] == "DisruptionTarget")
            assert (disruption["reason"], disruption["message"]) == ("TerminationByKubelet", message)
        assert node.log("usual") == ["asked to end"]
        ends = [state(pod)["state"]["terminated"]["finishedAt"] for pod in (usual, important)]
        assert ends == sorted(ends)
        await until_ready(node, "False", "node is shutting down")
        assert await node.told_of_node("NodeShutdown") == ["Shutdown manager detected shutdown event"]

        assert 0 < times(node.root)["began"] < times(node.root)["ended"]

        await machine.announce(is_going_down=False)
        await until_ready(node, "True", "kubelet is posting ready status")
        async with asyncio.timeout(20):
            await machine.locked()
        await node.create(manifest("again", *ENDS))
        await node.until("again", is_running)


@with_bus
@real_containers
@in_loop
async def test_a_pod_that_does_not_end_is_killed_when_its_priority_has_had_its_time(
    tmp_path: Path, address: str
) -> None:
    periods = [{"priority": 0, "shutdownGracePeriodSeconds": 2}, {"priority": 1000, "shutdownGracePeriodSeconds": 1}]
    document = {"shutdownGracePeriodByPodPriority": periods}
    async with logind(address, setting(tmp_path)) as machine, real_node(tmp_path / "node", document) as node:
        async with asyncio.timeout(20):
            await machine.locked()
        assert not setting(tmp_path).exists()  # it waits long enough
        await node.api.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await node.create(manifest("stays", *STAYS, spec={"terminationGracePeriodSeconds": 600}))
        await node.create(manifest("high", *ENDS, spec={"priorityClassName": "high"}))
        await node.until("stays", is_running)
        await node.until("high", is_running)
        await machine.announce(is_going_down=True)
        async with asyncio.timeout(20):
            await machine.free()
        ended = await node.until("stays", is_phase("Failed"))
        assert state(ended)["state"]["terminated"]["exitCode"] == 137
        assert (await node.until("high", is_phase("Failed")))["status"]["reason"] == "Terminated"


@pytest.mark.slow
@with_bus
@real_containers
@in_loop
async def test_a_node_whose_machine_would_not_wait_says_so_and_goes_on(tmp_path: Path, address: str) -> None:
    async with real_node(tmp_path / "node", {"shutdownGracePeriod": "8s"}) as node:
        await until_ready(
            node, "True", "pods would not be given time to end in a shutdown: Get of org.freedesktop.login1"
        )
        async with logind(address, setting(tmp_path)) as machine:  # it has been restarted, say
            async with asyncio.timeout(20):
                await machine.locked()
            await node.create(manifest("p", *ENDS))
            await node.until("p", is_running)
            async with asyncio.timeout(20):
                while "shutdown" in (await ready(node))["message"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


@with_bus
@in_loop
async def test_a_logind_that_cannot_be_told_to_wait_is_named(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(our_logind, "CALL_SECONDS", 0.5)
    async with logind(address, setting(tmp_path)) as machine:
        machine.obeys = False
        with pytest.raises(NoLogind, match=r"systemd-logind waits for 5 s at most \(InhibitDelayMaxSec\), whatever"):
            async with connected(8.0):
                pass


@with_bus
@in_loop
async def test_nobody_but_logind_is_believed(tmp_path: Path, address: str) -> None:
    async with logind(address, setting(tmp_path)) as machine, connected(1.0) as ours:
        stranger = await MessageBus(address).connect()
        for unique_name in (None, machine.clients[-1]):  # to everybody, and to us
            lie = Message.new_signal("/org/freedesktop/login1", MANAGER, "PrepareForShutdown", "b", [True])
            lie.destination = unique_name
            await stranger.send(lie)
        await stranger.call(Message("org.freedesktop.DBus", "/", "org.freedesktop.DBus.Peer", "Ping"))
        await machine.announce(is_going_down=False)
        async with asyncio.timeout(20):
            assert await anext(ours.news()) is False
        stranger.disconnect()


@with_bus
@in_loop
async def test_a_bus_that_goes_away_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as there:
        address = there.enter_context(bus(tmp_path / "bus"))
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        async with logind(address, setting(tmp_path)), connected(1.0) as ours:
            there.close()
            async with asyncio.timeout(20):
                assert [each async for each in ours.news()] == []


@in_loop
async def test_without_a_bus_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'none'}")
    with pytest.raises(NoLogind, match="the system bus cannot be reached"):
        async with connected(8.0):
            pass
