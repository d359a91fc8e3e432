"""What a real node does and costs: `python -m benchmarks.real_node` prints a table.

It takes root, conmon, crun and busybox, runs in a network namespace, a folder and a cgroup of its own, and leaves
nothing of them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import uvloop

from benchmarks.api import cluster, cpu_seconds, rss_mb
from benchmarks.arguments import parser
from benchmarks.client import spread
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.usage import usage_of
from fairlead.api.builtin import PODS
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.client.http import HttpApi
from fairlead.client.informer import Informer
from fairlead.client.kubeconfig import load

IMAGE: Final = "bench/busybox:1"
PODS_AT_ONCE, IDLE_PODS = 100, 200
IDLE_SECONDS = 60
LONGEST_SECONDS = 120
LINES_A_SECOND, LOG_SECONDS = 10_000, 10
_INSIDE: Final = "FAIRLEAD_BENCHMARK_INSIDE"
_CGROUP: Final = "/fairlead-benchmark"
#: However full the disk is, the image that was loaded stays.
_CONFIGURATION: Final = f"""
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupRoot: {_CGROUP}
maxPods: 300
imageGCHighThresholdPercent: 100
evictionHard: {{memory.available: 100Mi}}
"""
#: Each second so many lines, each with its number.
_CHATTER: Final = f"""
i=0; while [ $i -lt {LOG_SECONDS} ]; do
  from=$((i * {LINES_A_SECOND})); i=$((i + 1))
  busybox seq $((from + 1)) $((from + {LINES_A_SECOND})) | busybox sed 's/$/ what a program says of what it does/'
  sleep 1
done
"""


class _Agent:
    """The agent of a cluster's own node: a child of `fairlead up`."""

    def __init__(self, up: subprocess.Popen[str]) -> None:
        self.pid = int(Path(f"/proc/{up.pid}/task/{up.pid}/children").read_text().split()[0])


@contextmanager
def node(folder: Path) -> Iterator[Sequence[str]]:
    """The options of `fairlead up` for a node with the image loaded; what the node leaves is removed."""
    root, config = folder / "node", folder / "kubelet.yaml"
    config.write_text(_CONFIGURATION)
    (folder / "rootfs/bin").mkdir(parents=True)
    shutil.copy2(shutil.which("busybox") or "", folder / "rootfs/bin/busybox")
    for name in ("sh", "sleep"):
        (folder / "rootfs/bin" / name).symlink_to("busybox")
    _fairlead("images", "load", str(folder / "rootfs"), "--root", str(root), "--name", IMAGE, "--cmd", "sh")
    try:
        yield ["--node-runtime", "oci", "--node-root", str(root), "--node-config", str(config)]
    finally:
        _fairlead("node", "reset", "--root", str(root))


def _fairlead(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "fairlead", *words], stdout=subprocess.DEVNULL, check=True)


@asynccontextmanager
async def watched(kubeconfig: Path) -> AsyncIterator[Informer[Pod]]:
    async with HttpApi(load(kubeconfig)) as api:
        pods = Informer(api, PODS, Pod)
        running = asyncio.create_task(pods.run())
        await pods.synced()
        try:
            yield pods
        finally:
            running.cancel()


async def _phase(pods: Informer[Pod], phase: str, count: int) -> None:
    """Return once so many pods are in it."""
    done = asyncio.Event()

    def look(*_: object) -> None:
        if sum(pod.status.phase == phase for pod in pods) >= count:
            done.set()

    pods.subscribe(look)
    look()
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            await done.wait()
    except TimeoutError:
        raise RuntimeError(f"not {count} pods are {phase}: {[pod.status for pod in pods][:3]}") from None


def _pod(name: str, script: str = "sleep 100000") -> Obj:
    container = {"name": "c", "image": IMAGE, "command": ["sh", "-c", script]}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "restartPolicy": "Never"}}


async def _create(kubeconfig: Path, *pods: Obj) -> None:
    jobs = (("POST", "/api/v1/namespaces/default/pods", msgspec.json.encode(pod)) for pod in pods)
    await spread(kubeconfig, 16, jobs)


