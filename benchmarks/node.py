"""What the decisions of many nodes cost: `python -m benchmarks.node`.

One eviction pass over a thousand nodes of a hundred pods each, all of them short of memory: the victims are found in
one go over columns, then every node takes its pass and says whom it evicts and why.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead.node.configuration.load import configure
from fairlead.node.eviction.candidates import Candidate, ContainerUsage, MeasuredPod, PodUsage, candidate
from fairlead.node.eviction.columns import PodColumns, column_victims
from fairlead.node.eviction.manager import Eviction, EvictionInputs, EvictionState, PassOutcome, eviction_pass
from fairlead.node.eviction.settings import EvictionSettings, eviction_settings
from fairlead.node.eviction.signals import MEMORY, FileSystems, FileSystemStats, NodeStats, Observation, Signal

NODES, PODS = 1_000, 100
ROUNDS = 9
_MI, _GI = 2**20, 2**30
_SHORT = NodeStats(
    memory=Observation(50 * _MI, 32 * _GI),
    allocatable_memory=Observation(50 * _MI, 32 * _GI),
    nodefs=FileSystemStats(Observation(80 * _GI, 100 * _GI), Observation(6_000_000, 6_553_600)),
    pids=Observation(30_000, 32_768),
)


@dataclass(frozen=True, slots=True)
class Node:
    pods: list[Candidate]
    columns: PodColumns
    memory_used: npt.NDArray[np.float64]


def _node(rng: random.Random) -> Node:
    pods = [_pod(number, rng) for number in range(PODS)]
    return Node(pods, PodColumns.of(pods), np.array([float(rng.randrange(512 * _MI)) for _ in pods]))


def _pod(number: int, rng: random.Random) -> Candidate:
    requests = {"memory": f"{rng.choice((0, 64, 128, 256, 512))}Mi"}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}], "priority": rng.choice((0, 0, 0, 1000))}
    return candidate({"metadata": {"name": f"p-{number}", "namespace": "default", "uid": f"u-{number}"}, "spec": spec})


def eviction_over(nodes: list[Node], settings: EvictionSettings) -> list[Eviction]:
    places = column_victims(MEMORY, [node.columns for node in nodes], [node.memory_used for node in nodes])
    return [_evicted(node, place, settings) for node, place in zip(nodes, places, strict=True)]


def _evicted(node: Node, place: int, settings: EvictionSettings) -> Eviction:
    def victim(signal: Signal) -> MeasuredPod:
        used = int(node.memory_used[place])
        return MeasuredPod(node.pods[place], PodUsage(used, containers=(ContainerUsage("c", used),)))

    inputs = EvictionInputs(FileSystems.SHARED, victim)
    try:
        next(eviction_pass(settings, EvictionState(), _SHORT, inputs, now=0.0))
    except StopIteration as finished:
        outcome: PassOutcome = finished.value
        return outcome.evictions[0]
    raise AssertionError("nothing of memory can be freed on a node")


def eviction_milliseconds() -> float:
    """The median of some passes over all nodes."""
    rng = random.Random(15)
    nodes = [_node(rng) for _ in range(NODES)]
    settings = eviction_settings(configure({}, []).configuration)
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        eviction_over(nodes, settings)
        took.append((time.perf_counter() - began) * 1000)
    return sorted(took)[ROUNDS // 2]


def main() -> None:
    print("measured                                                   took       asked")
    what = f"an eviction pass, {NODES:,} nodes x {PODS} pods under pressure"
    print(f"{what:<58} {f'{eviction_milliseconds():.0f} ms':<10} 100 ms", flush=True)


if __name__ == "__main__":
    main()
