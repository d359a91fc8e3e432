"""How long a kube-scheduler waits for the arbitrator: `python -m benchmarks.extender` prints a table.

500 questions a second about 5,000 nodes, by name, each of another pod. They are sent when they are due, whether or not
those before have been answered, and the time runs from then on. The listener is a process of its own; beside it the
arbitrator would run its cycles, see `benchmarks.arbitrator`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import msgspec
import uvloop

from benchmarks.arguments import parser
from benchmarks.client import connect
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.outcomes import Division, ShareOutcome
from fairlead.arbitrator.serving import ListenAddress, ListenerState, Tls, listening
from fairlead.client.kubeconfig import Access
from fairlead.runtime.loops import run
from fairlead.runtime.memory import collect_seldom, keep_started
from fairlead.runtime.metrics import MetricsRegistry
from fairlead.server.auth.certificates import Pki, ensure

ASKED_MS = 5.0
CONNECTIONS = 8


def serve(pki: Pki | None, pipe: Pipe) -> None:
    """Namespace `open` may start anything, `closed` nothing. Tells its port, and ends with the process."""

    async def answer() -> None:
        grants = GrantTable(Accounting())
        cpu = {"open": 1 << 60, "closed": 0}
        outcomes = {name: ShareOutcome({}, {}, {}, {}, granted={"cpu": amount}) for name, amount in cpu.items()}
        grants.publish(Division({}, outcomes, {}), frozenset())
        tls = Tls(pki.server_certificate, pki.server_key) if pki else None
        async with listening(
            ListenAddress("127.0.0.1", 0), tls, ListenerState(MetricsRegistry(), grants=grants)
        ) as port:
            collect_seldom()
            keep_started()  # as `fairlead arbitrator` does
            pipe.send(port)
            await asyncio.Event().wait()

    run(answer())


@contextmanager
def listener(pki: Pki | None) -> Iterator[Access]:
    """A listener in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(pki, theirs), daemon=True)
    process.start()
    try:
        address = f"127.0.0.1:{ours.recv()}"
        yield Access(f"https://{address}", pki.ca_certificate.read_bytes()) if pki else Access(f"http://{address}")
    finally:
        process.terminate()
        process.join()


def question(namespace: str, number: int, nodes: bytes) -> bytes:
    container = {"name": "c", "image": "nginx:1.27", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    metadata = {"name": f"web-{number}", "namespace": namespace, "uid": f"7f0c0e60-0000-4000-8000-{number:012}"}
    pod = {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": "Pending"}}
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (msgspec.json.encode(pod), nodes)


async def measure(access: Access, namespace: str, rate: int, nodes: int, seconds: float) -> list[float]:
    """What each answer took, in milliseconds, in order of length."""
    names = msgspec.json.encode([f"worker-{number:05}" for number in range(nodes)])
    idle = asyncio.Queue[int]()
    connections = [await connect(access) for _ in range(CONNECTIONS)]
    for number in range(CONNECTIONS):
        idle.put_nowait(number)
    took: list[float] = []

    async def ask(number: int, due: float) -> None:
        free = await idle.get()
        await connections[free].request("POST", "/filter", question(namespace, number, names))
        took.append((time.perf_counter() - due) * 1000)
        idle.put_nowait(free)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(ask(number, due))
    for one in connections:
        one.close()
    return sorted(took)


async def made(folder: Path) -> Pki:
    return ensure(folder)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rate", type=int, default=500)
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--seconds", type=float, default=10)
    said = options.parse_args()
    print(f"{said.rate} questions a second about {said.nodes:,} nodes; asked: 99 % within {ASKED_MS:g} ms")
    print(f"{'':22} {'50 %':>9} {'99 %':>9} {'slowest':>9}")
    with tempfile.TemporaryDirectory() as folder:
        pki = uvloop.run(made(Path(folder) / "pki"))
        collect_seldom()
        keep_started()  # our own pauses would be taken for those of the listener
        for transport, keys in (("http", None), ("https", pki)):
            for namespace, answer in (("open", "may start"), ("closed", "must wait")):
                with listener(keys) as access:
                    took = uvloop.run(measure(access, namespace, said.rate, said.nodes, said.seconds))
                shown = [took[len(took) // 2], took[int(len(took) * 0.99)], took[-1]]
                print(f"{transport + ', ' + answer:22} " + " ".join(f"{one:6.2f} ms" for one in shown))


if __name__ == "__main__":
    main()
