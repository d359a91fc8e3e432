"""The openb trace over HTTP: how fast its 8,152 pods are created and bound. `python -m benchmarks.openb`.

Needs ../shared/data/openb, which is not part of the repository; says so and stops where it is absent.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from urllib.parse import quote

import msgspec
import uvloop

from benchmarks.api import cluster, rss_mb
from benchmarks.client import Connection, connect, spread
from fairlead.client.kubeconfig import load
from fairlead.sim.openb import read_pods

TRACE = Path(__file__).parents[2] / "shared" / "data" / "openb"
#: As fast as they are accepted: enough requests under way that the server never waits for the driver.
CONNECTIONS = 64


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


async def count(connection: Connection, selector: str) -> int:
    """How many pods a field selector finds."""
    answer = await connection.request("GET", f"/api/v1/pods?fieldSelector={quote(selector)}")
    return len(msgspec.json.decode(answer, type=_Items).items)


async def settled(connection: Connection, selector: str) -> tuple[int, float]:
    """Wait until a second passes in which no pod leaves the selection; how many stay, and when the last one left."""
    left, since = -1, time.perf_counter()
    while time.perf_counter() - since < 1:
        asked = time.perf_counter()
        if (now_left := await count(connection, selector)) != left:
            left, since = now_left, asked
        await asyncio.sleep(0.05)
    return left, since


async def main() -> list[tuple[str, str, str]]:
    jobs = [
        ("POST", "/api/v1/namespaces/default/pods", msgspec.json.encode(arrival.pod))
        for arrival in read_pods(TRACE / "openb_pod_list_default.csv")
    ]
    with cluster("--nodes-from", str(TRACE / "openb_node_list_all_node.csv")) as (kubeconfig, process, ready):
        began = time.perf_counter()
        await spread(kubeconfig, CONNECTIONS, jobs)
        created = time.perf_counter() - began
        connection = await connect(load(kubeconfig))
        waiting, at = await settled(connection, "spec.nodeName=")
        took, placed = at - began, len(jobs) - waiting
        _, at = await settled(connection, "status.phase=Pending")
        running = at - began
        return [
            ("ready with 1,523 nodes", f"{ready:.2f} s", ""),
            ("pods created", f"{len(jobs):,} in {created:.1f} s: {len(jobs) / created:,.0f}/s", ""),
            ("pods bound", f"{placed:,} in {took:.1f} s: {placed / took:,.0f}/s", "1,000/s"),
            ("the last of them running", f"after {running:.1f} s", ""),
            ("resident at the end", f"{rss_mb(process):.0f} MB", ""),
        ]


if __name__ == "__main__":
    if not TRACE.exists():
        sys.exit(f"skipped: the trace is not here ({TRACE})")
    for name, figure, target in uvloop.run(main()):
        print(f"{name:<30} {figure:>32}   {target}")