async def pods_a_second(kubeconfig: Path, pods: Informer[Pod], prefix: str, count: int) -> float:
    before = sum(pod.status.phase == "Running" for pod in pods)
    began = time.perf_counter()
    await _create(kubeconfig, *(_pod(f"{prefix}-{number}") for number in range(count)))
    await _phase(pods, "Running", before + count)
    return count / (time.perf_counter() - began)


async def idle(agent: _Agent) -> tuple[float, float]:
    """The agent's part of a core while nothing happens, and what it has resident."""
    await asyncio.sleep(IDLE_SECONDS / 3)
    began = cpu_seconds(agent)
    await asyncio.sleep(IDLE_SECONDS)
    return (cpu_seconds(agent) - began) / IDLE_SECONDS, rss_mb(agent)


def reading_seconds() -> float:
    """What reading the cgroups of all pods takes, as a node does when it measures; the median of some times."""
    cgroups, parent, times = Cgroups(hierarchies()), f"{_CGROUP}/kubepods/besteffort", []
    pods = [f"{parent}/{name}" for name in cgroups.children(parent)]
    paths = [*pods, *(f"{pod}/{name}" for pod in pods for name in cgroups.children(pod))]
    for _ in range(9):
        began = time.perf_counter()
        for path in paths:
            usage_of(cgroups, path)
        times.append(time.perf_counter() - began)
    return sorted(times)[4]


async def followed(kubeconfig: Path, pods: Informer[Pod]) -> tuple[int, float]:
    """How many lines in a row `kubectl logs -f` has shown of a pod that writes many, and in which time."""
    await _create(kubeconfig, _pod("chatty", f"sleep 1; {_CHATTER}"))
    await _phase(pods, "Running", sum(pod.status.phase == "Running" for pod in pods) + 1)
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "logs", "-f", "chatty"]
    began, expected = time.perf_counter(), 0
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async for line in process.stdout:
        expected += 1
        if not line.startswith(b"%d " % expected):
            raise RuntimeError(f"line {expected} is {line!r}")
    await process.wait()
    return expected, time.perf_counter() - began


async def main() -> None:
    with TemporaryDirectory(prefix="fairlead-bench-") as folder, node(Path(folder)) as options:
        began = time.perf_counter()
        with cluster(*options) as (kubeconfig, process, ready):
            async with watched(kubeconfig) as pods:
                await _create(kubeconfig, _pod("first"))
                await _phase(pods, "Running", 1)
                first = time.perf_counter() - began
                _show("up with the node ready", f"{ready:.2f} s", "")
                _show("up to the first pod Running, image loaded", f"{first:.2f} s", "< 2 s")
                rate = await pods_a_second(kubeconfig, pods, "a", PODS_AT_ONCE)
                _show(f"{PODS_AT_ONCE} pods, created to Running", f"{rate:.1f}/s", "12/s")
                await pods_a_second(kubeconfig, pods, "b", IDLE_PODS - PODS_AT_ONCE - 1)
                agent = _Agent(process)
                part, resident = await idle(agent)
                _show(f"agent with {IDLE_PODS} idle pods, CPU of a core", f"{part:.1%}", "< 3 %")
                _show("the same, resident", f"{resident:.0f} MB", "< 80 MB")
                _show("reading their cgroups once", f"{reading_seconds() * 1000:.0f} ms", "< 100 ms")
                lines, seconds = await followed(kubeconfig, pods)
                what = f"kubectl logs -f of {LINES_A_SECOND:,} lines a second"
                wanted = LINES_A_SECOND * LOG_SECONDS
                _show(what, f"{lines:,} of {wanted:,} in {seconds:.1f} s", "none lost")


def _show(what: str, figure: str, asked: str) -> None:
    print(f"{what:<45} {figure:>28}   {asked}", flush=True)


def _begin_again_inside() -> None:
    """In a network namespace: pods of others on this machine, and their rules, are no concern of ours."""
    script = 'ip link set lo up && exec "$@"'
    again = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, "-m", "benchmarks.real_node"]
    os.execvpe(again[0], again, {**os.environ, _INSIDE: "yes"})


if __name__ == "__main__":
    parser(__doc__).parse_args()
    if _INSIDE not in os.environ:
        _begin_again_inside()
    uvloop.run(main())
