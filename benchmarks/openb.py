"""The openb trace over HTTP: how fast its 8,152 pods are created and bound. `python -m benchmarks.openb`.

Needs ../shared/data/openb, which is not part of the repository; says so and stops where it is absent.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from benchmarks.api import cluster, rss_mb
from benchmarks.client import connect, spread
from fairlead.client.kubeconfig import load
from fairlead.sim.openb import read_pods

TRACE = Path(__file__).parents[2] / "shared" / "data" / "openb"
CONNECTIONS = 16


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    spec: _Spec


class _Pods(msgspec.Struct):
    items: list[_Pod]


async def bound(kubeconfig: Path) -> tuple[int, int]:
    """How many pods there are, and how many of them have a node."""
    connection = await connect(load(kubeconfig))
    pods = msgspec.json.decode(await connection.request("GET", "/api/v1/pods"), type=_Pods).items
    connection.close()
    return len(pods), sum(1 for pod in pods if pod.spec.node_name)


async def settled(kubeconfig: Path) -> tuple[int, int, float]:
    """Wait until two seconds pass without another pod being bound; the counts, and when the last change was seen."""
    last, since = (0, 0), time.perf_counter()
    while time.perf_counter() - since < 2:
        counts = await bound(kubeconfig)
        if counts != last:
            last, since = counts, time.perf_counter()
        await asyncio.sleep(0.1)
    return *last, since


async def main() -> list[tuple[str, str, str]]:
    jobs = [
        ("POST", "/api/v1/namespaces/default/pods", msgspec.json.encode(arrival.pod))
        for arrival in read_pods(TRACE / "openb_pod_list_default.csv")
    ]
    with cluster("--nodes-from", str(TRACE / "openb_node_list_all_node.csv")) as (kubeconfig, process, ready):
        began = time.perf_counter()
        await spread(kubeconfig, CONNECTIONS, jobs)
        created = time.perf_counter() - began
        pods, placed, at = await settled(kubeconfig)
        took = at - began
        return [
            ("ready with 1,523 nodes", f"{ready:.2f} s", ""),
            ("pods created", f"{pods:,} in {created:.1f} s: {pods / created:,.0f}/s", ""),
            ("pods bound", f"{placed:,} in {took:.1f} s: {placed / took:,.0f}/s", "1,000/s"),
            ("resident at the end", f"{rss_mb(process):.0f} MB", ""),
        ]


if __name__ == "__main__":
    if not TRACE.exists():
        sys.exit(f"skipped: the trace is not here ({TRACE})")
    for name, figure, target in uvloop.run(main()):
        print(f"{name:<30} {figure:>32}   {target}")
