"""What a container mounts for the machine, and the machine for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.agent import linux
from fairlead.api.objects import Obj
from tests.agent.machine import in_loop
from tests.agent.oci_node import RealNode, is_running, manifest, real_node, state
from tests.agent.runtime_place import on_each

MOUNTS = "mkdir -p /v/made && mount -t tmpfs none /v/made && touch /v/made/by-the-pod && sleep 1000"
LOOKS = "until test -e /v/made/by-the-pod; do sleep 0.1; done; echo seen; sleep 1000"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A mount of the machine that is shared, as all are where systemd has made them."""
    folder = tmp_path / "shared"
    folder.mkdir()
    linux.mount("none", folder, "tmpfs")
    linux.mount("", folder, flags=linux.MS_SHARED)
    yield folder
    linux.unmount_below(folder)


def with_volume(name: str, command: str, volume: Obj, propagation: str) -> Obj:
    is_privileged = propagation == "Bidirectional"
    return manifest(
        name,
        *("sh", "-c", command),
        volumeMounts=[{"name": "v", "mountPath": "/v", "mountPropagation": propagation}],
        securityContext={"privileged": is_privileged},
        spec={"volumes": [{"name": "v", **volume}]},
    )


async def said(node: RealNode, name: str, line: str) -> None:
    async with asyncio.timeout(20):
        while line not in node.log(name):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@on_each
@in_loop
async def test_what_a_container_mounts_the_machine_and_other_pods_see(tmp_path: Path, shared: Path, kind: str) -> None:
    before = linux.mount_points(tmp_path)
    volume = {"hostPath": {"path": str(shared)}}
    async with real_node(tmp_path / "node", kind=kind) as node:
        await node.create(with_volume("looks", LOOKS, volume, "HostToContainer"))
        await node.until("looks", is_running)
        await node.create(with_volume("mounts", MOUNTS, volume, "Bidirectional"))
        await node.until("mounts", is_running)
        await said(node, "looks", "seen")
        assert (shared / "made/by-the-pod").exists()
        assert set(linux.mount_points(tmp_path)) & set(linux.mount_points(shared)) == {shared, shared / "made"}
        assert not [each for each in linux.mount_points(tmp_path) if "rootfs" in each.parts]  # that is the container's

        await node.delete("mounts")
        await node.gone("mounts")
        assert (shared / "made/by-the-pod").exists()  # as with a kubelet it stays until somebody takes it away
        linux.unmount(shared / "made")
        await node.delete("looks")
        await node.gone("looks")
    assert linux.mount_points(tmp_path) == before


@on_each
@in_loop
async def test_in_a_volume_of_the_pod_its_containers_see_it(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path / "node", kind=kind) as node:
        if kind != "oci":  # there the folder of the node is shared in any case
            linux.share_mounts_of(node.root)
        pod = with_volume("p", MOUNTS, {"emptyDir": {}}, "Bidirectional")
        looks = with_volume("p", LOOKS, {}, "HostToContainer")["spec"]["containers"][0]
        pod["spec"]["containers"].append({**looks, "name": "looks"})
        await node.create(pod)
        await node.until("p", is_running)
        async with asyncio.timeout(20):
            while node.log("p", "looks") != ["seen"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await node.delete("p")
        await node.gone("p")
        assert not [each for each in linux.mount_points(node.root) if "made" in each.parts]


@on_each
@in_loop
async def test_a_mount_that_is_not_shared_is_named(tmp_path: Path, kind: str) -> None:
    private = tmp_path / "private"
    private.mkdir()
    linux.mount("none", private, "tmpfs")
    linux.mount("", private, flags=linux.MS_PRIVATE)
    try:
        async with real_node(tmp_path / "node", kind=kind) as node:
            await node.create(with_volume("p", MOUNTS, {"hostPath": {"path": str(private)}}, "Bidirectional"))
            pod = await node.until("p", lambda pod: "message" in state(pod).get("state", {}).get("waiting", {}))
            waiting = state(pod)["state"]["waiting"]
            assert waiting["reason"] == "CreateContainerError"
            problem = f'path "{private}" is mounted on "{private}" but it is not a shared mount'
            assert waiting["message"].endswith(problem)
    finally:
        linux.unmount(private)
