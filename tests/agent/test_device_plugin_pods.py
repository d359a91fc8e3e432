"""Pods with devices of plugins on a real node: the scheduler counts, the plugin gives, the container has them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.device_plugins.messages import (
    HEALTHY,
    Allocated,
    CdiName,
    Device,
    DeviceSpec,
    MountSpec,
    NumaNode,
    Options,
    Topology,
)
from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.pod_resources.lister import FOLDER as POD_RESOURCES
from fairlead.agent.pod_resources.messages import (
    GET,
    GET_ALLOCATABLE,
    LIST,
    LIST_V1ALPHA1,
    ContainerDevices,
    GetRequest,
)
from fairlead.agent.runtimes.oci.cdi import FOLDERS
from fairlead.api.builtin import NODES
from fairlead.api.objects import Obj
from tests.agent.device_driver import cdi_file
from tests.agent.device_driver import short as short
from tests.agent.device_plugin import RESOURCE, FakePlugin, offering
from tests.agent.machine import in_loop, real_containers, until
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import on_each

#: One of its own for each process of the tests: all describe theirs in one folder of the machine.
KIND = f"fairlead.test/zero-{os.getpid()}"
ZERO = Allocated(
    envs={"ZERO": "from the plugin", "SAID": "by the plugin"},
    devices=[DeviceSpec(container_path="/dev/naught", host_path="/dev/zero", permissions="rw")],
    mounts=[MountSpec(container_path="/etc/machine", host_path="/etc/hostname", read_only=True)],
)
SLEEPS = "sleep 1000"


def with_zeros(name: str, command: str = SLEEPS, count: int = 1, **spec: object) -> Obj:
    limits = {"limits": {RESOURCE: str(count)}}
    env = [{"name": "SAID", "value": "by the pod"}]
    return manifest(name, "sh", "-c", command, spec=spec, resources=limits, env=env)


async def node_has(node: RealNode, capacity: str, allocatable: str) -> None:
    """Return once its status says so."""
    shown: tuple[str, ...] = ()
    try:
        async with asyncio.timeout(20):
            while shown != (capacity, allocatable):
                status = (await node.api.get(NODES, NODE)).obj()["status"]
                shown = tuple(status[each].get(RESOURCE, "") for each in ("capacity", "allocatable"))
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(shown) from None


def health(pod: Obj) -> Obj:
    """Of the devices of its container, by id."""
    (shown,) = state(pod)["allocatedResourcesStatus"]
    assert shown["name"] == RESOURCE
    return {each["resourceID"]: each["health"] for each in shown["resources"]}


def devices(*ids: str) -> list[ContainerDevices]:
    return [ContainerDevices(resource_name=RESOURCE, device_ids=[id_]) for id_ in ids]


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


@pytest.fixture
def described() -> Iterator[str]:
    made = FOLDERS[1] / f"{KIND.replace('/', '-')}.json"
    try:
        yield cdi_file(made.parent, KIND, env=["DESCRIBED=yes"])
    finally:
        made.unlink(missing_ok=True)


@real_containers
@in_loop
async def test_a_container_has_what_its_plugin_names_by_cdi_and_all_of_a_folder(short: Path, described: str) -> None:
    folder = DeviceSpec(container_path="/dev/below", host_path="/dev/net", permissions="r")
    given = Allocated(cdi_devices=[CdiName(name=described)], devices=[folder])
    names = sorted(await asyncio.to_thread(os.listdir, folder.host_path))
    async with real_node(short) as node, offering(FakePlugin(node.root, given=given)):
        await node.create(with_zeros("p", "echo $DESCRIBED $(ls /dev/below); exec sleep 1000"))
        await node.until("p", is_running)
        await until(lambda: node.log("p") == [f"yes {' '.join(names)}"])


@real_containers
@in_loop
async def test_who_waits_for_a_device_gets_it_when_another_has_ended(short: Path) -> None:
    """Whoever hears of the end of a pod before its devices are free is refused for good."""
    async with real_node(short) as node, offering(FakePlugin(node.root)):
        await node_has(node, "3", "3")
        await node.create(with_zeros("first", "sleep 1", count=3, restartPolicy="Never"))
        await node.until("first", is_running)
        for name, before in (("second", "first"), ("third", "second")):
            await node.create(with_zeros(name, count=3))
            if before == "second":
                await node.delete(before, grace=1)
            await node.until(name, lambda pod: pod["status"]["phase"] != "Pending")
            await node.until(name, is_running)


@real_containers
@in_loop
async def test_a_pod_that_the_plugin_gives_nothing_is_refused(short: Path) -> None:
    async with real_node(short) as node, offering(FakePlugin(node.root)) as plugin:
        await node_has(node, "3", "3")
        plugin.allocate_error = "out of zeros"
        await node.create(with_zeros("p"))
        pod = await node.until("p", is_phase("Failed"))
        why = "Allocate failed due to rpc error: code = Unknown desc = out of zeros, which is unexpected"
        refused = pod["status"]["reason"], pod["status"]["message"]
        assert refused == ("UnexpectedAdmissionError", f"Pod was rejected: {why}")
        await node.told("p", "UnexpectedAdmissionError", why)
        plugin.allocate_error = ""
        await node.create(with_zeros("past-the-scheduler", count=4, nodeName=NODE))
        pod = await node.until("past-the-scheduler", is_phase("Failed"))
        why = f"requested number of devices unavailable for {RESOURCE}. Requested: 4, Available: 3"
        assert pod["status"]["message"] == f"Pod was rejected: Allocate failed due to {why}, which is unexpected"
        await node.create(with_zeros("q", count=3))
        await node.until("q", is_running)  # nothing of the others is left


@real_containers
@in_loop
async def test_a_container_whose_device_is_not_made_ready_waits_for_that(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.agent.pods.observed.CREATE_AGAIN_SECONDS", 0.5)
    options = Options(pre_start_required=True)
    async with real_node(short) as node, offering(FakePlugin(node.root, options=options)) as plugin:
        await node_has(node, "3", "3")
        plugin.pre_start_error = "still warming up"
        await node.create(with_zeros("p"))
        why = "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = still warming up"
        waiting = {"reason": "CreateContainerConfigError", "message": why}
        await node.until("p", lambda pod: state(pod).get("state") == {"waiting": waiting})
        plugin.pre_start_error = ""
        await node.until("p", is_running)


@real_containers
@in_loop
async def test_a_pod_keeps_its_device_over_restarts_and_shows_its_health(short: Path) -> None:
    async with real_node(short) as node:
        options = Options(pre_start_required=True)
        async with offering(FakePlugin(node.root, options=options, given=ZERO)) as plugin:
            await node_has(node, "3", "3")
            await node.create(with_zeros("p", "echo $ZERO; sleep 1; exit 1", restartPolicy="Always"))
            pod = await node.until("p", is_running)
            assert health(pod) == {"zero-0": "Healthy"}
            plugin.becomes("zero-0", "Unhealthy")
            await node.until("p", lambda pod: health(pod) == {"zero-0": "Unhealthy"})
            await node_has(node, "3", "2")
            await node.until("p", lambda pod: state(pod)["restartCount"] == 1)
            assert plugin.asked == ["allocate zero-0", "start zero-0", "start zero-0"]
        await node_has(node, "3", "0")
        await node.stop()
        await node.start()
        await node_has(node, "0", "0")  # until its plugin is there again
        await node.until("p", lambda pod: state(pod)["restartCount"] == 2, seconds=40)
        await until(lambda: node.log("p", attempt=2) == ["from the plugin"])
        async with offering(FakePlugin(node.root)) as plugin:
            await node_has(node, "3", "3")
            await node.create(with_zeros("q", count=2))
            await node.until("q", is_running)
            assert plugin.asked == ["allocate zero-1 zero-2"]


@real_containers
@in_loop
async def test_who_watches_over_devices_is_told_who_has_them(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.agent.pod_resources.lister._PER_SECOND", 0.001)
    near = Topology(nodes=[NumaNode(id=0), NumaNode(id=1)])
    two = [Device(id="zero-0", health=HEALTHY), Device(id="zero-1", health=HEALTHY, topology=near)]
    far = [
        ContainerDevices(resource_name=RESOURCE, device_ids=["zero-1"], topology=Topology(nodes=[node]))
        for node in near.nodes
    ]
    async with real_node(short) as node, offering(FakePlugin(node.root, devices=[*two, Device(id="ill")])):
        await node_has(node, "3", "2")
        sidecar = {**with_zeros("x")["spec"]["containers"][0], "name": "aside", "restartPolicy": "Always"}
        await node.create(with_zeros("p", initContainers=[sidecar]))
        await node.until("p", is_running)
        await node.create(manifest("plain", "sleep", "1000"))
        await node.until("plain", is_running)
        client = Client(str(node.root / POD_RESOURCES / "kubelet.sock"))
        try:
            listed: Any = {pod.name: pod for pod in (await client.call(LIST, Nothing())).pod_resources}
            found = {each.name: each.devices for each in listed["p"].containers}
            assert found == {"aside": devices("zero-0"), "c": far}
            assert [each.devices for each in listed["plain"].containers] == [[]]
            older = await client.call(LIST_V1ALPHA1, Nothing())
            assert {pod.name for pod in older.pod_resources} == {"p", "plain"}
            got = await client.call(GET, GetRequest(pod_name="p", pod_namespace="default"))
            assert got.pod_resources == listed["p"]
            assert (await client.call(GET_ALLOCATABLE, Nothing())).devices == [*devices("zero-0"), *far]
            with pytest.raises(CallFailed) as refused:
                await client.call(GET, GetRequest(pod_name="q", pod_namespace="default"))
            assert str(refused.value) == "rpc error: code = Unknown desc = pod q in namespace default not found"
            asked = [client.call(LIST, Nothing()) for _ in range(10)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            limited = [str(each) for each in answers if isinstance(each, CallFailed)]  # of 15 in a row
            assert limited == 5 * ["rpc error: code = ResourceExhausted desc = rejected by rate limit"]
        finally:
            client.close()
