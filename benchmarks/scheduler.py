"""How many pods per second the scheduler places: `python -m benchmarks.scheduler [SCENARIO …]` prints a table.

Every pod takes the whole way: watch → queue → decision → assume → bind → watch, over the cheapest `Api` there is
(`benchmarks/bare_api.py`); all nodes are scored. `registry` is the plain run over our server in memory, with
admission and events; `large` asks for single decisions among 150,000 pods.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.arguments import parser
from benchmarks.bare_api import BareApi
from fairlead.api import builtin
from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Node, Pod
from fairlead.api.verbs import Api, DeleteOptions
from fairlead.client.events import SeriesRecorder
from fairlead.client.informer import Informers
from fairlead.runtime import loops, rng
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.decide import Decider
from fairlead.scheduler.loop import Scheduler
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore

NODES = 5000
ZONES = 10
Obj = dict[str, Any]


def node(number: int) -> Obj:
    amounts = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % ZONES}"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": conditions},
    }


def pod(name: str, *, cpu: str = "100m", memory: str = "256Mi", priority: int = 0, **spec: Any) -> Obj:
    container = {
        "name": "app",
        "image": "registry.test/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    labels = spec.pop("labels", {"app": "web"})
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [container], "schedulerName": "default-scheduler", "priority": priority} | spec,
        "status": {"phase": "Pending"},
    }


def spread(name: str) -> Obj:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return pod(name, topologySpreadConstraints=[constraint])


def apart(name: str) -> Obj:
    """Ten deployments' worth of pods that keep off each other's nodes, as kube-scheduler's own benchmark has them."""
    group = {"app": f"apart-{int(name.rpartition('-')[2]) % 10}"}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": group}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(name, labels=group, affinity={"podAntiAffinity": required})


class Run:
    """A cluster in which a scheduler is at work."""

    def __init__(self, api: Api, *, with_events: bool = False) -> None:
        rng.seed(1)
        self.api = api
        self.informers = Informers(api)
        self.recorder = SeriesRecorder(api, "default-scheduler", host="h") if with_events else None
        self.scheduler = Scheduler(api, ClusterModel(self.informers), recorder=self.recorder)
        self._bound = 0
        self._changed = asyncio.Event()
        self.informers.of(builtin.PODS, Pod).subscribe(self._count)

    async def __aenter__(self) -> Run:
        parts = [self.informers.run(), self.scheduler.run()]
        if self.recorder is not None:
            parts.append(self.recorder.run())
        self._tasks = [asyncio.create_task(part) for part in parts]
        await self.informers.synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _count(self, old: Pod | None, new: Pod | None) -> None:
        was, is_ = bool(old and old.spec.node_name), bool(new and new.spec.node_name)
        mine = (new or old).metadata.name.startswith("pod-")  # type: ignore[union-attr]
        if mine and was != is_:
            self._bound += 1 if is_ else -1
            self._changed.set()

    async def bound(self, count: int) -> None:
        """Return once so many of the pods called `pod-…` have a node."""
        while self._bound < count:
            self._changed.clear()
            await self._changed.wait()

    async def create(self, pods: list[Obj]) -> None:
        for one in pods:
            await self.api.create(builtin.PODS, one, "default")


async def _with_nodes(api: Api) -> None:
    for number in range(NODES):
        await api.create(builtin.NODES, node(number))


async def _timed(api: Api, pods: list[Obj], *, with_events: bool = False) -> float:
    """Pods per second, from the first one's creation until the last one is bound."""
    await _with_nodes(api)
    async with Run(api, with_events=with_events) as run:
        began = time.perf_counter()
        await run.create(pods)
        await run.bound(len(pods))
        return len(pods) / (time.perf_counter() - began)


async def plain() -> float:
    return await _timed(BareApi(), [pod(f"pod-{number}") for number in range(10_000)])


async def topology_spread() -> float:
    return await _timed(BareApi(), [spread(f"pod-{number}") for number in range(5_000)])


async def anti_affinity() -> float:
    return await _timed(BareApi(), [apart(f"pod-{number}") for number in range(5_000)])


async def registry() -> float:
    server = Server(MemoryStore())
    await server.open(("ServiceAccount", "TaintNodesByCondition"))
    running = asyncio.create_task(server.run())
    try:
        pods = [pod(f"pod-{number}") for number in range(10_000)]
        for one in pods:
            del one["spec"]["priority"]
        return await _timed(server.api, pods, with_events=True)
    finally:
        running.cancel()


