"""How many pods per second the scheduler places, over the cheapest Api there is.

    python -m benchmarks.scheduler [--nodes 1000 5000] [--pods 10000] [--shapes 1]

Every pod takes the whole way: watch → queue → decision → assume → bind → watch. What is measured is the scheduler, an
informer and `fairlead.testing.memory_api`; a server's own cost comes on top.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from typing import Any

from fairlead.api import builtin
from fairlead.api.scheduling import Pod
from fairlead.client.informer import Informers
from fairlead.runtime import chance, loops
from fairlead.scheduler.loop import Scheduler
from fairlead.testing.memory_api import MemoryApi

ZONES = 10


def node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(number: int, shapes: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": f"{256 * 1024 + number % shapes}Ki"}
    container = {"name": "app", "image": "registry.test/app:1", "resources": {"requests": requests}}
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": "web"}},
        "spec": {"containers": [container], "schedulerName": "default-scheduler"},
        "status": {"phase": "Pending"},
    }


async def place(nodes: int, pods: int, shapes: int) -> float:
    """Seconds from the first pod's creation until the last one is bound."""
    chance.seed(1)
    api = MemoryApi()
    for number in range(nodes):
        await api.create(builtin.NODES, node(number))
    informers = Informers(api)
    scheduler = Scheduler(api, informers)
    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(scheduler.run())]
    await informers.synced()
    bound, all_bound = 0, asyncio.Event()

    def count(old: Pod | None, new: Pod | None) -> None:
        nonlocal bound
        bound += new is not None and bool(new.spec.node_name)
        if bound == pods:
            all_bound.set()

    informers.of(builtin.PODS, Pod).subscribe(count)
    begin = time.perf_counter()
    for number in range(pods):
        await api.create(builtin.PODS, pod(number, shapes), "default")
    await all_bound.wait()
    seconds = time.perf_counter() - begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--shapes", type=int, nargs="+", default=[1, 100, 10_000], help="different requests among them")
    args = parser.parse_args()
    print(f"{'nodes':>7} {'pods':>7} {'shapes':>7} {'seconds':>8} {'pods/s':>8} {'peak MB':>8}")
    for nodes in args.nodes:
        for shapes in args.shapes:
            seconds = loops.run(place(nodes, args.pods, shapes))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"{nodes:>7} {args.pods:>7} {shapes:>7} {seconds:>8.2f} {args.pods / seconds:>8.0f} {peak:>8}")


if __name__ == "__main__":
    main()
