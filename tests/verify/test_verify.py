"""Every workload of the package holds on this machine, and nothing of it is left there.

One at a time: they share a CPU.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.verify.nested import cgroup_of
from fairlead.verify.packaged import names
from tests.agent.machine import missing

ROOT = Path(tempfile.gettempdir()) / "fairlead-verify-tests"
pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.slow]

_QUICK = """
apiVersion: verify.fairlead.dev/v1alpha1
kind: Workload
metadata: {name: quick}
memory: 256Mi
disk: 64Mi
seconds: 6
"""
_LEAKING = """
---
apiVersion: v1
kind: Pod
metadata: {name: leaking, annotations: {sim.fairlead.dev/usage-memory: leak(10Mi/s)}}
spec:
  restartPolicy: Never
  containers: [{name: app, image: app, resources: {limits: {memory: 30Mi}}}]
"""


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Whoever else runs these tests waits."""
    with ROOT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        assert _leftovers() == []


def _leftovers() -> list[str]:
    """Of a workload: mounts, cgroups, loop devices, files."""
    found = [str(point) for point in linux.mount_points(ROOT)]
    found += [str(path) for root in hierarchies().roots if (path := root / cgroup_of(ROOT).strip("/")).exists()]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        if str(ROOT) in backing.read_text():
            found.append(str(backing))
    return found + ([str(path) for path in ROOT.iterdir()] if ROOT.exists() else [])


def _begin(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fairlead", "verify", "--root", str(ROOT), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _verify(*arguments: str | Path) -> tuple[int, str]:
    process = _begin(*arguments)
    said, _ = process.communicate(timeout=300)
    return process.returncode, said


def _written(folder: Path, *documents: str) -> Path:
    file = folder / "workload.yaml"
    file.write_text("".join(documents))
    return file


@pytest.mark.parametrize("name", names())
def test_prediction_and_reality_agree(name: str) -> None:
    code, said = _verify(name)
    assert code == 0, said
    assert ("failCgroupV1 is false" in said.splitlines()[0]) == (hierarchies().version == 1)


def test_a_wrong_prediction_is_noticed(tmp_path: Path) -> None:
    """An ordinary container does not do what its annotation says."""
    if not Path("/bin/busybox").exists():
        pytest.skip("an ordinary container takes busybox (apt-get install busybox-static)")
    images, rootfs = tmp_path / "node", tmp_path / "rootfs"
    (rootfs / "bin").mkdir(parents=True)
    (rootfs / "bin/busybox").write_bytes(Path("/bin/busybox").read_bytes())
    (rootfs / "bin/busybox").chmod(0o755)
    load = ["images", "load", str(rootfs), "--root", str(images), "--name", "test/busybox:1"]
    subprocess.run([sys.executable, "-m", "fairlead", *load], check=True, capture_output=True)
    sleeps = "image: 'test/busybox:1', command: [/bin/busybox, sleep, '100']"
    ordinary = _LEAKING.replace("image: app", sleeps)
    code, said = _verify("-o", "json", "--images-root", images, _written(tmp_path, _QUICK, ordinary))
    document = json.loads(said)
    assert code == 1 and document["agrees"] is False
    rows = document["workloads"][0]["comparison"]["rows"]
    assert {(row["kind"], row["who"], row["problem"]) for row in rows} == {
        ("OOM-killed", "default/leaking/app", "did not happen"),
        ("failed", "default/leaking", "did not happen"),
    }


def test_images_lie_apart_here_as_they_do_in_a_prediction(tmp_path: Path) -> None:
    """A disk that pods have filled is not that of images."""
    kubelet = "---\nkind: KubeletConfiguration\nevictionHard: {imagefs.available: 60%}\n"
    filling = _LEAKING.replace("usage-memory: leak(10Mi/s)", "usage-rootfs: 40Mi")
    code, said = _verify(_written(tmp_path, _QUICK.replace("seconds: 6", "seconds: 25"), kubelet, filling))
    assert code == 0 and "evicted" not in said, said


def test_bad_input_is_refused_before_anything_runs(tmp_path: Path) -> None:
    bad: Sequence[tuple[str, str]] = [
        (_LEAKING.replace("leak(10Mi/s)", "leak(much)"), "annotation sim.fairlead.dev/usage-memory"),
        (_LEAKING.replace("restartPolicy: Never", "restartPolicy: Sometimes"), "Sometimes"),
        (
            _LEAKING + "---\nkind: KubeletConfiguration\nevictionHard: {memory.available: lots}\n",
            "quantities must match",
        ),
    ]
    for text, problem in bad:
        code, said = _verify(_written(tmp_path, _QUICK, text))
        assert (code, problem in said, "Traceback" in said) == (2, True, False), said
    code, said = _verify("--memory", "900Ti", _written(tmp_path, _QUICK, _LEAKING))
    assert code == 1 and "this machine can spare" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_whoever_is_stopped_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Even kill -9: what that leaves goes before the next workload."""
    file = _written(tmp_path, _QUICK.replace("seconds: 6", "seconds: 600"), _LEAKING)
    process = _begin(file)
    end = time.monotonic() + 60
    while not list(ROOT.glob("disk/node/containers/*/conmon.pid")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    os.kill(process.pid, number)
    said, _ = process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert _leftovers() != []
        code, said = _verify(_written(tmp_path, _QUICK, _LEAKING))
        assert code == 0, said
    else:
        assert process.returncode == 130, said
        assert said == "Stopped; nothing is left on the machine.\n"
