"""In which order the containers of a pod with sidecars end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fairlead.api.objects import Obj
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_phase, real_node, state
from tests.agent.runtime_place import IMAGE

pytestmark = real_containers


def _says(name: str, script: str, on_term: str = "exit 0", **container: object) -> Obj:
    """A container that writes down when it starts, is told to stop and ends."""
    say = f"say() {{ echo {name} $1 >> /said/words; }}"
    command = ["sh", "-c", f"{say}; trap 'say ended; {on_term}' TERM; say began; {script}"]
    mounts = [{"name": "said", "mountPath": "/said"}]
    return {"name": name, "image": IMAGE, "command": command, "volumeMounts": mounts, **container}


def _sidecar(name: str) -> Obj:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo {name} hook >> /said/words"]}}}
    return _says(name, FOREVER, restartPolicy="Always", lifecycle=hook)


FOREVER = "while true; do sleep 0.1; done"


def _pod(said: Path, main: Obj, **spec: object) -> Obj:
    volumes = [{"name": "said", "hostPath": {"path": str(said), "type": "DirectoryOrCreate"}}]
    inits = [_sidecar(name) for name in ("first", "second", "third")]
    return {
        "metadata": {"name": "web"},
        "spec": {"initContainers": inits, "containers": [main], "volumes": volumes, **spec},
    }


def _words(said: Path) -> list[str]:
    return (said / "words").read_text().splitlines()


async def _all_began(said: Path) -> None:
    async with asyncio.timeout(20):
        while not (said / "words").exists() or "main began" not in _words(said):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _words_of_one_deleted(folder: Path, *, on_term: str, grace: int) -> list[str]:
    """What the containers say whose main one does that when it is told to stop."""
    said = folder / "said"
    async with real_node(folder) as node:
        await node.create(_pod(said, _says("main", FOREVER, on_term), terminationGracePeriodSeconds=grace))
        await _all_began(said)
        await node.delete("web")
        await node.gone("web")
    return _words(said)


@in_loop
async def test_sidecars_end_after_the_others_and_the_last_one_first(tmp_path: Path) -> None:
    hooks_wait_for_nobody = "until [ $(grep -c hook /said/words) = 3 ]; do sleep 0.1; done"
    words = await _words_of_one_deleted(tmp_path, on_term=f"{hooks_wait_for_nobody}; say gone; exit 0", grace=20)
    assert {"first hook", "second hook", "third hook"} < set(words)
    assert words[words.index("main gone") :] == ["main gone", "third ended", "second ended", "first ended"]


@in_loop
async def test_sidecars_of_a_pod_that_is_done_end_in_the_same_order_and_stay_so(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        main = _says("main", "sleep 1; say gone")
        await node.create(_pod(tmp_path / "said", main, restartPolicy="Never"))
        pod = await node.until("web", is_phase("Succeeded"))
        assert all(state(pod, name)["restartCount"] == 0 for name in ("first", "second", "third"))
    words = _words(tmp_path / "said")
    left = [word for word in words[words.index("main gone") :] if not word.endswith("hook")]
    assert left == ["main gone", "third ended", "second ended", "first ended"]


@in_loop
async def test_a_sidecar_whose_turn_does_not_come_is_told_to_stop_when_its_time_is_over(tmp_path: Path) -> None:
    words = await _words_of_one_deleted(tmp_path, on_term="sleep 1000", grace=1)
    assert {"first ended", "second ended", "third ended"} <= set(words)
