"""Pods scheduled over HTTPS: `python -m benchmarks.scheduling` prints a table.

`fairlead up --nodes 0` with its API server and scheduler (SQLite on disk, TLS) in a process of its own; nodes and pods
are created from outside over 16 connections as fast as they are accepted, and counted by a watch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

from benchmarks.api import cluster, rss_mb
from benchmarks.arguments import parser
from benchmarks.client import spread as spread_over
from benchmarks.scheduler import Obj, apart, node, pod, spread
from fairlead.api import builtin
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import WatchQuery
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import load

CONNECTIONS = 16
WITHOUT = (
    "--nodes",
    "0",
    "--components",
    "scheduler",
    "--disable-admission-plugins",
    "ServiceAccount,TaintNodesByCondition",
)
KINDS: dict[str, Callable[[str], Obj]] = {"plain": pod, "topology spread": spread, "required anti-affinity": apart}


def asked(nodes: int, kind: str) -> int:
    return {1000: 1000, 5000: 800}[nodes] if kind == "plain" else {1000: 800, 5000: 600}[nodes]


def created(path: str, obj: Obj) -> tuple[str, str, bytes]:
    return "POST", path, msgspec.json.encode(obj)


async def all_bound(kubeconfig: Path, count: int, watching: asyncio.Event) -> None:
    """Return once so many pods have a node."""
    async with HttpApi(load(kubeconfig)) as api:
        version, seen = (await api.list(builtin.PODS)).resource_version, set[str]()
        watching.set()
        async for event in api.watch(builtin.PODS, query=WatchQuery(resource_version=version)):
            one = event.object.view(Pod)
            if one.spec.node_name:
                seen.add(one.metadata.name)
                if len(seen) == count:
                    return


async def rate(kubeconfig: Path, kind: str, count: int) -> float:
    """Pods bound per second."""
    made = [KINDS[kind](f"pod-{kind.replace(' ', '-')}-{number}") for number in range(count)]
    for one in made:
        del one["spec"]["priority"]
    jobs = [created("/api/v1/namespaces/default/pods", one) for one in made]
    watching = asyncio.Event()
    waiting = asyncio.create_task(all_bound(kubeconfig, count, watching))
    await watching.wait()
    began = time.perf_counter()
    await spread_over(kubeconfig, CONNECTIONS, jobs)
    await waiting
    return count / (time.perf_counter() - began)


async def measure(nodes: int, count: int) -> None:
    for kind in KINDS:
        with cluster(*WITHOUT) as (kubeconfig, process, _):
            await spread_over(
                kubeconfig, CONNECTIONS, [created("/api/v1/nodes", node(number)) for number in range(nodes)]
            )
            figure = await rate(kubeconfig, kind, count)
            row = f"{nodes:>6} {count:>6} {kind:<24} {figure:>7,.0f}/s {asked(nodes, kind):>7}/s"
            print(f"{row} {rss_mb(process):>6.0f} MB", flush=True)


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000], choices=[1000, 5000])
    options.add_argument("--pods", type=int, default=5000)
    given = options.parse_args()
    print(f"{'nodes':>6} {'pods':>6} {'kind':<24} {'bound':>9} {'asked':>9} {'memory':>9}")
    for size in given.nodes:
        uvloop.run(measure(size, given.pods))
