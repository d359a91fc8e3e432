"""What the API server does in a second: `python -m benchmarks.api` prints a table.

The server runs as a process of its own (`fairlead up`, SQLite on disk, TLS), the driver in this one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from benchmarks.client import connect, spread
from fairlead.client.kubeconfig import load

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1.27",
                "resources": {
                    "requests": {"cpu": "100m", "memory": "64Mi"},
                    "limits": {"cpu": "200m", "memory": "128Mi"},
                },
                "ports": [{"containerPort": 80}],
            }
        ]
    },
}


@contextmanager
def cluster(*options: str) -> Iterator[tuple[Path, subprocess.Popen[str], float]]:
    """A fresh `fairlead up`: its kubeconfig, its process, and how many seconds it took to be ready."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [sys.executable, "-m", "fairlead", "up", "--data-dir", f"{folder}/data", "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Ready"):
                    break
            else:
                raise RuntimeError("fairlead up did not become ready")
            yield Path(folder, "data", "kubeconfig"), process, time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(10)


def rss_mb(process: subprocess.Popen[str]) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def pods(count: int, prefix: str = "p") -> Iterator[tuple[str, str, bytes]]:
    for number in range(count):
        body = json.dumps(POD | {"metadata": {"name": f"{prefix}-{number:05}", "labels": {"app": "bench"}}})
        yield "POST", "/api/v1/namespaces/default/pods", body.encode()


async def creates(kubeconfig: Path, count: int, prefix: str = "p") -> float:
    """Pod creates per second over 16 connections."""
    jobs = list(pods(count, prefix))
    began = time.perf_counter()
    await spread(kubeconfig, 16, jobs)
    return count / (time.perf_counter() - began)


async def warm_list(kubeconfig: Path, warm_up: int = 5, rounds: int = 15) -> float:
    """Milliseconds of one list of all pods: the median of the rounds, after some to warm up."""
    connection = await connect(load(kubeconfig))
    times = []
    for _ in range(warm_up + rounds):
        began = time.perf_counter()
        await connection.request("GET", "/api/v1/pods")
        times.append((time.perf_counter() - began) * 1000)
    connection.close()
    return sorted(times[warm_up:])[rounds // 2]


async def deliveries(kubeconfig: Path, watchers: int, changes: int) -> float:
    """Watch events delivered per second to so many watchers."""
    access, arrived, expected = load(kubeconfig), 0, watchers * changes
    done = asyncio.Event()

    def count(chunk: bytes) -> None:
        nonlocal arrived
        arrived += chunk.count(b'{"type":"')
        if arrived >= expected:
            done.set()

    writer = await connect(access)
    answer = json.loads(await writer.request("GET", "/api/v1/namespaces/default/configmaps"))
    version = answer["metadata"]["resourceVersion"]
    path = f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}"
    streams = [await connect(access) for _ in range(watchers)]
    tasks = [asyncio.create_task(stream.lines(path, count)) for stream in streams]
    await asyncio.sleep(2)
    jobs = [
        ("POST", "/api/v1/namespaces/default/configmaps", json.dumps({"metadata": {"name": f"w-{n}"}}).encode())
        for n in range(changes)
    ]
    began = time.perf_counter()
    await spread(kubeconfig, 4, jobs)
    await asyncio.wait_for(done.wait(), 120)
    took = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    return expected / took


async def main(count: int) -> list[tuple[str, str, str]]:
    rows = []
    with cluster("--nodes", "0", "--components", "api,controllers") as (kubeconfig, process, ready):
        rows.append(("ready from cold", f"{ready:.2f} s", "< 1 s"))
        rows.append(("resident when idle", f"{rss_mb(process):.0f} MB", ""))
        await creates(kubeconfig, 500, "warm")
        rows.append(
            ("pod creates, 16 connections, TLS, durable", f"{await creates(kubeconfig, count):,.0f}/s", "1,500/s")
        )
        rows.append((f"list of {count + 500:,} pods, warm", f"{await warm_list(kubeconfig):.0f} ms", "< 50 ms"))
        rows.append((f"resident with {count + 500:,} pods", f"{rss_mb(process):.0f} MB", "< 150 MB"))
        rows.append(("1,000 watchers", f"{await deliveries(kubeconfig, 1000, 200):,.0f} deliveries/s", "25,000/s"))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=9500)
    arguments = parser.parse_args()
    for name, figure, target in uvloop.run(main(arguments.pods)):
        print(f"{name:<45} {figure:>24}   {target}")
