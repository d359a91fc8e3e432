"""Variables out of files that init containers have written."""

from __future__ import annotations

import os
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from fairlead.agent.pods.env_files import LONGEST_FILE, EnvFiles, NoVariable, variables_in
from fairlead.api.objects import Obj
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_phase, manifest, real_node, state
from tests.agent.runtime_place import IMAGE, on_each

CERTIFICATE = "-----BEGIN-----\n\nb3Bl+/==\n-----END-----"
#: A file, and what KEY is in it.
READ = [
    ("KEY='value'", "value"),
    ("  \tKEY='value'\n", "value"),
    ("# a comment\n\n   # another\nOTHER='x'\nKEY='value' # a third\n", "value"),
    ("KEY='a#b=c'  \n", "a#b=c"),
    ("KEY='  blank  '\n", "  blank  "),
    ("KEY='$HOME ${X} `id` \"x\" \\n'\n", '$HOME ${X} `id` "x" \\n'),
    (f"KEY='{CERTIFICATE}'\nOTHER='x'\n", CERTIFICATE),
    ("KEY='ü 🌍'\n", "ü 🌍"),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_a_value_is_what_a_shell_makes_of_it(tmp_path: Path, text: str, value: str) -> None:
    (tmp_path / "file").write_text(text)
    assert variables_in(text.encode()).values["KEY"] == value
    shell = [shutil.which("sh") or "", "-c", '. "$0" && printf %s "$KEY"', str(tmp_path / "file")]
    assert subprocess.run(shell, capture_output=True, text=True).stdout == value


@pytest.mark.parametrize(
    "text",
    [
        "KEY=value",
        'KEY="value"',
        "KEY =' value'",
        "='value'\nKEY='value'",
        "no variable\nKEY='value'",
        "KEY='a''b'",
        "KEY='a'b",
        "KEY='a",
        "KEY=",
        "OTHER='" + "x" * (64 << 10) + "'\nKEY='value'",
    ],
)
def test_what_is_no_file_of_variables(text: str) -> None:
    found = variables_in(text.encode())
    assert found.problem and "KEY" not in found.values


def test_what_is_wrong_below_a_key_is_never_read() -> None:
    found = variables_in(b"KEY='value'\r\nbroken\n")
    assert found.values == {"KEY": "value"} and found.problem


@pytest.mark.slow
@in_loop
async def test_thousands_of_files_take_no_more_memory_than_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("KEY='value'\nOTHER='" + "x\n" * (LONGEST_FILE // 2 - 20) + "'")
    files = EnvFiles({"v": tmp_path}.get)
    tracemalloc.start()
    try:
        for count in range(12):
            os.link(tmp_path / "file", tmp_path / f"file{count}")
            assert await files.value({"volumeName": "v", "path": f"file{count}", "key": "KEY"}) == "value"
        assert tracemalloc.get_traced_memory()[0] < 10 * LONGEST_FILE
    finally:
        tracemalloc.stop()


@in_loop
async def test_nothing_but_a_plain_file_of_the_volume_is_read(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "deep").mkdir(parents=True)
    (volume / "deep/file").write_text("KEY='inside'\nEMPTY=''\n")
    outside.write_text("KEY='outside'\n")
    (volume / "link").symlink_to("deep/file")
    (volume / "out").symlink_to(outside)
    (volume / "up").symlink_to("../outside")
    (volume / "loop").symlink_to("loop")
    (volume / "huge").write_bytes(b"\n" * (LONGEST_FILE + 1))
    os.mkfifo(volume / "pipe")
    files = EnvFiles({"v": volume}.get)

    async def value(path: str, key: str = "KEY", *, is_optional: bool = False, name: str = "v") -> str | None:
        return await files.value({"volumeName": name, "path": path, "key": key, "optional": is_optional})

    assert await value("deep/file") == "inside" == await value("link")
    assert await value("link", "OTHER", is_optional=True) is None
    for path in ("out", "up", "loop", "huge", "pipe", "deep", "missing"):
        with pytest.raises(NoVariable, match="couldn't parse env file"):
            await value(path)
    for key in ("OTHER", "EMPTY"):
        with pytest.raises(NoVariable, match=f'environment variable key "{key}" not found in file "{volume}/link"'):
            await value("link", key)
    with pytest.raises(NoVariable, match='cannot find the volume "other" referenced by FileKeyRef'):
        await value("link", name="other")


def _from_file(name: str, key: str, **more: object) -> Obj:
    return {"name": name, "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "conf/.env", "key": key, **more}}}


@on_each
@in_loop
async def test_a_container_has_the_variables_that_another_has_written(tmp_path: Path, kind: str) -> None:
    async with real_node(tmp_path, kind=kind) as node:
        write = "mkdir /v/conf; printf \"ONE='1'\\nTWO='a\\nb'\\n\" > /v/conf/.env"
        init: Obj = {"name": "i", "image": IMAGE, "command": ["sh", "-c", write]}
        init["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
        spec = {"initContainers": [init], "volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never"}
        env = [_from_file("A", "ONE"), _from_file("B", "TWO"), _from_file("C", "THREE", optional=True)]
        script = 'echo "$A $B ${C-unset}"; ls /v 2>/dev/null'
        await node.create(manifest("reads", "sh", "-c", script, spec=spec, env=env))
        await node.until("reads", is_phase("Failed"))  # `ls` does: it has no such volume
        assert node.log("reads") == ["1 a", "b unset"]
        await node.create(manifest("waits", "true", spec=spec, env=[_from_file("A", "NONE")]))
        waiting = await node.until(
            "waits", lambda pod: "Config" in state(pod).get("state", {}).get("waiting", {}).get("reason", "")
        )
        said = state(waiting)["state"]["waiting"]
        assert said["reason"] == "CreateContainerConfigError"
        assert said["message"].startswith('environment variable key "NONE" not found in file "')
        await node.told("waits", "Failed", f"Error: {said['message']}")


@real_containers
@in_loop
async def test_on_a_node_without_the_feature_such_variables_are_empty(tmp_path: Path) -> None:
    async with real_node(tmp_path, {"featureGates": {"EnvFiles": False}}) as node:
        spec = {"volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never"}
        await node.create(manifest("reads", "sh", "-c", 'echo "<${A-unset}>"', spec=spec, env=[_from_file("A", "ONE")]))
        await node.until("reads", is_phase("Succeeded"))
        assert node.log("reads") == ["<>"]
