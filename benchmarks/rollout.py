"""How long a large Deployment takes until every pod is ready: `python -m benchmarks.rollout [REPLICAS …]`."""

from __future__ import annotations

import asyncio
import time

import msgspec
import uvloop

from benchmarks.api import POD, cluster, rss_mb
from benchmarks.arguments import parser
from benchmarks.client import connect
from fairlead.client.kubeconfig import load

PATH = "/apis/apps/v1/namespaces/default/deployments"
PODS_A_NODE = 110


class _Status(msgspec.Struct, rename="camel"):
    ready_replicas: int = 0


class _Deployment(msgspec.Struct):
    status: _Status


def deployment(replicas: int) -> bytes:
    labels = {"app": "bench"}
    template = {"metadata": {"labels": labels}, "spec": POD["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return msgspec.json.encode({"metadata": {"name": "bench"}, "spec": spec})


async def rollout(replicas: int) -> tuple[str, str]:
    nodes = -(-replicas // PODS_A_NODE)
    with cluster("--nodes", str(nodes), "--node-cpu", "64", "--node-memory", "256Gi") as (kubeconfig, process, _):
        connection = await connect(load(kubeconfig))
        began = time.perf_counter()
        await connection.request("POST", PATH, deployment(replicas))
        ready = 0
        while ready < replicas:
            await asyncio.sleep(0.1)
            answer = await connection.request("GET", f"{PATH}/bench")
            ready = msgspec.json.decode(answer, type=_Deployment).status.ready_replicas
        took = time.perf_counter() - began
        figure = f"{took:.1f} s: {replicas / took:,.0f}/s, {rss_mb(process):.0f} MB"
        return f"{replicas:,} replicas on {nodes} nodes, all ready", figure


async def main(counts: list[int]) -> None:
    for replicas in counts:
        name, figure = await rollout(replicas)
        print(f"{name:<45} {figure:>30}")


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("replicas", type=int, nargs="*", default=[3000, 10_000], help="of each rollout")
    uvloop.run(main(options.parse_args().replicas))