async def preemption(*, budgets: bool = False) -> float:
    """Every node is full of four less important pods; each newcomer needs the room of one."""
    api = BareApi()
    await _with_nodes(api)
    for number in range(NODES):
        for part in range(4):
            low = pod(
                f"low-{number}-{part}", cpu="8", memory="16Gi", nodeName=f"node-{number}", labels={"app": f"low-{part}"}
            )
            low["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{(number + part) % 60:02}Z"}
            await api.create(builtin.PODS, low, "default")
    for part in range(4 if budgets else 0):
        selector = {"matchLabels": {"app": f"low-{part}"}}
        status = {"disruptionsAllowed": 0 if part % 2 else 100_000}
        budget = {"metadata": {"name": f"budget-{part}"}, "spec": {"selector": selector}, "status": status}
        await api.create(builtin.POD_DISRUPTION_BUDGETS, budget, "default")
    async with Run(api) as run:
        leaving: set[str] = set()

        def leave(old: Pod | None, new: Pod | None) -> None:
            """Victims end at once, as a kubelet without grace would have it."""
            if new is not None and new.metadata.is_terminating and new.metadata.uid not in leaving:
                leaving.add(new.metadata.uid)
                options = DeleteOptions(grace_period_seconds=0)
                tasks.add(asyncio.ensure_future(api.delete(builtin.PODS, new.metadata.name, "default", options)))

        tasks: set[asyncio.Future[Any]] = set()
        run.informers.of(builtin.PODS, Pod).subscribe(leave)
        count = 2_000
        began = time.perf_counter()
        await run.create([pod(f"pod-{number}", cpu="8", memory="16Gi", priority=100) for number in range(count)])
        await run.bound(count)
        return count / (time.perf_counter() - began)


async def preemption_with_budgets() -> float:
    return await preemption(budgets=True)


async def churn() -> float:
    """One pod in ten fits nowhere, and comes and goes; the others are counted."""
    api = BareApi()
    await _with_nodes(api)
    async with Run(api) as run:
        count = 10_000
        began = time.perf_counter()
        for number in range(count):
            if number % 10 == 0:
                await api.create(builtin.PODS, pod(f"huge-{number}", cpu="64"), "default")
                if number >= 1_000:
                    await api.delete(builtin.PODS, f"huge-{number - 1_000}", "default", DeleteOptions(0))
            await api.create(builtin.PODS, pod(f"pod-{number}"), "default")
        await run.bound(count)
        return count / (time.perf_counter() - began)


async def large() -> float:
    """Milliseconds for a decision among 150,000 pods: known requirements; the first of new ones beside it."""
    rng.seed(1)
    model = ClusterModel(Informers(BareApi()))
    snapshot = model.snapshot
    for number in range(NODES):
        snapshot.set_node(encoded(node(number)).view(Node))
    for number in range(150_000):
        placed = encoded(pod(f"pod-{number}", nodeName=f"node-{number % NODES}", labels={"app": f"app-{number % 500}"}))
        model.handlers.pod_event(None, placed.view(Pod))
    gc.collect()
    gc.freeze()  # as `fairlead up` does when it is ready
    decider = next(iter(model.profiles.values())).decider
    kinds: list[tuple[str, Callable[[str], Obj]]] = [("plain", pod), ("spread", spread), ("anti-affinity", apart)]
    for name, make in kinds:
        first, again = _decisions(decider, model, make)
        print(f"  {name:<14} first {first:6.2f} ms   again {again:6.3f} ms")
    return again


def _decisions(decider: Decider, model: ClusterModel, make: Callable[[str], Obj]) -> tuple[float, float]:
    """Milliseconds of the first decision for new requirements, and the mean of those after it."""
    request: SchedulingRequest = model.request(encoded(make("new-1")).view(Pod))
    began = time.perf_counter()
    decider.decide(request)
    first = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(200):
        decider.decide(request)
    return first * 1000, (time.perf_counter() - began) * 1000 / 200


#: What is run, its unit, and what the project set out to reach.
SCENARIOS: Final[dict[str, tuple[Callable[[], Any], str, str]]] = {
    "plain": (plain, "pods/s", "5,000"),
    "spread": (topology_spread, "pods/s", "1,500"),
    "anti-affinity": (anti_affinity, "pods/s", "1,500"),
    "preemption": (preemption, "pods/s", "400"),
    "preemption-budgets": (preemption_with_budgets, "pods/s", "200"),
    "churn": (churn, "pods/s", "2,500"),
    "registry": (registry, "pods/s", "2,000"),
    "large": (large, "ms a decision", "1"),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("scenarios", nargs="*", help=f"any of {', '.join(SCENARIOS)}; all of them by default")
    names: list[str] = options.parse_args().scenarios or list(SCENARIOS)
    if unknown := set(names) - set(SCENARIOS):
        options.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if len(names) > 1:  # each in a process of its own, so that none inherits the memory of another
        print(f"{'scenario':<20} {'measured':>10} {'':<14} {'asked':>8} {'peak MB':>8}", flush=True)
        for name in names:
            subprocess.run([sys.executable, "-m", "benchmarks.scheduler", name], check=True)
        return
    run, unit, asked = SCENARIOS[names[0]]
    figure = loops.run(run())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{names[0]:<20} {figure:>10,.{3 if unit.startswith('ms') else 0}f} {unit:<14} {asked:>8} {peak:>8}", flush=True
    )


if __name__ == "__main__":
    main()
