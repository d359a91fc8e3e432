"""What one client waits for while others do all they can: `python -m benchmarks.contention`.

64 clients of one user create pods as fast as they are answered, and pause for a second if told to; one more, of
another user, asks for an object and creates one by turns. The server runs as a process of its own (`fairlead up`,
SQLite on disk, TLS), all clients in this one: what they take of the machine is part of what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path

import uvloop

from benchmarks.api import POD, cluster
from benchmarks.arguments import parser
from benchmarks.client import Connection, connect, user_of
from fairlead.client.kubeconfig import load

PODS = "/api/v1/namespaces/default/pods"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


async def main(clients: int, seconds: float, options: list[str]) -> None:
    with cluster("--components", "api,controllers", *options) as (admin, _, _):
        noisy, prober = user_of(admin, "noisy", "noisy"), await connect(load(user_of(admin, "prober", "probers")))
        await until_ready(prober)
        report("alone", await probed(prober, seconds / 4))
        noise = [asyncio.create_task(creating(noisy, number)) for number in range(clients)]
        await asyncio.sleep(2 + clients / 100)  # handshakes
        report(f"beside {clients} that create", await probed(prober, seconds))
        for task in noise:
            task.cancel()
        created = sum(await asyncio.gather(*noise))
        print(f"{created / (seconds + 2 + clients / 100):10,.0f} creates/s of the others")


async def until_ready(prober: Connection) -> None:
    """Until pods can be created: the controllers make the account of each namespace."""
    while True:
        with contextlib.suppress(RuntimeError):
            await prober.request("GET", ACCOUNT)
            return
        await asyncio.sleep(0.1)


async def creating(kubeconfig: Path, number: int) -> int:
    """Create pods, one after the other, until cancelled; how many were created."""
    count = 0
    try:
        connection = await connect(load(kubeconfig))
        while True:
            try:
                await connection.request("POST", PODS, pod(f"noise-{number}-{count}"))
            except RuntimeError as error:
                if ": 429 " not in str(error):
                    raise
                await asyncio.sleep(1)
            else:
                count += 1
    except asyncio.CancelledError:
        return count


async def probed(prober: Connection, seconds: float) -> tuple[list[float], list[float]]:
    """Milliseconds of each GET and each create."""
    gets, creates, end = [], [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        await prober.request("GET", ACCOUNT)
        gets.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        await prober.request("POST", PODS, pod(f"probe-{time.monotonic_ns()}"))
        creates.append((time.perf_counter() - began) * 1000)
    return gets, creates


def pod(name: str) -> bytes:
    return json.dumps(POD | {"metadata": {"name": name}}).encode()


def report(what: str, taken: tuple[list[float], list[float]]) -> None:
    for verb, times in zip(("GET", "create"), taken, strict=True):
        ranked = sorted(times)
        figures = "  ".join(f"p{part}: {ranked[len(ranked) * part // 100]:7.1f}" for part in (50, 90, 99))
        print(f"{verb:>8} {what:<24} {figures}   ms of {len(ranked):,}", flush=True)


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--seconds", type=float, default=20)
    given, further = options.parse_known_args()
    uvloop.run(main(given.clients, given.seconds, further))
