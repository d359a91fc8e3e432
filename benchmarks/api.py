"""What the API server does in a second: `python -m benchmarks.api` prints a table.

The server runs as a process of its own (`fairlead up`, SQLite on disk, TLS), the driver in this one.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import uvloop

from benchmarks.arguments import parser
from benchmarks.client import Discard, connect, spread, user_of
from fairlead.client.kubeconfig import load

PROTOBUF = "application/vnd.kubernetes.protobuf"
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


APPLY = "application/apply-patch+yaml"


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


class Process(Protocol):
    @property
    def pid(self) -> int: ...


def rss_mb(process: Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def cpu_seconds(process: Process) -> float:
    """CPU time of all threads so far."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


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


async def first_list(kubeconfig: Path, accept: str) -> tuple[float, float]:
    """Milliseconds of one list of all pods in a form that nobody has asked for, and the longest GET meanwhile."""
    access, took, longest = load(kubeconfig), 0.0, 0.0
    listing, getting = await connect(access, accept), await connect(access)

    async def ask() -> None:
        nonlocal took
        began = time.perf_counter()
        await listing.request("GET", "/api/v1/pods")
        took = time.perf_counter() - began

    asking = asyncio.create_task(ask())
    while not asking.done():
        began = time.perf_counter()
        await getting.request("GET", "/api/v1/namespaces/default")
        longest = max(longest, time.perf_counter() - began)
        await asyncio.sleep(0.005)
    for connection in (listing, getting):
        connection.close()
    return took * 1000, longest * 1000


async def warm_list(kubeconfig: Path, accept: str = "application/json", warm_up: int = 5, rounds: int = 15) -> str:
    """Milliseconds of one list of all pods: the median of the rounds and the longest, after some to warm up."""

    def ask() -> list[float]:
        connection, times = Discard(load(kubeconfig), accept), []
        for _ in range(warm_up + rounds):
            began = time.perf_counter()
            connection.get("/api/v1/pods")
            times.append((time.perf_counter() - began) * 1000)
        connection.close()
        return sorted(times[warm_up:])

    times = await asyncio.to_thread(ask)
    return f"{times[rounds // 2]:.0f} ms; {times[-1]:.0f} ms"


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
    tasks = []
    for _ in range(watchers):  # each asks at once: who has shown no credential may be asked to leave
        stream = await connect(access)
        tasks.append(asyncio.create_task(stream.lines(path, count)))
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


async def beside_watches(kubeconfig: Path, process: subprocess.Popen[str], watches: int) -> float:
    """Milliseconds of the server's CPU for one pod while so many watch the pods of other nodes, each of its own."""
    access = load(kubeconfig)
    streams = []
    for number in range(watches):
        streams.append(await connect(access))
        await streams[-1].begin(f"/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dnode-{number}")
    began = cpu_seconds(process)
    await creates(kubeconfig, 1000, f"beside-{watches}")
    spent = cpu_seconds(process) - began
    for stream in streams:
        stream.close()
    return spent


async def unread(kubeconfig: Path, process: subprocess.Popen[str], clients: int) -> float:
    """How many MB the server grows by for clients that ask for 40 MB each, by list or watch, and read nothing."""
    access = load(kubeconfig)
    maps = "/api/v1/namespaces/default/configmaps"
    jobs = [
        ("POST", maps, json.dumps({"metadata": {"name": f"large-{n}"}, "data": {"x": "x" * 500_000}}).encode())
        for n in range(80)
    ]
    await spread(kubeconfig, 2, jobs)
    await asyncio.sleep(2)
    before = rss_mb(process)
    asking = [await connect(access) for _ in range(clients)]
    for number, connection in enumerate(asking):
        connection.ask_without_reading(f"{maps}?watch=1" if number % 2 else maps)
    await asyncio.sleep(5)
    grown = rss_mb(process) - before
    for connection in asking:
        connection.close()
    return grown


def audited(folder: str) -> list[str]:
    """Options for a log of every request, at the level Metadata."""
    policy = Path(folder, "policy.yaml")
    policy.write_text("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}")
    return ["--audit-policy-file", str(policy), "--audit-log-path", f"{folder}/audit.log"]


