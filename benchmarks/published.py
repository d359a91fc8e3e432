"""openb's published results beside ours: how much of the GPUs is given away once more is asked for than there is.

`python -m benchmarks.published [SEEDS]`. Weng et al. (Beware of Fragmentation, USENIX ATC 2023) fill the 1,213 GPU
nodes of the trace. Its pods come in a random order, never end, and are repeated by chance until they ask for 1.3 times
the GPUs. Published are the means of ten runs (`openb_pod_list_default` among the expected results of
github.com/hkust-adsl/kubernetes-scheduler-simulator). Here our scheduler decides about the same pods on the same nodes.

Needs ../shared/data/openb, which is not part of the repository; says so and stops where it is absent.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from statistics import mean
from typing import Any, Final

import numpy as np

from benchmarks.arguments import parser
from benchmarks.openb import TRACE
from fairlead.api.encoded import encoded
from fairlead.api.quantity import parse
from fairlead.api.scheduling import Node, Pod
from fairlead.runtime import rng
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.configuration import load
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.framework import Plugin, Reads
from fairlead.scheduler.profile import Profile, Weighted
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.snapshot import Snapshot
from fairlead.sim.openb import GPU, read_nodes, read_pods
from tests.scheduler.scheduler_world import Cluster

#: Percent of the GPUs that are given away when pods for all of them, and for 1.3 times as many, have come.
PUBLISHED: Final = {
    "Random": (86.3, 87.5),
    "DotProd": (90.6, 90.9),
    "GpuClustering": (91.7, 91.9),
    "GpuPacking": (91.8, 92.0),
    "BestFit": (92.9, 93.1),
    "FGD (theirs)": (95.2, 95.4),
}
ASKED: Final = 1.3
WHOLE: Final = 1000
MOST_DEVICES: Final = 8
SEEDS: Final = 10

Obj = dict[str, Any]


class Devices(Plugin):
    """The single GPUs of each node, of which a pod has a part of one, or several whole ones."""

    name = "Devices"
    reason = "node(s) had no GPU that is free enough"
    is_resolvable = True
    reads = Reads.AMOUNTS

    def __init__(self, choose: Callable[[list[int]], int]) -> None:
        """`choose` picks one of those that have so much left."""
        self._choose = choose
        self._free = np.zeros((0, MOST_DEVICES), dtype=np.int64)

    def of(self, cluster: Cluster) -> None:
        """All of them are free."""
        gpus = cluster.snapshot.allocatable[GPU] // WHOLE
        self._free = np.where(np.arange(MOST_DEVICES) < gpus[:, None], WHOLE, 0)

    def filters(self, requirements: PodRequirements) -> bool:
        return GPU in requirements.requests

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        wanted, free = requirements.requests[GPU], self._free[rows]
        mask: Mask = (free >= min(wanted, WHOLE)).sum(axis=1) >= max(wanted // WHOLE, 1)
        return mask

    def take(self, row: int, wanted: int) -> None:
        devices = self._free[row]
        while wanted > 0:
            part = min(wanted, WHOLE)
            fitting = np.flatnonzero(devices >= part)
            devices[fitting[self._choose(devices[fitting].tolist())]] -= part
            wanted -= part


@dataclass(frozen=True)
class Policy:
    name: str
    scoring: Obj
    has_devices: bool = True
    by_lot: bool = False


def fit(strategy: str, *resources: str) -> Obj:
    of = [{"name": resource, "weight": 1} for resource in resources]
    arguments = {"scoringStrategy": {"type": strategy, "resources": of}}
    return {"pluginConfig": [{"name": "NodeResourcesFit", "args": arguments}]}


NO_SCORES: Final = {"plugins": {"score": {"disabled": [{"name": "*"}]}}}
POLICIES: Final = (
    Policy("no scores: by lot", NO_SCORES, by_lot=True),
    Policy("default: LeastAllocated, balanced", {}),
    Policy("MostAllocated of cpu and GPU", fit("MostAllocated", "cpu", GPU)),
    Policy("default, GPUs of a node as one sum", {}, has_devices=False),
    Policy("MostAllocated, GPUs as one sum", fit("MostAllocated", "cpu", GPU), has_devices=False),
)


def profile(policy: Policy, devices: Devices) -> Profile:
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    found = load(document | {"profiles": [{"schedulerName": "default-scheduler"} | policy.scoring]}).profiles[0]
    return replace(found, plugins=(*found.plugins, Weighted(devices))) if policy.has_devices else found


def workload(pods: list[Obj], capacity: int, order: random.Random) -> Iterator[Obj]:
    """All pods in a random order, then some by chance until they would ask for too much."""
    yield from order.sample(pods, len(pods))
    asked = sum(map(wanted, pods))
    for number in count():
        pod = order.choice(pods)
        asked += wanted(pod)
        if asked > ASKED * capacity:
            return
        name = f"{pod['metadata']['name']}-{number}"
        yield pod | {"metadata": pod["metadata"] | {"name": name}}


def wanted(pod: Obj) -> int:
    """How much of GPUs, in thousandths."""
    return parse(pod["spec"]["containers"][0]["resources"]["requests"].get(GPU, "0")).units


def played(policy: Policy, nodes: list[Node], pods: list[Obj], seed: int) -> tuple[float, float, float]:
    """Percent of the GPUs given away when all, and 1.3 times as many, were asked for; and of the cpus in the end."""
    order = random.Random(seed)
    devices = Devices(lambda free: order.randrange(len(free)) if policy.by_lot else free.index(min(free)))
    cluster = Cluster(*nodes, profile=profile(policy, devices))
    devices.of(cluster)
    capacity, asked, given, at_all = int(cluster.snapshot.allocatable[GPU].sum()), 0, 0, 0.0
    for obj in workload(pods, capacity, order):
        pod, amount = encoded(obj).view(Pod), wanted(obj)
        decision = cluster.decide(pod)
        if isinstance(decision, Chosen):
            cluster.assume(pod, decision.row)
            if policy.has_devices:
                devices.take(decision.row, amount)
            given += amount
        asked += amount
        if asked <= capacity:
            at_all = given / capacity
    snapshot = cluster.snapshot
    cpu = snapshot.requested["cpu"].sum() / snapshot.allocatable["cpu"].sum()
    return 100 * at_all, 100 * given / capacity, 100 * float(cpu)


def main(seeds: int) -> None:
    nodes = [
        encoded(obj).view(Node)
        for obj in read_nodes(TRACE / "openb_node_list_all_node.csv")
        if GPU in obj["status"]["allocatable"]
    ]
    pods = [arrival.obj for arrival in read_pods(TRACE / "openb_pod_list_default.csv")]
    print(f"{'GPUs given away, in percent, of those asked for':<52}{'100 %':>8}{'130 %':>8}{'cpu':>8}")
    for name, (at_all, in_the_end) in PUBLISHED.items():
        print(f"{'published: ' + name:<52}{at_all:>8.1f}{in_the_end:>8.1f}")
    for policy in POLICIES:
        runs = []
        for seed in range(seeds):
            with rng.seeded(seed):
                runs.append(played(policy, nodes, pods, seed))
        print(
            f"{'ours: ' + policy.name:<52}" + "".join(f"{mean(each):>8.1f}" for each in zip(*runs, strict=True)),
            flush=True,
        )


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("seeds", type=int, nargs="?", default=SEEDS, help="how many runs (default: %(default)s)")
    given = options.parse_args()
    if not TRACE.exists():
        sys.exit(f"skipped: the trace is not here ({TRACE})")
    main(given.seeds)
