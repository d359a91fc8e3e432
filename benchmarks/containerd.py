"""How fast pods start behind CRI: `python -m benchmarks.containerd` prints a table.

A containerd of its own, with runc and with crun, and a node of this process. It takes root, and of Debian containerd,
runc, crun, busybox-static and containernetworking-plugins. crun 1.8 refuses to work beside a cgroup2 hierarchy that has
controllers, so containerd runs in a copy of our mounts without it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import uvloop

from benchmarks.arguments import parser
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.api.builtin import PODS, RUNTIME_CLASSES
from fairlead.api.pods import Pod
from tests.agent.containerd import missing_containerd
from tests.agent.oci_node import RealNode, manifest, real_node
from tests.agent.runtime_place import CONTAINERD

PODS_AT_ONCE: Final = 100
ASKED: Final = {"runc": "5/s", "crun": "8/s"}
_LONGEST_SECONDS: Final = 120.0


async def main() -> None:
    for handler, asked in ASKED.items():
        with TemporaryDirectory(prefix="fairlead-bench-") as folder:
            async with real_node(Path(folder), kind=CONTAINERD, within=_without_unified()) as node:
                await node.api.create(RUNTIME_CLASSES, {"metadata": {"name": handler}, "handler": handler})
                await _running(node, handler, "first", 1)
                rate = await _running(node, handler, "pod", PODS_AT_ONCE)
                print(f"{PODS_AT_ONCE} pods on containerd with {handler:<8} {rate:>10.1f}/s   {asked}", flush=True)


def _without_unified() -> list[str]:
    unified = hierarchies().unified
    if unified is None:
        return []
    script = f'umount {unified} && exec "$@"'
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh"]


async def _running(node: RealNode, handler: str, prefix: str, count: int) -> float:
    """Create so many pods; how many a second were Running."""
    began = time.perf_counter()
    for number in range(count):
        spec = {"runtimeClassName": handler, "terminationGracePeriodSeconds": 0}
        await node.create(manifest(f"{prefix}-{number}", "sleep", "100000", spec=spec))
    async with asyncio.timeout(_LONGEST_SECONDS):
        while await _phases(node, prefix) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return count / (time.perf_counter() - began)


async def _phases(node: RealNode, prefix: str) -> int:
    pods = [item.view(Pod) for item in (await node.api.list(PODS, "default")).items]
    return sum(pod.status.phase == "Running" for pod in pods if pod.metadata.name.startswith(prefix))


if __name__ == "__main__":
    parser(__doc__).parse_args()
    if why := missing_containerd():
        sys.exit(f"skipped: {why}")
    uvloop.run(main())
