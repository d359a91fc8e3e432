"""How a node hears of what a runtime behind CRI does: by events where it tells them, by looks where it does not."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from fairlead.agent.cgroups.hierarchies import Hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.grpc.client import Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.images_seam import PullFailure
from fairlead.agent.node_object import NodeIdentity, NodeObject
from fairlead.agent.runtimes.base import ContainerStatus, HandlerFeatures, RuntimeFailure, State
from fairlead.agent.runtimes.cri import events
from fairlead.agent.runtimes.cri import messages as cri
from fairlead.agent.runtimes.cri import runtime as runtimes
from fairlead.agent.runtimes.cri.images import CriImages
from fairlead.agent.runtimes.cri.runtime import CriRuntime
from fairlead.api.builtin import NODES
from fairlead.api.objects import Obj
from fairlead.client.events import EventRecorder
from fairlead.node.conditions import NodeHealth
from tests.agent.machine import in_loop
from tests.agent.tiny_runtime import TinyRuntime, serving
from tests.registry_api import RegistryApi

SOON = 0.05


@asynccontextmanager
async def _watched(folder: Path, tiny: TinyRuntime) -> AsyncIterator[tuple[CriRuntime, asyncio.Queue[ContainerStatus]]]:
    """A runtime that is looked after; and what is told of containers that have ended."""
    (folder / "root").mkdir()
    with tempfile.TemporaryDirectory() as short:  # as paths of sockets are
        socket = Path(short, "tiny.sock")
        async with serving(tiny, socket):
            client, cgroups = Client(f"unix://{socket}"), Cgroups(Hierarchies(2, {"memory": folder / "cgroups"}))
            runtime = CriRuntime(folder / "root", client, CriImages(client), cgroups, 0)
            ended: asyncio.Queue[ContainerStatus] = asyncio.Queue()
            runtime.subscribe(ended.put_nowait)
            await runtime.adopt()
            running = asyncio.create_task(runtime.run())
            try:
                yield runtime, ended
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
                runtime.close()


@in_loop
async def test_an_end_that_is_told_is_known_without_a_look_at_all_there_is(tmp_path: Path) -> None:
    tiny = TinyRuntime(containers={"a": cri.RUNNING, "b": cri.RUNNING, "c": cri.RUNNING})
    async with _watched(tmp_path, tiny) as (runtime, ended):
        await tiny.listened_to()
        looks = tiny.calls["ListContainers"]
        tiny.end("a")
        tiny.tell("of somebody else")
        tiny.tell("a", 1)  # it has started
        tiny.tell("a")
        status = await asyncio.wait_for(ended.get(), 10)
        assert (status.id, status.state, status.pod_uid) == ("a", State.EXITED, "u1")
        tiny.tell("a")  # again
        del tiny.containers["b"]
        tiny.tell("b", cri.DELETED_EVENT)
        tiny.end("c")
        tiny.tell("c")
        assert (await asyncio.wait_for(ended.get(), 10)).id == "c" and ended.empty()
        assert runtime.status("b") is None
        assert tiny.calls["ListContainers"] == looks


@in_loop
async def test_who_tells_is_not_looked_at_as_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", SOON)
    tiny = TinyRuntime(containers={"a": cri.RUNNING})
    async with _watched(tmp_path, tiny):
        await tiny.listened_to()
        tiny.tell("somebody")
        await _calls(tiny, "Status", 4)  # within these all was looked at once more
        looks = tiny.calls["ListContainers"]
        await _calls(tiny, "Status", 4)
        assert tiny.calls["ListContainers"] == looks


@pytest.mark.parametrize("tells_events", [False, True])
@in_loop
async def test_an_end_that_nobody_tells_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tells_events: bool
) -> None:
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", SOON)
    tiny = TinyRuntime(containers={"a": cri.RUNNING}, tells_events=tells_events)
    async with _watched(tmp_path, tiny) as (_, ended):
        tiny.end("a")
        assert (await asyncio.wait_for(ended.get(), 10)).id == "a"


@in_loop
async def test_a_runtime_that_is_restarted_is_asked_again_what_it_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", SOON)
    monkeypatch.setattr(events, "_AGAIN_SECONDS", SOON)
    monkeypatch.setattr(events, "_UNKNOWN_AGAIN_SECONDS", SOON)
    tiny = TinyRuntime(version="1.6", tells_events=False, cgroup_driver=None, containers={"a": cri.RUNNING})
    async with _watched(tmp_path, tiny) as (runtime, ended), RegistryApi() as api:
        recorder, identity = EventRecorder(api, "kubelet", host="n1"), NodeIdentity(name="n1", ip="127.0.0.1")
        node = NodeObject(api, recorder, identity, {}, {}, runtime, lambda: NodeHealth(()))
        await node.register()
        before = await _status(api)
        assert before["nodeInfo"]["containerRuntimeVersion"] == "tiny://1.6"
        assert before["features"] == {"supplementalGroupsPolicy": False} and not before.get("runtimeHandlers")
        telling = asyncio.create_task(node.run(SOON, 1000))
        tiny.version, tiny.tells_events = "2.0", True
        tiny.features = cri.RuntimeFeatures(supplemental_groups_policy=True)
        tiny.handlers = [cri.RuntimeHandler(features=cri.RuntimeHandlerFeatures(user_namespaces=True))]
        async with asyncio.timeout(10):
            while (shown := await _status(api))["nodeInfo"]["containerRuntimeVersion"] != "tiny://2.0":  # noqa: ASYNC110
                await asyncio.sleep(SOON)
        assert shown["features"] == {"supplementalGroupsPolicy": True}
        features = {"recursiveReadOnlyMounts": False, "userNamespaces": True}
        assert shown["runtimeHandlers"] == [{"name": "", "features": features}]
        assert runtime.handlers == {"": HandlerFeatures(has_user_namespaces=True)}
        await tiny.listened_to()
        tiny.end("a")
        tiny.tell("a")
        assert (await asyncio.wait_for(ended.get(), 10)).id == "a"
        telling.cancel()


@in_loop
async def test_a_runtime_that_ends_its_events_at_once_is_not_asked_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CRI-O without `enable_pod_events`."""
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", SOON)
    monkeypatch.setattr(events, "_AGAIN_SECONDS", 0.0)
    tiny = TinyRuntime(containers={"a": cri.RUNNING}, raw_events=b"")
    async with _watched(tmp_path, tiny) as (_, ended):
        await _calls(tiny, "ListContainers", 5)
        assert tiny.calls["GetContainerEvents"] == 1
        tiny.end("a")
        assert (await asyncio.wait_for(ended.get(), 10)).id == "a"


