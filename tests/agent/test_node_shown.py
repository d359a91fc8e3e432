"""What a real node tells of itself, as its configuration says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from fairlead.agent import kernel_flags, machine, node_object
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.api.builtin import NODES
from fairlead.api.objects import Obj
from fairlead.node.configuration.errors import StartupError
from fairlead.runtime.http.listener import bind
from tests.agent.folder_images import FolderImage
from tests.agent.machine import in_loop, real_containers, until
from tests.agent.oci_node import NODE, RealNode, real_node
from tests.agent.runtime_place import IMAGE

pytestmark = real_containers

_ATTACHED = "volumes.kubernetes.io/controller-managed-attach-detach"


async def _node(node: RealNode) -> Obj:
    assert node.agent is not None
    await asyncio.wait_for(node.agent.registered.wait(), 20)
    found: Obj = (await node.api.get(NODES, NODE)).obj()
    return found


@in_loop
async def test_images_are_listed_the_largest_first_and_no_more_than_are_wanted(tmp_path: Path) -> None:
    often = {"nodeStatusUpdateFrequency": "1s", "nodeStatusMaxImages": 2}
    async with real_node(tmp_path, often) as node:
        assert (await _node(node))["status"]["images"] == [{"names": [IMAGE], "sizeBytes": 1}]
        known = node.images.here[IMAGE]
        node.images.here |= {f"more:{size}": _sized(known, size) for size in (5, 3, 7)}
        largest = [{"names": ["more:7"], "sizeBytes": 7}, {"names": ["more:5"], "sizeBytes": 5}]
        async with asyncio.timeout(20):
            while (await _node(node))["status"]["images"] != largest:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@in_loop
async def test_a_node_is_known_to_its_provider_and_to_the_controller_of_volumes(tmp_path: Path) -> None:
    async with real_node(tmp_path, {"providerID": "metal://rack-1/7"}) as node:
        shown = await _node(node)
        assert shown["spec"]["providerID"] == "metal://rack-1/7"
        assert shown["metadata"]["annotations"][_ATTACHED] == "true"
        assert shown["status"]["nodeInfo"]["systemUUID"]
        await node.stop()
        node.document["enableControllerAttachDetach"] = False
        await node.start()
        async with asyncio.timeout(20):
            while _ATTACHED in ((await _node(node))["metadata"].get("annotations") or {}):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@in_loop
async def test_a_node_that_does_not_register_itself_waits_for_whoever_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_object, "RETRY_SECONDS", 0.1)
    async with real_node(tmp_path, {"registerNode": False}) as node:
        await until(lambda: f"there is no node {NODE} yet" in caplog.text)
        await node.api.create(NODES, {"metadata": {"name": NODE, "labels": {"made-by": "somebody"}}})
        shown = await _node(node)
        assert shown["metadata"]["labels"]["made-by"] == "somebody"
        assert int(shown["status"]["capacity"]["pods"]) == 110


@in_loop
async def test_a_node_begins_with_the_taints_of_its_configuration(tmp_path: Path) -> None:
    taint = {"key": "pool", "value": "gpu", "effect": "NoSchedule"}
    async with real_node(tmp_path, {"registerWithTaints": [taint]}) as node:
        assert taint in (await _node(node))["spec"]["taints"]


@in_loop
async def test_health_is_served_as_soon_as_its_port_is_free(tmp_path: Path) -> None:
    with bind(0) as taken:
        port = taken.getsockname()[1]
        async with real_node(tmp_path, {"healthzPort": port}) as node:
            await _node(node)
            taken.close()
            url = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession() as session, asyncio.timeout(20):
                while True:
                    try:
                        async with session.get(f"{url}/healthz") as answer:
                            assert (answer.status, await answer.text()) == (200, "ok")
                            break
                    except aiohttp.ClientConnectionError:
                        await asyncio.sleep(0.05)
                async with session.get(f"{url}/metrics") as answer:
                    assert answer.status == 404


@in_loop
async def test_a_kernel_that_is_not_as_a_kubelet_wants_it_is_refused_where_it_is_to_be_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for flag, value in {
        "kernel/keys/root_maxbytes": 25_000_000,
        "kernel/keys/root_maxkeys": 1_000_000,
        "kernel/panic": 0,
        "kernel/panic_on_oops": 1,
        "vm/overcommit_memory": 1,
        "vm/panic_on_oom": 0,
    }.items():
        (tmp_path / "sys" / flag).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / flag).write_text(f"{value}\n")
    monkeypatch.setattr(kernel_flags, "SYSCTLS", tmp_path / "sys")
    async with real_node(tmp_path) as node:
        await node.stop()
        node.document["protectKernelDefaults"] = True
        refused = "invalid kernel flag: kernel/panic, expected value: 10, actual value: 0"
        with pytest.raises(StartupError, match=refused):
            await node.start()
        node.tasks.clear()


@in_loop
async def test_a_node_tells_that_its_machine_was_rebooted_and_has_old_cgroups(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        boot = (await _node(node))["status"]["nodeInfo"]["bootID"]
        if hierarchies().version == 1:
            (told,) = await node.told_of_node("CgroupV1")
            assert told == "cgroup v1 support is unsupported and will be removed in a future release"
        await node.stop()
        await node.api.patch(NODES, NODE, "", {"status": {"nodeInfo": {"bootID": "before"}}}, subresource="status")
        await node.start()
        assert await node.told_of_node("Rebooted") == [f"Node {NODE} has been rebooted, boot id: {boot}"]


@in_loop
async def test_a_machine_with_swap_is_no_node_unless_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename\tType\tSize\tUsed\tPriority\n/swapfile file 1048572 0 -2\n")
    monkeypatch.setattr(machine, "SWAPS", swaps)
    async with real_node(tmp_path) as node:
        await node.stop()
        node.document["failSwapOn"] = True
        refused = "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
        with pytest.raises(StartupError, match=refused):
            await node.start()
        node.tasks.clear()


def _sized(image: FolderImage, size: int) -> FolderImage:
    return FolderImage(image.layers, image.config, f"sha256:{size:064}", size)