async def applies(kubeconfig: Path, count: int) -> float:
    """Server-side applies per second of an object of 4 KB, over 16 connections; each changes something."""
    names = [f"applied-{number}" for number in range(64)]

    def job(number: int) -> tuple[str, str, bytes]:
        name = names[number % len(names)]
        annotations = {f"example.com/note-{key}": "x" * 68 for key in range(40)} | {"example.com/round": str(number)}
        body = POD | {"metadata": {"name": name, "annotations": annotations}}
        path = f"/api/v1/namespaces/default/pods/{name}?fieldManager=bench&force=true"
        return "PATCH", path, json.dumps(body).encode()

    await spread(kubeconfig, 16, map(job, range(len(names))), APPLY)
    began = time.perf_counter()
    await spread(kubeconfig, 16, map(job, range(len(names), len(names) + count)), APPLY)
    return count / (time.perf_counter() - began)


async def idle_watches(kubeconfig: Path, process: subprocess.Popen[str], watches: int) -> float:
    """How many MB the server has while so many clients watch and nothing happens."""
    access, streams = load(kubeconfig), []
    for _ in range(watches):
        streams.append(await connect(access))
        await streams[-1].begin("/api/v1/namespaces/default/secrets?watch=1")
    found = rss_mb(process)
    for stream in streams:
        stream.close()
    return found


async def as_a_user(count: int) -> list[tuple[str, str, str]]:
    """What a user with a role gets, while every request is audited."""
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster("--nodes", "0", "--components", "api,controllers", *audited(folder)) as (admin, process, _),
    ):
        user = user_of(admin, "bench", "benchers")
        await creates(user, 1000, "warm")
        made = f"{await creates(user, count, 'audited'):,.0f}/s"
        applied = f"{await applies(user, 2000):,.0f}/s"
    with cluster("--nodes", "0", "--components", "api,controllers") as (admin, process, _):
        idle = f"{await idle_watches(admin, process, 5000):.0f} MB"
    return [
        ("pod creates, 16 connections, RBAC and audit", made, "2,000/s"),
        ("server-side applies of 4 KB, RBAC and audit", applied, "1,200/s"),
        ("resident with 5,000 idle watches", idle, "< 200 MB"),
    ]


async def main(count: int) -> list[tuple[str, str, str]]:
    rows = []
    with cluster("--nodes", "0", "--components", "api,controllers") as (kubeconfig, process, ready):
        rows.append(("ready from cold", f"{ready:.2f} s", "< 1 s"))
        rows.append(("resident when idle", f"{rss_mb(process):.0f} MB", ""))
        await creates(kubeconfig, 500, "warm")
        rows.append(
            ("pod creates, 16 connections, TLS, durable", f"{await creates(kubeconfig, count):,.0f}/s", "1,500/s")
        )
        rows.append((f"list of {count + 500:,} pods, warm; the longest", await warm_list(kubeconfig), "< 40 ms"))
        rows.append((f"resident with {count + 500:,} pods", f"{rss_mb(process):.0f} MB", "< 150 MB"))
        took, longest = await first_list(kubeconfig, PROTOBUF)
        rows.append(("the same list in protobuf, the first; a GET meanwhile", f"{took:.0f}; {longest:.0f} ms", ""))
        rows.append(("the same list in protobuf, warm; the longest", await warm_list(kubeconfig, PROTOBUF), ""))
        rows.append(("resident then", f"{rss_mb(process):.0f} MB", ""))
        rows.append(("1,000 watchers", f"{await deliveries(kubeconfig, 1000, 200):,.0f} deliveries/s", "70,000/s"))
        grown = await unread(kubeconfig, process, 30)
        rows.append(("30 clients that do not read 40 MB", f"+{grown:.0f} MB", "a few each"))
        costs = [f"{await beside_watches(kubeconfig, process, watches):.2f}" for watches in (0, 6000)]
        rows.append(("CPU of a create beside 0 / 6,000 watches", f"{' / '.join(costs)} ms", "the same"))
    return rows + await as_a_user(count // 2)


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--pods", type=int, default=9500)
    arguments = options.parse_args()
    for name, figure, target in uvloop.run(main(arguments.pods)):
        print(f"{name:<45} {figure:>24}   {target}")
