"""What nodes that use and decide cost: `python -m benchmarks.node`.

- One eviction pass over a thousand simulated machines of a hundred pods each, all of them short of memory: each adds up
  its usage, ranks its pods, and says whom it evicts and why. Between two passes the evicted pod goes, another comes.
  Once with usage that stays as it is, once where every second pod's is noise. CPU time: others may use the machine.
- `--day`: a day of 5,000 nodes with 100,000 running pods, whose usage is constant, a wave, noise or bursts, by
  annotation, on the API server and the fleet in virtual time. Nodes renew no leases there. Its CPU time, divided by a
  day, is also the part of a core that the same takes in real time. Takes minutes, most of them to create the pods.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.arguments import parser
from fairlead.api.builtin import NODES, PODS
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.compose import Settings, simulation
from fairlead.node.configuration.load import configure
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.log_rotation import LogPolicy
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.runtime.memory import keep_started
from fairlead.server.registry.registry import UserApi
from fairlead.sim.machine.hardware import hardware_of
from fairlead.sim.machine.machine import SimulatedMachine
from fairlead.sim.machine.machine_pod import MachinePod
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.usage.declared import pod_usage

MACHINES, PODS_EACH, ROUNDS = 1_000, 100, 5
FLEET, FLEET_PODS = 5_000, 100_000
_DAY = 86_400.0
#: Pods name their nodes: nobody has to place them, or to make accounts for them.
_COMPONENTS = frozenset({"api", "nodes"})
_USAGE = "sim.fairlead.dev/usage-memory"
#: All that a machine has but 68Mi, or about as much.
_STEADY = ("327Mi",)
_NOISY = ("327Mi", "noise(mean=327Mi, spread=0.1%)")
_TEXTS = (
    "600Mi",
    "wave(low=300Mi, high=900Mi, period=24h)",
    "noise(mean=600Mi, spread=20%)",
    "burst(base=400Mi, peak=1Gi, every=10m, lasts=30s)",
)


def _machine(number: int, random_: random.Random, usages: Sequence[str]) -> SimulatedMachine:
    capacity = {"cpu": "16", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    node = msgspec.convert({"metadata": {"name": "n"}, "status": {"capacity": capacity}}, Node)
    machine = SimulatedMachine(hardware_of(node), configure({}))
    for place in range(PODS_EACH):
        machine.put(_running(_view(f"{number}-{place}", random_, usages[place % len(usages)])), 0.0)
    return machine


def _view(name: str, random_: random.Random, usage: str) -> Pod:
    requests = {"memory": f"{random_.choice((64, 128, 256, 512))}Mi"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    names = {"name": f"p-{name}", "namespace": "default", "uid": f"u-{name}"}
    metadata: Obj = names | {"annotations": {_USAGE: usage}}
    manifest = {"metadata": metadata, "spec": {"containers": containers, "priority": random_.choice((0, 0, 0, 1000))}}
    return msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)


def _running(pod: Pod) -> MachinePod:
    return MachinePod(
        pod, pod_usage(pod), {"c": 0.0}, frozenset(), lambda key: pod, LogPolicy.of(KubeletConfiguration())
    )


def eviction_milliseconds(usages: Sequence[str]) -> float:
    """The median of some passes over all machines; the first, which reads every pod's spec, does not count."""
    random_ = random.Random(15)
    machines = [_machine(number, random_, usages) for number in range(MACHINES)]
    keep_started()
    took = []
    for round_ in range(ROUNDS + 1):
        now = 10_000.0 + 100 * round_
        began = time.process_time()
        looks = [machine.look(now) for machine in machines]
        took.append((time.process_time() - began) * 1000)
        for number, (machine, look) in enumerate(zip(machines, looks, strict=True)):
            assert look.outcome is not None
            (eviction,) = look.outcome.evictions
            machine.remove(eviction.candidate.uid, now)
            machine.put(_running(_view(f"{number}-{round_}-new", random_, usages[0])), now)
    return sorted(took[1:])[ROUNDS // 2]


def _fleet_pods() -> Iterator[Obj]:
    for number in range(FLEET_PODS):
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}}}]
        yield {
            "metadata": {"name": f"p-{number}", "annotations": {_USAGE: _TEXTS[number % len(_TEXTS)]}},
            "spec": {"nodeName": f"node-{number % FLEET + 1}", "containers": containers},
        }


async def _created(api: UserApi) -> None:
    pods = _fleet_pods()

    async def create() -> None:
        for pod in pods:
            await api.create(PODS, pod, "default")

    await asyncio.gather(*(create() for _ in range(64)))


async def _day() -> float:
    """CPU seconds of a day in which all pods run."""
    nodes = tuple(uniform(FLEET, NodeShape(cpu="16", memory="64Gi")))
    settings = Settings(nodes=nodes, components=_COMPONENTS, disabled_admission=("ServiceAccount",))
    async with simulation(settings) as (api, _):
        await _created(api)
        await asyncio.sleep(60)
        leak = {"metadata": {"annotations": {_USAGE: "leak(1Mi/s)"}}}
        for number in range(1, FLEET, 100):  # one node in a hundred comes under pressure in the course of the day
            await api.patch(NODES, f"node-{number}", "", leak)
        keep_started()
        began = time.process_time()
        await asyncio.sleep(_DAY)
        return time.process_time() - began


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--day", action="store_true", help="the day of 5,000 nodes, too")
    given = options.parse_args()
    print("measured                                                       took        asked")
    what = f"an eviction pass, {MACHINES:,} machines x {PODS_EACH} pods under pressure"
    print(f"{what:<62} {f'{eviction_milliseconds(_STEADY):.0f} ms':<11} 100 ms", flush=True)
    print(
        f"{'the same, every second pod with noise':<62} {f'{eviction_milliseconds(_NOISY):.0f} ms':<11} -", flush=True
    )
    if not given.day:
        return
    rng.seed(1)
    took = run_virtual(_day())
    what = f"a day of {FLEET:,} nodes with {FLEET_PODS:,} pods, in virtual time"
    print(f"{what:<62} {f'{took:.0f} s':<11} 300 s")
    print(f"{'the same in real time, of one core':<62} {f'{took / _DAY:.2%}':<11} 40 %")


if __name__ == "__main__":
    main()
