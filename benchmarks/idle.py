"""What simulated nodes cost while nothing happens: `python -m benchmarks.idle`.

Every node renews its lease once in ten seconds, on disk, and the node lifecycle controller watches that it does.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import uvloop

from benchmarks.api import cluster, cpu_seconds, rss_mb
from benchmarks.arguments import parser
from benchmarks.client import Connection, connect
from fairlead.api.objects import Obj
from fairlead.client.kubeconfig import load

FLEETS = (100, 1_000, 5_000, 10_000)
WARM_UP_SECONDS = 15
SECONDS = 30


async def items(connection: Connection, path: str) -> list[Obj]:
    found: list[Obj] = msgspec.json.decode(await connection.request("GET", path))["items"]
    return found


def age(lease: Obj) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(lease["spec"]["renewTime"])).total_seconds()


async def measured(count: int) -> tuple[str, ...]:
    with cluster("--nodes", str(count)) as (kubeconfig, process, ready):
        await asyncio.sleep(WARM_UP_SECONDS)
        began = cpu_seconds(process)
        await asyncio.sleep(SECONDS)
        spent = (cpu_seconds(process) - began) / SECONDS
        connection = await connect(load(kubeconfig))
        leases = await items(connection, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
        nodes = await items(connection, "/api/v1/nodes")
        tainted = sum("taints" in node["spec"] for node in nodes)
        oldest = max(map(age, leases))
        cost = f"{100 * spent:.1f} %"
        return f"{count:,}", f"{ready:.1f} s", cost, f"{oldest:.1f} s", f"{tainted}", f"{rss_mb(process):.0f} MB"


async def main() -> None:
    print("nodes    ready after  CPU of a core  oldest lease  not Ready  resident")
    for count in FLEETS:
        cells = await measured(count)
        print("{:<8} {:<12} {:<14} {:<13} {:<10} {}".format(*cells), flush=True)


if __name__ == "__main__":
    parser(__doc__).parse_args()
    uvloop.run(main())
