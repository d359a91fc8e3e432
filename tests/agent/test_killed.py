"""What looks after containers is killed again and again, at any instant, while pods come, go and restart."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.api.objects import Obj
from tests.agent.machine import in_loop, mounts_below, until
from tests.agent.oci_node import RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, IMAGE, on_each

ROUNDS = 12
WORD = "99991"
FOREVER = ("sh", "-c", f"trap 'exit 0' TERM; sleep {WORD} & wait")


def _forever(name: str) -> Obj:
    return manifest(name, *FOREVER)


def _with_others(name: str) -> Obj:
    first = {"name": "first", "image": IMAGE, "command": ["sleep", "0.2"]}
    sidecar = {"name": "beside", "image": IMAGE, "command": list(FOREVER), "restartPolicy": "Always"}
    return manifest(name, *FOREVER, spec={"initContainers": [first, sidecar]})


def _task(name: str) -> Obj:
    return manifest(name, "sleep", "0.5", spec={"restartPolicy": "OnFailure"})


#: By kind: how it is made, when it is settled, and how many processes it has then.
KINDS = {
    "forever": (_forever, is_running, 1),
    "beside": (_with_others, is_running, 2),
    "task": (_task, is_phase("Succeeded"), 0),
}


@pytest.mark.slow
@on_each
@in_loop
async def test_everything_settles_and_nothing_is_lost_doubled_or_left(tmp_path: Path, kind: str) -> None:
    chance = random.Random(17)
    async with real_node(tmp_path, kind=kind) as node:
        await node.create(_forever("forever-first"))
        first = state(await node.until("forever-first", is_running))
        names = []
        for number in range(ROUNDS):
            names.append(f"{chance.choice(sorted(KINDS))}-{number}")
            await node.create(KINDS[names[-1].partition("-")[0]][0](names[-1]))
            await asyncio.sleep(chance.random() * 0.5)
            await _kill(node, chance)
            if len(names) > 4:
                await node.delete(names.pop(chance.randrange(len(names))), chance.choice([0, 1]))
        names.append("forever-first")
        pods = [await node.until(name, KINDS[name.partition("-")[0]][1], 60) for name in names]
        wanted = {pod["metadata"]["uid"]: KINDS[pod["metadata"]["name"].partition("-")[0]][2] for pod in pods}
        await until(lambda: _running(node) == {uid: count for uid, count in wanted.items() if count}, 60)
        if kind == CONTAINERD:  # containers do not end with a daemon
            after = state(await node.pod("forever-first"))
            assert (after["containerID"], after["restartCount"]) == (first["containerID"], 0)
        for name in names:
            await node.delete(name, 0)
        await until(lambda: not node.remains() and not _cgroups(node), 60)
        assert mounts_below(node.root) in ([], [node.root])
        for path in ("pods", "logs", "state"):
            await until(lambda path=path: not list(node.root.glob(f"{path}/*-*")))  # type: ignore[misc]
        assert node.containerd is None or not list((node.containerd.folder / "leases").rglob("10.*"))


async def _kill(node: RealNode, chance: random.Random) -> None:
    """The daemon, or some of those who each look after one container."""
    if node.containerd is not None:
        await asyncio.to_thread(node.containerd.kill)
        await asyncio.to_thread(node.containerd.start)
        return
    for pid, words in _processes():
        is_keeper = words[0].endswith(b"conmon") and any(os.fsencode(node.root) in word for word in words)
        if is_keeper and chance.random() < 0.3:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _running(node: RealNode) -> dict[str, int]:
    """How many of the processes that go on for ever there are, by uid of the pod."""
    cgroups, found = Cgroups(hierarchies()), {}
    words = {pid: each for pid, each in _processes() if WORD.encode() in each}
    for name in _cgroups(node):
        inside = cgroups.processes(f"{node.cgroup}/kubepods/besteffort/{name}")
        if count := len(inside & words.keys()):
            found[name.removeprefix("pod")] = count
    return found


def _cgroups(node: RealNode) -> set[str]:
    return set(Cgroups(hierarchies()).children(f"{node.cgroup}/kubepods/besteffort"))


def _processes() -> Iterator[tuple[int, list[bytes]]]:
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(path.name), (path / "cmdline").read_bytes().split(b"\0")
