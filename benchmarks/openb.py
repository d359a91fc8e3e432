"""The openb trace over HTTP: how soon its 8,152 pods are created, bound and running. `python -m benchmarks.openb`.

A user waits for Running, so the figure that counts is from the first create to the last pod that runs. The server's
CPU time says the same of a machine that is busy with other things.

Needs ../shared/data/openb, which is not part of the repository; says so and stops where it is absent.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import msgspec
import uvloop

from benchmarks.api import cluster, cpu_seconds, rss_mb
from benchmarks.arguments import parser
from benchmarks.client import Connection, connect, spread
from fairlead.client.kubeconfig import load
from fairlead.sim.openb import read_pods

TRACE = Path(__file__).parents[2] / "shared" / "data" / "openb"
CONNECTIONS = 16


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


class _Metadata(msgspec.Struct):
    created: datetime = msgspec.field(name="creationTimestamp")


class _Running(msgspec.Struct):
    started_at: datetime = msgspec.field(name="startedAt")


class _State(msgspec.Struct):
    running: _Running | None = None


class _Container(msgspec.Struct):
    state: _State


class _Status(msgspec.Struct):
    containers: list[_Container] = msgspec.field(name="containerStatuses", default_factory=list)


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status


class _Pods(msgspec.Struct):
    items: list[_Pod]


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


async def mean_wait(connection: Connection) -> float:
    """Seconds from a pod's creation to its start, over those that run."""
    pods = msgspec.json.decode(await connection.request("GET", "/api/v1/pods"), type=_Pods).items
    waits = [
        (state.running.started_at - pod.metadata.created).total_seconds()
        for pod in pods
        for state in [container.state for container in pod.status.containers][:1]
        if state.running
    ]
    return sum(waits) / len(waits)


async def main() -> list[tuple[str, str, str]]:
    jobs = [
        ("POST", "/api/v1/namespaces/default/pods", msgspec.json.encode(arrival.obj))
        for arrival in read_pods(TRACE / "openb_pod_list_default.csv")
    ]
    with cluster("--nodes-from", str(TRACE / "openb_node_list_all_node.csv")) as (kubeconfig, process, ready):
        began, cpu_before = time.perf_counter(), cpu_seconds(process)
        await spread(kubeconfig, CONNECTIONS, jobs)
        created = time.perf_counter() - began
        connection = await connect(load(kubeconfig))
        waiting, at = await settled(connection, "spec.nodeName=")
        took, placed = at - began, len(jobs) - waiting
        _, at = await settled(connection, "status.phase=Pending")
        running, used = at - began, cpu_seconds(process) - cpu_before
        return [
            ("ready with 1,523 nodes", f"{ready:.2f} s", ""),
            ("pods created", f"{len(jobs):,} in {created:.1f} s: {len(jobs) / created:,.0f}/s", ""),
            ("pods bound", f"{placed:,} in {took:.1f} s: {placed / took:,.0f}/s", ""),
            ("all of them running", f"after {running:.1f} s", "9 s"),
            ("from created to running", f"{await mean_wait(connection):.1f} s in the mean", ""),
            ("the server's CPU", f"{used:.1f} s, {used / len(jobs) * 1000:.2f} ms a pod", ""),
            ("resident at the end", f"{rss_mb(process):.0f} MB", ""),
        ]


if __name__ == "__main__":
    parser(__doc__).parse_args()
    if not TRACE.exists():
        sys.exit(f"skipped: the trace is not here ({TRACE})")
    for name, figure, target in uvloop.run(main()):
        print(f"{name:<30} {figure:>32}   {target}")