@in_loop
async def test_a_runtime_whose_cgroups_are_systemds_is_told_what_to_say_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", SOON)
    tiny = TinyRuntime()
    async with _watched(tmp_path, tiny) as (runtime, _):
        assert runtime.problem == ""
        tiny.cgroup_driver = cri.SYSTEMD  # restarted, with another configuration
        async with asyncio.timeout(10):
            while not runtime.problem:  # noqa: ASYNC110
                await asyncio.sleep(SOON)
        assert runtime.problem.startswith("container runtime is down: its cgroup driver is systemd")
        with pytest.raises(RuntimeFailure, match="SystemdCgroup = false"):
            await runtime.adopt()  # an agent that starts then


@pytest.mark.parametrize(
    ("status", "shown"),
    [(Status.UNKNOWN, "no such host"), (Status.NOT_FOUND, "rpc error: code = NotFound desc = no such host")],
)
@in_loop
async def test_why_an_image_is_not_pulled_is_said_as_by_a_kubelet(tmp_path: Path, status: Status, shown: str) -> None:
    tiny = TinyRuntime(pull_error=GRPCError(status, "no such host"))
    with tempfile.TemporaryDirectory() as short:
        async with serving(tiny, Path(short, "tiny.sock")):
            client = Client(f"unix://{short}/tiny.sock")
            with pytest.raises(PullFailure) as refused:
                await CriImages(client).pull("a/b:1", None)
            assert str(refused.value) == shown
            client.close()


@in_loop
async def test_a_runtime_that_tells_without_end_costs_one_look_at_a_time(tmp_path: Path) -> None:
    """And who says that a container runs, whose process is not there."""
    tiny = TinyRuntime(containers={"a": cri.RUNNING}, pid=2**22 + 1)
    async with _watched(tmp_path, tiny) as (_, ended):
        await tiny.listened_to()
        tasks = len(asyncio.all_tasks())
        for _ in range(2000):
            tiny.tell("a")
        await _calls(tiny, "ContainerStatus", 10)
        assert len(asyncio.all_tasks()) < tasks + 10
        tiny.end("a")
        assert (await asyncio.wait_for(ended.get(), 10)).id == "a"


@pytest.mark.parametrize("answer", [b"\1\0\0\0\0", b"\0\0\0\0\5abc", b"", b"\0\1\0\0\1", b"\0\0\0\0\1\xff"])
@in_loop
async def test_events_that_are_none_end_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """Compressed, cut off, missing, too long, and no message."""
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", SOON)
    monkeypatch.setattr(events, "_AGAIN_SECONDS", SOON)
    monkeypatch.setattr(events, "_UNKNOWN_AGAIN_SECONDS", SOON)
    tiny = TinyRuntime(containers={"a": cri.RUNNING}, raw_events=answer)
    async with _watched(tmp_path, tiny) as (_, ended):
        await _calls(tiny, "GetContainerEvents", 2)
        tiny.end("a")
        assert (await asyncio.wait_for(ended.get(), 10)).id == "a"


#: An answer of a million fields that are empty.
_MANY: Final = b"\0" + (1 << 21).to_bytes(4, "big") + b"\x0a\0" * (1 << 20)


@pytest.mark.parametrize("answer", [b"\1\0\0\0\0", b"\0\0\0\0\5abc", b"", b"\0\1\0\0\1", b"\0\0\0\0\1\xff", _MANY])
@in_loop
async def test_answers_that_are_none_are_failures_of_the_runtime(tmp_path: Path, answer: bytes) -> None:
    tiny = TinyRuntime(raw_version=answer)
    with tempfile.TemporaryDirectory() as short:
        async with serving(tiny, Path(short, "tiny.sock")):
            client = Client(f"unix://{short}/tiny.sock")
            with pytest.raises(RuntimeFailure, match=r"answers nonsense|does not answer|larger than max \(16777217 vs"):
                await client.call(cri.VERSION, cri.VersionRequest())
            client.close()


