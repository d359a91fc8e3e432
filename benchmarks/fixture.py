"""What a cluster costs a test: `python -m benchmarks.fixture`.

The first includes the imports; the next are what each further test waits for. Fifty after one another, each with a pod
that runs and a client that asked, must leave nothing behind: threads, open files, memory.
"""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from kubernetes.client import CoreV1Api

from benchmarks.arguments import parser

_STARTED = perf_counter()

NEXT = 20
IN_A_ROW = 50
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
}


def held() -> str:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
    files = len([*Path("/proc/self/fd").iterdir()])
    return f"{threading.active_count()} threads, {files} open files, {resident:.0f} MB"


def main() -> None:
    from fairlead.testing import cluster

    with cluster():
        print(f"first ready after     {perf_counter() - _STARTED:.2f} s")
    ready, worked, ended = [], [], []
    for _ in range(NEXT):
        began, cpu = perf_counter(), process_time()
        with cluster():
            ready.append(perf_counter() - began)
            worked.append(process_time() - cpu)
            began = perf_counter()
        ended.append(perf_counter() - began)
    print(
        f"next ready after      {_median_ms(ready)} ms, {1000 * max(ready):.0f} ms at most "
        f"({_median_ms(worked)} ms of CPU), gone in {_median_ms(ended)} ms"
    )
    for count in range(1, IN_A_ROW + 1):
        with cluster() as c:
            c.apply(POD)
            c.wait_for("pod/web", "Ready")
            CoreV1Api(c.client()).list_node()
        if count in (1, 2, 10, IN_A_ROW):
            print(f"after {count:>2} in a row     {held()}", flush=True)
    _virtual()


def _median_ms(seconds: list[float]) -> int:
    return round(1000 * median(seconds))


def _virtual() -> None:
    from fairlead.testing import run_virtual, virtual_cluster

    async def night() -> None:
        async with virtual_cluster() as c:
            await c.apply(POD)
            await c.run_for("24h")

    began = perf_counter()
    run_virtual(night())
    print(f"a day in virtual time {1000 * (perf_counter() - began):.0f} ms")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
