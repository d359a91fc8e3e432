"""Where the CPUs of this machine are, as its kernel shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.api.podresources import HUGEPAGES
from fairlead.api.quantity import Format, Quantity
from fairlead.node.allocatable import Machine, numa_memory
from fairlead.node.configuration.cpu_sets import parse_cpu_set
from fairlead.node.cpus.topology import Location, Topology
from fairlead.node.numa_hints import NumaNodes

_SYSTEM: Final = Path("/sys/devices/system")
_LAST_LEVEL: Final = "cache/index3"


def topology_of_machine(cpus: Iterable[int], system: Path = _SYSTEM) -> Topology:
    """Of these CPUs; what the machine does not tell is one for all of them."""
    numas = {cpu: node for node, own in _nodes(system).items() for cpu in own}
    return Topology({cpu: _location(system / f"cpu/cpu{cpu}", cpu, numas.get(cpu, 0)) for cpu in sorted(cpus)})


def numa_nodes_of_machine(topology: Topology, system: Path = _SYSTEM) -> NumaNodes:
    """Those that have any of the CPUs, with what the kernel says of their distances."""
    ids, order = topology.ids("numa"), sorted(_nodes(system))
    distances: dict[tuple[int, int], int] = {}
    for node in ids:
        with suppress(OSError):
            stated = (system / f"node/node{node}/distance").read_text().split()
            distances |= {(node, other): int(text) for other, text in zip(order, stated, strict=False)}
    return NumaNodes(ids, distances)


def memory_of_machine(nodes: NumaNodes, machine: Machine, system: Path = _SYSTEM) -> Mapping[int, Mapping[str, int]]:
    """By NUMA node and type, in bytes; a node of a part of a machine with one of them has that part."""
    if len(nodes.ids) == 1:
        return dict.fromkeys(nodes.ids, numa_memory(machine)[0])
    return {node: _memory(system / f"node/node{node}") for node in sorted(nodes.ids)}


def _memory(folder: Path) -> Mapping[str, int]:
    lines = (line.split() for line in (folder / "meminfo").read_text().splitlines())
    found = {"memory": next(int(words[3]) for words in lines if words[2] == "MemTotal:") << 10}
    for pages in (folder / "hugepages").glob("hugepages-*kB"):
        size = int(pages.name.removeprefix("hugepages-").removesuffix("kB")) << 10
        name = f"{HUGEPAGES}{Quantity.of_units(size, Format.BINARY_SI)}"
        found[name] = size * int((pages / "nr_hugepages").read_text())
    return found


def _nodes(system: Path) -> dict[int, frozenset[int]]:
    """The CPUs of each NUMA node."""
    folders = (system / "node").glob("node[0-9]*")
    return {int(folder.name.removeprefix("node")): _listed(folder / "cpulist") for folder in folders}


def _location(folder: Path, cpu: int, numa: int) -> Location:
    socket = _number(folder / "topology/physical_package_id", 0)
    threads = _listed(folder / "topology/thread_siblings_list") or {cpu}
    return Location(min(threads), socket, numa, _number(folder / _LAST_LEVEL / "id", socket))


def _listed(path: Path) -> frozenset[int]:
    try:
        return parse_cpu_set(path.read_text().strip()).cpus
    except OSError:
        return frozenset()


def _number(path: Path, otherwise: int) -> int:
    """Virtual machines say -1 of what they do not know."""
    try:
        return max(int(path.read_text()), 0)
    except (OSError, ValueError):
        return otherwise
