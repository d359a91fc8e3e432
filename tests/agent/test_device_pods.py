"""Pods with devices on a real node: the scheduler gives them, a driver prepares them, the container has them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead.agent.device_plugins.messages import CdiName
from fairlead.agent.devices.messages import UNHEALTHY
from fairlead.agent.grpc import protobuf
from fairlead.agent.grpc.client import Client
from fairlead.agent.pod_resources.lister import FOLDER as POD_RESOURCES
from fairlead.agent.pod_resources.messages import (
    GET,
    ClaimResource,
    ContainerResources,
    DynamicResource,
    GetRequest,
    PodResources,
)
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.oci.cdi import FOLDERS, inject
from fairlead.api.builtin import DEVICE_CLASSES, NODES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from tests.agent.device_driver import NAME, Driver, cdi_file, serving
from tests.agent.device_driver import short as short
from tests.agent.machine import in_loop, real_containers, until
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import on_each

#: One of its own for each process of the tests: all describe theirs in one folder of the machine.
KIND = f"fairlead.test/gadget-{os.getpid()}"


@pytest.fixture
def described() -> Iterator[str]:
    """A device in the folder in which drivers describe theirs: a variable, a node, a file of the machine."""
    made = FOLDERS[1] / f"{KIND.replace('/', '-')}.json"
    try:
        yield cdi_file(
            made.parent,
            KIND,
            env=["GADGET=0"],
            deviceNodes=[{"path": "/dev/gadget", "hostPath": "/dev/zero"}],
            mounts=[{"hostPath": "/etc/hostname", "containerPath": "/etc/gadget", "options": ["bind", "ro"]}],
        )
    finally:
        made.unlink(missing_ok=True)


@asynccontextmanager
async def offering(node: RealNode, driver: Driver) -> AsyncIterator[None]:
    """The driver has registered, and offers one device to whoever asks for its class."""
    async with serving(driver):
        async with asyncio.timeout(20):
            while not driver.told:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": NAME, "nodeName": NODE, "pool": pool, "devices": [{"name": "gadget-0"}]}
        await node.api.create(RESOURCE_SLICES, {"metadata": {"name": "gadgets"}, "spec": spec})
        selector = {"cel": {"expression": f'device.driver == "{NAME}"'}}
        await node.api.create(DEVICE_CLASSES, {"metadata": {"name": "gadget"}, "spec": {"selectors": [selector]}})
        request = {"name": "r", "exactly": {"deviceClassName": "gadget"}}
        template = {"spec": {"devices": {"requests": [request]}}}
        await node.api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "one"}, "spec": template}, "default")
        yield


def with_gadget(name: str, command: str, **spec: object) -> Obj:
    claim = {"name": "gadget", "resourceClaimTemplateName": "one"}
    resources = {"claims": [{"name": "gadget"}]}
    return manifest(name, "sh", "-c", command, spec={"resourceClaims": [claim], **spec}, resources=resources)


def health(pod: Obj) -> Obj:
    """Of the device of its container."""
    (claim,) = state(pod)["allocatedResourcesStatus"]
    assert claim["name"] == "claim:gadget"
    (found,) = claim["resources"]
    return dict(found)


async def all_gone(node: RealNode, resource: Resource) -> None:
    async with asyncio.timeout(20):
        while (await node.api.list(resource, "default")).items:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@on_each
@in_loop
async def test_a_task_has_its_device_and_the_next_one_gets_it_afterwards(
    short: Path, described: str, kind: str
) -> None:
    async with real_node(short, kind=kind) as node:
        phases, hostname = list[str](), socket.gethostname()

        async def look() -> None:
            phases.append((await node.pod("first"))["status"]["phase"])

        driver = Driver(node.root, cdi=(described,), giving_back=look)
        async with offering(node, driver):
            version = (await node.api.get(NODES, NODE)).obj()["status"]["nodeInfo"]["containerRuntimeVersion"]
            if version.startswith("containerd://1."):
                pytest.skip("containerd gives devices by CDI since 2.0 without being told")
            shown = "echo $GADGET $(head -c 2 /dev/gadget | wc -c) $(cat /etc/gadget) > /dev/termination-log"
            await node.create(with_gadget("first", f"{shown}; sleep 1", restartPolicy="Never"))
            pod = await node.until("first", is_phase("Succeeded"))
            assert state(pod)["state"]["terminated"]["message"].split() == ["0", "2", hostname]
            assert phases == ["Running"]  # it is over once its device is given back, not before
            await node.create(with_gadget("second", "exit 0", restartPolicy="Never"))
            await node.until("second", is_phase("Succeeded"))
            await all_gone(node, RESOURCE_CLAIMS)
            assert [asked.split()[0] for asked in driver.asked] == ["prepare", "unprepare", "prepare", "unprepare"]


@real_containers
@in_loop
async def test_a_pod_waits_for_its_driver_and_keeps_its_device_over_restarts(
    short: Path, described: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.agent.pods.real_pod.AGAIN_SECONDS", 0.2)
    async with real_node(short) as node:
        driver = Driver(node.root, cdi=(described,), tells_health=True)
        driver.errors = dict.fromkeys(["own"], "out of gadgets")
        async with offering(node, driver):
            own = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gadget"}}]}}
            await node.api.create(RESOURCE_CLAIMS, {"metadata": {"name": "own"}, "spec": own}, "default")
            claim = {"name": "gadget", "resourceClaimName": "own"}
            spec = {"resourceClaims": [claim]}
            resources = {"claims": [{"name": "gadget"}]}
            command = "echo run $GADGET; sleep 1000"
            await node.create(manifest("p", "sh", "-c", command, spec=spec, resources=resources))
            told = "NodePrepareResources failed for ResourceClaim own: out of gadgets"
            prefix = "Failed to prepare dynamic resources: prepare dynamic resources: "
            await node.told("p", "FailedPrepareDynamicResources", prefix + told)
            driver.errors.clear()
            await node.until("p", is_running)
            await until(lambda: node.log("p") == ["run 0"])
            await node.until("p", lambda pod: health(pod) == {"resourceID": described, "health": "Unknown"})
            client = Client(str(node.root / POD_RESOURCES / "kubelet.sock"))
            got = await client.call(GET, GetRequest(pod_name="p", pod_namespace="default"))
            client.close()
            cdi = [CdiName(name=described)]
            device = ClaimResource(cdi_devices=cdi, driver_name=NAME, pool_name="p", device_name="gadget-0")
            claimed = DynamicResource(claim_name="own", claim_namespace="default", claim_resources=[device])
            shown = ContainerResources(name="c", dynamic_resources=[claimed])
            assert got.pod_resources == PodResources(name="p", namespace="default", containers=[shown])
            driver.becomes(UNHEALTHY, "too hot")
            unhealthy = {"resourceID": described, "health": "Unhealthy", "message": "too hot"}
            await node.until("p", lambda pod: health(pod) == unhealthy)
            await node.stop()
            await node.start()
            await node.until("p", is_running)
            await node.delete("p", grace=1)
            await node.gone("p")
            assert driver.asked[-1] == "unprepare own"
            claim_left = (await node.api.get(RESOURCE_CLAIMS, "own", "default")).obj()
            assert "allocation" not in claim_left.get("status", {})


@real_containers
@in_loop
async def test_who_asks_for_an_extended_resource_has_the_device_that_stands_for_it(short: Path, described: str) -> None:
    async with real_node(short) as node:
        driver = Driver(node.root, cdi=(described,), requests=("container-0-request-0",))
        async with offering(node, driver):
            patch = {"spec": {"extendedResourceName": "fairlead.test/gadget"}}
            await node.api.patch(DEVICE_CLASSES, "gadget", "", patch)
            shown = "echo $GADGET > /dev/termination-log"
            for name in ("fairlead.test/gadget", "deviceclass.resource.kubernetes.io/gadget"):
                pod = name.partition(".")[0]
                limits = {"limits": {name: "1"}}
                await node.create(manifest(pod, "sh", "-c", shown, spec={"restartPolicy": "Never"}, resources=limits))
                ended = await node.until(pod, is_phase("Succeeded"))
                assert state(ended)["state"]["terminated"]["message"] == "0\n"
            await all_gone(node, RESOURCE_CLAIMS)


def test_a_device_that_nobody_describes_is_none(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match=r"unresolvable CDI devices a\.test/g=1"):
        inject(_bundle(), ["a.test/g=1"], [tmp_path])


def test_what_is_described_gets_into_the_bundle(tmp_path: Path) -> None:
    made = tmp_path / "run"
    node = {"path": "/dev/g", "type": "c", "major": 250, "minor": 3, "permissions": "rw", "fileMode": 0o600}
    hook = {"hookName": "createContainer", "path": "/bin/ldconfig", "args": ["ldconfig"], "timeout": 5}
    device = cdi_file(made, "a.test/g", env=["A=c", "B=d"], deviceNodes=[node], hooks=[hook], additionalGids=[44])
    (made / "broken.json").write_text("{")
    bundle = _bundle()
    inject(bundle, [device], [tmp_path / "none", made])
    assert bundle["process"]["env"] == ["A=c", "B=d"]
    assert bundle["process"]["user"]["additionalGids"] == [7, 44]
    shown = {"path": "/dev/g", "type": "c", "major": 250, "minor": 3, "fileMode": 0o600, "uid": 1000}
    assert bundle["linux"]["devices"] == [shown]
    rule = {"allow": True, "type": "c", "major": 250, "minor": 3, "access": "rw"}
    assert rule in bundle["linux"]["resources"]["devices"]
    (made_hook,) = bundle["hooks"]["createContainer"]
    assert made_hook == {"path": "/bin/ldconfig", "args": ["ldconfig"], "timeout": 5}


def test_a_runtime_behind_cri_is_told_the_names() -> None:
    told = protobuf.encode(cri.ContainerConfig(cdi_devices=[cri.CDIDevice(name="a.test/g=1")]))
    assert b"\x8a\x01\x0c\x0a\x0aa.test/g=1" in told  # field 17 of ContainerConfig


def _bundle() -> Obj:
    return {
        "process": {"env": ["A=b"], "user": {"uid": 1000, "gid": 0, "additionalGids": [7]}},
        "mounts": [],
        "linux": {"resources": {"devices": [{"allow": False, "access": "rwm"}]}},
    }