@in_loop
async def test_a_runtime_that_tells_of_another_container_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", SOON)
    tiny = TinyRuntime(containers={"a": cri.RUNNING}, annotations={"fairlead.dev/stop-signal": "SIGHUP"})
    async with _watched(tmp_path, tiny) as (runtime, ended):
        assert [status.stop_signal for status in runtime.containers()] == [15]
        tiny.told_id = "b"
        tiny.end("a")
        await _calls(tiny, "ContainerStatus", 2)
        assert runtime.problem == "container runtime is down: asked for container a, the runtime tells of b"
        assert [status.id for status in runtime.containers()] == ["a"] and ended.empty()
        tiny.told_id = ""
        assert (await asyncio.wait_for(ended.get(), 10)).id == "a"


@in_loop
async def test_a_container_is_found_in_the_cgroup_that_the_runtime_names(tmp_path: Path) -> None:
    """CRI-O: crio-ID."""
    running = await asyncio.create_subprocess_exec("sleep", "1000")
    cgroup = tmp_path / "cgroups/podu1/crio-a"
    cgroup.mkdir(parents=True)
    (cgroup / "cgroup.procs").write_text(f"{running.pid}\n")
    tiny = TinyRuntime(containers={"a": cri.RUNNING}, pid=running.pid, pod_cgroup="/podu1")
    tiny.cgroups_path = "/podu1/crio-a"
    async with _watched(tmp_path, tiny) as (runtime, _):
        await runtime.signal("a", signal.SIGTERM)
        assert await asyncio.wait_for(running.wait(), 10) == -signal.SIGTERM


@in_loop
async def test_what_runs_in_a_sandbox_is_stopped_before_it_is_removed(tmp_path: Path) -> None:
    """CRI-O waits for it otherwise, as long as it is given."""
    tiny = TinyRuntime(containers={"a": cri.RUNNING, "b": cri.EXITED}, pod_cgroup="/podu1")
    async with _watched(tmp_path, tiny) as (runtime, _):
        await runtime.remove_sandbox("u1")
        assert tiny.calls["StopContainer"] == tiny.calls["RemovePodSandbox"] == 1


@in_loop
async def test_a_sandbox_without_a_process_is_lost_when_the_runtime_says_so(tmp_path: Path) -> None:
    """Of CRI-O, which says it again of one that is known to be lost."""
    tiny = TinyRuntime(pod_cgroup="/podu1")
    async with _watched(tmp_path, tiny) as (runtime, _):
        lost: asyncio.Queue[str] = asyncio.Queue()
        runtime.subscribe_lost(lost.put_nowait)
        await tiny.listened_to()
        tiny.tell("of somebody else")
        tiny.tell("s")
        tiny.tell("s", cri.DELETED_EVENT)
        assert await asyncio.wait_for(lost.get(), 10) == "u1"
        assert not runtime.has_sandbox("u1") and lost.empty()


@pytest.mark.parametrize(("network", "netns"), [(cri.POD, Path("/proc/1/ns/net")), (cri.NODE, None)])
@in_loop
async def test_whose_network_a_sandbox_has_is_what_was_asked_for(
    tmp_path: Path, network: int, netns: Path | None
) -> None:
    """CRI-O names a path for that of the machine, too."""
    async with _watched(tmp_path, TinyRuntime(pod_cgroup="/podu1", network=network)) as (runtime, _):
        assert [sandbox.netns for sandbox in runtime.sandboxes()] == [netns]


@in_loop
async def test_an_answer_without_a_status_of_http_is_a_failure_of_the_runtime() -> None:
    settings, headers = b"\0\0\0\4\0\0\0\0\0", b"\0\0\5\1\5\0\0\0\1\0\1a\1b"

    async def answer(asked: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        await asked.readuntil(b"SM\r\n\r\n")  # as HTTP/2 begins
        frame = await asked.readexactly(9)
        while frame[3] != 0:  # up to what is asked
            await asked.readexactly(int.from_bytes(frame[:3]))
            frame = await asked.readexactly(9)
        answers.write(settings + headers)
        await asked.read()
        answers.close()

    with tempfile.TemporaryDirectory() as short:
        async with await asyncio.start_unix_server(answer, f"{short}/rogue.sock"):
            client = Client(f"unix://{short}/rogue.sock")
            with pytest.raises(RuntimeFailure, match="answers nonsense"):
                async for _ in client.stream(cri.CONTAINER_EVENTS, Nothing()):
                    pass
            client.close()


async def _calls(tiny: TinyRuntime, name: str, count: int) -> None:
    """Until it was made so often again."""
    wanted = tiny.calls[name] + count
    async with asyncio.timeout(10):
        while tiny.calls[name] < wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _status(api: RegistryApi) -> Obj:
    found: Obj = (await api.get(NODES, "n1")).obj()["status"]
    return found
