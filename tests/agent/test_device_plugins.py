"""A node and plugins of devices, over real sockets: who registers, what the node has, and which devices pods get."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.agent.device_plugins.errors import DevicePluginError
from fairlead.agent.device_plugins.holdings import CHECKPOINT, Holding, Holdings
from fairlead.agent.device_plugins.manager import DEVICE_PLUGIN, FOLDER, SOCKET, DeviceAmounts, DevicePlugins
from fairlead.agent.device_plugins.messages import (
    HEALTHY,
    Allocated,
    CdiName,
    Device,
    Devices,
    DeviceSpec,
    MountSpec,
    Options,
)
from fairlead.agent.grpc import protobuf
from fairlead.agent.grpc.client import CallFailed
from fairlead.agent.plugins.sockets import PluginSockets
from fairlead.agent.pods.admission import admission_of
from fairlead.agent.runtimes.base import MachineDevice, Mount
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.node.admission import Refusal
from fairlead.runtime.metrics import Counts
from tests.agent.device_driver import short as short
from tests.agent.device_plugin import RESOURCE, FakePlugin, listening, offering
from tests.agent.machine import in_loop
from tests.work import Compared, growth

NONE = DeviceAmounts({}, {})


@pytest.fixture(autouse=True)
def lists_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.agent.device_plugins.plugin._PAUSE_SECONDS", 0.01)


@asynccontextmanager
async def node_with_plugins(root: Path, grace_seconds: float = 300.0) -> AsyncIterator[DevicePlugins]:
    plugins = DevicePlugins(root, grace_seconds)
    sockets = PluginSockets(root, {DEVICE_PLUGIN: plugins})
    tasks = [asyncio.create_task(each.run()) for each in (plugins, sockets)]
    try:
        await until((root / FOLDER / SOCKET).exists)
        yield plugins
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110  (sockets tell nobody)
            await asyncio.sleep(0.01)


def has(plugins: DevicePlugins, capacity: int, allocatable: int, resource: str = RESOURCE) -> Callable[[], bool]:
    expected = str(capacity), str(allocatable)
    return lambda: tuple(each.get(resource) for each in plugins.amounts({})) == expected


def container(name: str, count: int, resource: str = RESOURCE, **more: object) -> Obj:
    return {"name": name, "resources": {"limits": {resource: str(count), "cpu": "1"}}, **more}


def pod(uid: str, *containers: Obj, init: Sequence[Obj] = ()) -> Obj:
    spec = {"containers": list(containers) or [container("c", 1)], "initContainers": list(init)}
    return {"metadata": {"name": uid, "uid": uid}, "spec": spec}


def devices_of(plugins: DevicePlugins, uid: str, name: str = "c") -> list[str]:
    return [device for holding in plugins.of(uid, name) for device in holding.devices]


def failed(why: str) -> str:
    return f"Allocate failed due to {why}, which is unexpected"


@in_loop
async def test_who_registers_lists_its_devices_and_who_may_not_is_told_why(short: Path) -> None:
    async with node_with_plugins(short) as plugins:
        assert plugins.amounts({}) == NONE
        for wrong, why in (
            (FakePlugin(short, version="v1alpha"), 'requested API version "v1alpha" is not supported by kubelet. '),
            (FakePlugin(short, resource="cpu"), 'the ResourceName "cpu" is invalid'),
            (FakePlugin(short, resource="kubernetes.io/x"), 'the ResourceName "kubernetes.io/x" is invalid'),
            (FakePlugin(short, endpoint="no\0path"), "failed to get device plugin options: rpc error: code = Unavail"),
            (FakePlugin(short), "failed to get device plugin options: rpc error: code = Unavailable desc = "),
        ):
            with pytest.raises(CallFailed) as refused:
                await wrong.register()
            assert refused.value.code == "Unknown"
            assert refused.value.message.startswith(why)
        async with offering(FakePlugin(short)) as plugin:
            await until(has(plugins, 3, 3))
            plugin.becomes("zero-1", "Unhealthy")
            await until(has(plugins, 3, 2))
            plugin.lists(Device(id="another", health=HEALTHY))
            await until(has(plugins, 1, 1))
        counted = {each.name: dict(each.read()) for each in plugins.families}
        assert counted["kubelet_device_plugin_registration_total"][RESOURCE,] == 4


@in_loop
async def test_a_plugin_is_found_among_all_plugins_of_the_node_too(short: Path) -> None:
    async with node_with_plugins(short) as plugins:
        async with listening(FakePlugin(short), is_watched_for=True) as plugin:
            await until(has(plugins, 3, 3))
            await until(lambda: bool(plugin.told) and plugin.told[-1].plugin_registered)
        await until(has(plugins, 3, 0))
        wrong = FakePlugin(short, resource="fairlead.test/old", version="v1alpha")
        async with listening(wrong, is_watched_for=True):
            await until(lambda: bool(wrong.told))
            assert wrong.told[-1].error.endswith(
                "manager version, v1beta1, is not among plugin supported versions [v1alpha]"
            )


class Silent(FakePlugin):
    """It does not answer the first thing that it is asked once it is found."""

    async def _get_options(self, stream: Any) -> None:
        self.asked.append("options")
        await self.goes_on.wait()
        await super()._get_options(stream)


@in_loop
async def test_a_plugin_that_hangs_as_it_registers_holds_up_no_other(short: Path) -> None:
    async with node_with_plugins(short) as plugins:
        silent, second = Silent(short, resource="fairlead.test/silent"), "fairlead.test/second"
        silent.goes_on.clear()
        async with listening(silent, is_watched_for=True):
            await until(lambda: silent.asked == ["options"])
            async with listening(FakePlugin(short, resource=second), is_watched_for=True):
                await until(has(plugins, 3, 3, second))
            await until(has(plugins, 3, 0, second))
            assert not silent.told
            silent.goes_on.set()
            await until(has(plugins, 3, 3, silent.resource))


@in_loop
async def test_what_a_plugin_that_has_gone_offered_is_given_to_nobody_and_forgotten_after_a_while(short: Path) -> None:
    async with node_with_plugins(short, grace_seconds=0.3) as plugins:
        async with offering(FakePlugin(short)):
            await until(has(plugins, 3, 3))
        await until(has(plugins, 3, 0))
        assert await plugins.allocate(pod("p")) == failed(
            f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        )
        await until(has(plugins, 0, 0))
        assert not plugins.concern(pod("p"))
        assert plugins.amounts({RESOURCE: "0"}) == NONE  # the node says so: from now on it may be somebody else's
        async with offering(FakePlugin(short)):
            await until(has(plugins, 3, 3))


@in_loop
async def test_a_plugin_that_starts_anew_takes_the_place_of_the_old_one(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as old:
        await until(has(plugins, 3, 3))
        new = FakePlugin(short, devices=[Device(id="new", health=HEALTHY)])
        async with listening(new):
            await new.register()
            await until(has(plugins, 1, 1))
            old.hang_up()
            old.lists()
            assert await plugins.allocate(pod("p")) == ""
            assert devices_of(plugins, "p") == ["new"]


@in_loop
async def test_a_plugin_may_register_again_and_again_without_a_write_each_time(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as plugin:
        written = (short / FOLDER / CHECKPOINT).stat().st_mtime_ns
        for _ in range(10):
            await plugin.register()
        await until(has(plugins, 3, 3))
        assert (short / FOLDER / CHECKPOINT).stat().st_mtime_ns == written


@in_loop
async def test_pods_get_devices_that_nobody_has_and_give_them_back(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as plugin:
        await until(has(plugins, 3, 3))
        assert await plugins.allocate(pod("p", container("a", 1), container("b", 1))) == ""
        assert devices_of(plugins, "p", "a") + devices_of(plugins, "p", "b") == ["zero-0", "zero-1"]
        short_of = f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 1"
        assert await plugins.allocate(pod("q", container("a", 2))) == failed(short_of)
        assert plugins.taken() == {RESOURCE: 2}
        plugins.release("p")
        plugin.becomes("zero-0", "Unhealthy")
        await until(has(plugins, 3, 2))
        assert await plugins.allocate(pod("q", container("a", 2))) == ""
        assert devices_of(plugins, "q", "a") == ["zero-1", "zero-2"]
        assert not plugins.concern(pod("r", container("a", 1, resource="somebody.else/x"), container("b", 0)))


@in_loop
async def test_a_pod_that_cannot_have_all_has_none(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as plugin:
        await until(has(plugins, 3, 3))
        assert (await plugins.allocate(pod("p", container("a", 2), container("b", 2)))).startswith("Allocate failed")
        assert plugins.taken() == {}
        plugin.allocate_error = "out of zeros"
        assert await plugins.allocate(pod("p")) == failed("rpc error: code = Unknown desc = out of zeros")
        assert plugins.taken() == {}
        (alloc,) = (each for each in plugins.families if each.name == "kubelet_device_plugin_alloc_duration_seconds")
        (counts,) = (reading for labels, reading in alloc.read() if labels == (RESOURCE,))
        assert isinstance(counts, Counts)
        assert sum(counts.buckets) == 2


@in_loop
async def test_containers_use_again_what_init_containers_had_but_not_what_sidecars_have(short: Path) -> None:
    many = [Device(id=f"zero-{number}", health=HEALTHY) for number in range(6)]
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short, devices=many)):
        await until(has(plugins, 6, 6))
        init = [container("first", 2), container("aside", 1, restartPolicy="Always"), container("second", 2)]
        assert await plugins.allocate(pod("p", container("a", 1), container("b", 2), init=init)) == ""
        found = {name: set(devices_of(plugins, "p", name)) for name in ("first", "aside", "second", "a", "b")}
        assert len(found["aside"]) == 1
        assert not found["aside"] & (found["second"] | found["a"] | found["b"])
        assert not found["a"] & found["b"]
        assert found["a"] <= found["first"] | found["second"]
        assert plugins.taken() == {RESOURCE: 4}  # as many as the pod asks for: a sidecar, and three containers


@in_loop
async def test_the_plugin_may_prefer_some_devices(short: Path) -> None:
    options = Options(get_preferred_allocation_available=True, pre_start_required=True)
    chosen = ["zero-2", "nonsense"]
    async with (
        node_with_plugins(short) as plugins,
        offering(FakePlugin(short, options=options, preference=chosen)) as plugin,
    ):
        await until(has(plugins, 3, 3))
        wanted = pod("p", container("c", 2))
        assert await plugins.allocate(wanted) == ""
        assert devices_of(plugins, "p") == ["zero-2", "zero-0"]
        await plugins.given(wanted, wanted["spec"]["containers"][0])
        assert plugin.asked == ["prefer 2 of 3", "allocate zero-0 zero-2", "start zero-0 zero-2"]
        plugin.pre_start_error = "not now"
        with pytest.raises(DevicePluginError) as refused:
            await plugins.given(wanted, wanted["spec"]["containers"][0])
        why = "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = not now"
        assert str(refused.value) == why


@in_loop
async def test_what_a_container_was_given_outlives_agent_and_plugin(short: Path) -> None:
    given = Allocated(
        envs={"A": "1"},
        mounts=[MountSpec(container_path="/in", host_path="/out", read_only=True)],
        devices=[DeviceSpec(container_path="/dev/a", host_path="/dev/zero", permissions="r")],
        annotations={"note": "said"},
        cdi_devices=[CdiName(name="v.test/c=0")],
    )
    wanted = pod("p")
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short, given=given)):
        await until(has(plugins, 3, 3))
        assert await plugins.allocate(wanted) == ""
    left = [path.name for path in (short / FOLDER).iterdir()]
    assert left == [CHECKPOINT]
    async with node_with_plugins(short) as plugins:
        assert has(plugins, 0, 0)()  # until it registers again
        assert await plugins.allocate(wanted) == ""  # it has what it needs
        assert (await plugins.allocate(pod("q"))).startswith("Allocate failed due to no healthy devices present")
        got = await plugins.given(wanted, wanted["spec"]["containers"][0])
        assert (got.env, got.annotations, got.cdi) == ({"A": "1"}, {"note": "said"}, ["v.test/c=0"])
        assert got.mounts == [Mount(Path("/out"), "/in", read_only=True)]
        assert got.devices == [MachineDevice("/dev/zero", "/dev/a", "r")]
        async with offering(FakePlugin(short)):
            await until(has(plugins, 3, 3))
            assert await plugins.allocate(pod("q", container("c", 2))) == ""
            assert devices_of(plugins, "q") == ["zero-1", "zero-2"]
            changed = f'pod "p" container "c" changed request for resource "{RESOURCE}" from 1 to 2'
            assert await plugins.allocate(pod("p", container("c", 2))) == failed(changed)


@in_loop
async def test_devices_of_pods_that_are_not_there_any_more_are_taken_back(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)):
        await until(has(plugins, 3, 3))
        for uid in ("p", "q"):
            assert await plugins.allocate(pod(uid)) == ""
        looking = asyncio.create_task(plugins.reconcile(lambda: {"q"}))
        await until(lambda: plugins.taken() == {RESOURCE: 1})
        looking.cancel()
        assert plugins.has("q")


@in_loop
async def test_a_checkpoint_that_was_changed_is_put_aside(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)):
        await until(has(plugins, 3, 3))
        assert await plugins.allocate(pod("p")) == ""
    path = short / FOLDER / CHECKPOINT
    path.write_text(path.read_text().replace("zero-0", "zero-1"))
    async with node_with_plugins(short) as plugins:
        assert not plugins.has("p")
        assert "zero-1" in path.with_name(f"{CHECKPOINT}.unreadable").read_text()


@in_loop
async def test_sockets_of_before_go_so_that_their_plugins_register_again(short: Path) -> None:
    folder = short / FOLDER
    folder.mkdir()
    old = socket.socket(socket.AF_UNIX)
    old.bind(str(folder / "old.sock"))
    old.close()
    (folder / "a-file").touch()
    async with node_with_plugins(short):
        assert sorted(path.name for path in folder.iterdir()) == ["a-file", SOCKET]
    assert sorted(path.name for path in folder.iterdir()) == ["a-file"]


@in_loop
async def test_pods_hear_of_the_health_of_their_devices(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as plugin:
        told: list[str] = []
        plugins.subscribe_health(told.append)
        await until(has(plugins, 3, 3))
        for uid in ("p", "q"):
            assert await plugins.allocate(pod(uid)) == ""
        assert plugins.shown_health("p", "c") == [
            {"name": RESOURCE, "resources": [{"resourceID": "zero-0", "health": "Healthy"}]}
        ]
        plugin.becomes("zero-0", "Unhealthy")
        await until(lambda: told == ["p"])
        (shown,) = plugins.shown_health("p", "c")
        assert shown["resources"] == [{"resourceID": "zero-0", "health": "Unhealthy"}]
        plugin.lists(*plugin.devices[1:])  # one that it does not speak of any more is well, as with a kubelet
        await until(lambda: told == ["p", "p"])


@in_loop
async def test_a_container_of_a_pod_that_was_there_first_gets_its_devices_when_it_starts(short: Path) -> None:
    async with node_with_plugins(short) as plugins:
        early = pod("p", container("c", 2))
        assert not plugins.concern(early)
        async with offering(FakePlugin(short, given=Allocated(envs={"A": "1"}))):
            await until(has(plugins, 3, 3))
            assert (await plugins.given(early, early["spec"]["containers"][0])).env == {"A": "1"}
            assert devices_of(plugins, "p") == ["zero-0", "zero-1"]


def test_a_node_whose_status_lags_behind_takes_who_has_its_devices() -> None:
    shown = {"capacity": {}, "allocatable": {"cpu": "8", "pods": "9", RESOURCE: "0"}}
    node = msgspec.convert({"metadata": {"name": "n"}, "status": shown}, Node)
    wanted = pod("p")
    wanted["spec"]["containers"][0]["resources"]["requests"] = {RESOURCE: "1"}
    assert admission_of(wanted, node, (), (), ()).refusal == Refusal(
        f"OutOf{RESOURCE}", f"Node didn't have enough resource: {RESOURCE}, requested: 1, used: 0, capacity: 0"
    )
    assert admission_of(wanted, node, (), (), (), devices={RESOURCE: 1}).refusal is None


@in_loop
async def test_what_a_driver_gives_is_not_asked_of_a_plugin(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)):
        await until(has(plugins, 3, 3))
        mapping = {"containerName": "c", "resourceName": RESOURCE, "requestName": "r"}
        claimed = pod("p") | {"status": {"extendedResourceClaimStatus": {"requestMappings": [mapping]}}}
        assert not plugins.concern(claimed)
        assert plugins.concern(pod("p"))


# -- plugins that mean harm


@in_loop
async def test_a_plugin_may_not_give_a_container_all_that_it_likes(short: Path) -> None:
    given = Allocated(envs={"LONG": 2_000_000 * "x"})
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short, given=given)):
        await until(has(plugins, 3, 3))
        why = f"the device plugin of {RESOURCE} gives a container more than {1 << 20} bytes"
        assert await plugins.allocate(pod("p")) == failed(why)


@in_loop
async def test_a_node_has_so_many_resources_of_plugins_at_most(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.agent.device_plugins.manager._MOST_RESOURCES", 1)
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)):
        async with listening(other := FakePlugin(short, resource="fairlead.test/other")):
            with pytest.raises(CallFailed, match="this node has 1 resources of device plugins, and takes no more"):
                await other.register()
        await until(has(plugins, 3, 3))


@in_loop
async def test_who_registers_under_ever_other_names_is_counted_under_one(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.agent.device_plugins.metrics._MOST_NAMES", 2)
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)):
        for name in ("no-name", "fairlead.test/a", "fairlead.test/b", "fairlead.test/c"):
            with suppress(CallFailed):
                await FakePlugin(short, resource=name, version="v1alpha").register()
        counted = {each.name: dict(each.read()) for each in plugins.families}
        found = counted["kubelet_device_plugin_registration_total"]
        assert found == {(RESOURCE,): 1, ("fairlead.test/a",): 1, ("others",): 3}


@in_loop
async def test_a_plugin_that_never_answers_holds_up_those_alone_who_want_its_devices(short: Path) -> None:
    other = FakePlugin(short, resource="fairlead.test/other")
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as slow, offering(other):
        await until(has(plugins, 3, 3))
        await until(has(plugins, 3, 3, other.resource))
        slow.goes_on.clear()
        waiting = [asyncio.create_task(plugins.allocate(pod(uid))) for uid in ("p", "q")]
        await until(lambda: bool(slow.asked))
        assert await plugins.allocate(pod("r", container("c", 1, resource=other.resource))) == ""
        assert not any(task.done() for task in waiting)
        waiting[0].cancel()  # the pod is deleted meanwhile
        with suppress(asyncio.CancelledError):
            await waiting[0]
        slow.goes_on.set()
        assert await waiting[1] == ""
        assert (devices_of(plugins, "p"), devices_of(plugins, "q")) == ([], ["zero-0"])


@in_loop
async def test_a_plugin_that_dies_in_the_midst_of_an_allocation(short: Path) -> None:
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as plugin:
        await until(has(plugins, 3, 3))
        plugin.goes_on.clear()
        waiting = asyncio.create_task(plugins.allocate(pod("p")))
        await until(lambda: bool(plugin.asked))
        plugin.hang_up()
        assert (await waiting).startswith("Allocate failed due to rpc error: code = Unavailable desc = ")
        await until(has(plugins, 3, 0))
        assert plugins.taken() == {}


def test_the_devices_of_many_containers_are_found_one_by_one(tmp_path: Path) -> None:
    """As their status and PodResources tell them."""

    def told(size: int) -> None:
        holdings = Holdings(tmp_path)
        names = [Compared(f"c{number}") for number in range(size)]
        for name in names:
            holdings.add(Holding("p", name, RESOURCE, {name: ()}, Allocated()))
        assert [len(holdings.of("p", name)) for name in names] == [1] * size

    assert growth(told, 50) <= 2.1


@in_loop
async def test_more_devices_than_a_kubelet_would_read_are_none(short: Path) -> None:
    one = protobuf.encode(Devices(devices=[Device(id="zero", health=HEALTHY)]))
    million = b"".join(one.replace(b"zero", b"%04x" % (number & 0xFFFF)) for number in range(1_000_000))
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as plugin:
        await until(has(plugins, 3, 3))
        plugin.sends(million)
        await until(has(plugins, 3, 0))


@in_loop
async def test_lists_are_read_no_faster_than_the_node_likes(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who read them as fast as they come would have time for nothing else."""
    monkeypatch.setattr("fairlead.agent.device_plugins.plugin._PAUSE_SECONDS", 3600.0)
    long = [[Device(id=f"{kind}-{number:040}", health=HEALTHY) for number in range(16_000)] for kind in ("a", "b")]
    async with node_with_plugins(short) as plugins, offering(FakePlugin(short)) as plugin:
        await until(has(plugins, 3, 3))
        for _ in range(20):
            for devices in long:
                plugin.lists(*devices)
        await until(lambda: plugin.sent >= 4)  # megabytes on their way, then it waits
        assert await plugins.allocate(pod("p")) == ""
        assert devices_of(plugins, "p") == ["zero-0"]
        assert plugin.sent <= 10
