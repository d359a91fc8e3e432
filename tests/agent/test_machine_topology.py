"""Where the CPUs of a machine are, read from what a kernel shows."""

from __future__ import annotations

from pathlib import Path

from fairlead.agent.topology.machine_topology import memory_of_machine, numa_nodes_of_machine, topology_of_machine
from fairlead.node.allocatable import Machine
from fairlead.node.cpus.topology import Location


def _machine(folder: Path) -> None:
    """Two sockets of two cores with two threads each, whose ids of cores begin anew in the second."""
    for cpu in range(8):
        core, socket = cpu % 4, cpu % 4 // 2
        own = folder / f"cpu/cpu{cpu}"
        for path, text in (
            ("topology/physical_package_id", socket),
            ("topology/core_id", core % 2),
            ("topology/thread_siblings_list", f"{core},{core + 4}"),
            ("cache/index3/id", socket + 10),
        ):
            (own / path).parent.mkdir(parents=True, exist_ok=True)
            (own / path).write_text(f"{text}\n")
    for node, cpus, distances in ((0, "0-1,4-5", "10 21"), (1, "2-3,6-7", "21 10")):
        own = folder / f"node/node{node}"
        own.mkdir(parents=True)
        (own / "cpulist").write_text(f"{cpus}\n")
        (own / "distance").write_text(f"{distances}\n")
        (own / "meminfo").write_text(f"Node {node} MemTotal:       4194304 kB\nNode {node} MemFree:  5 kB\n")
        pages = own / "hugepages/hugepages-2048kB"
        pages.mkdir(parents=True)
        (pages / "nr_hugepages").write_text(f"{node + 1}\n")


def test_cores_sockets_numa_nodes_and_caches(tmp_path: Path) -> None:
    _machine(tmp_path)
    found = topology_of_machine(range(8), tmp_path)
    assert found.locations[1] == Location(core=1, socket=0, numa=0, uncore=10)
    assert found.locations[6] == Location(core=2, socket=1, numa=1, uncore=11)
    assert found.threads_per_core == 2
    nodes = numa_nodes_of_machine(found, tmp_path)
    assert nodes.spread({0}) == 10
    assert nodes.spread({0, 1}) == 15.5


def test_only_those_on_which_the_node_may_run_count(tmp_path: Path) -> None:
    _machine(tmp_path)
    found = topology_of_machine({2, 6, 7}, tmp_path)
    assert found.cpus == {2, 6, 7}
    assert numa_nodes_of_machine(found, tmp_path).ids == {1}


def test_a_machine_that_tells_nothing_is_one_socket(tmp_path: Path) -> None:
    found = topology_of_machine({0, 1}, tmp_path)
    assert found.locations == {0: Location(core=0), 1: Location(core=1)}


def test_memory_and_huge_pages_of_numa_nodes(tmp_path: Path) -> None:
    _machine(tmp_path)
    machine = Machine(8, 8 << 30, 1, 1)
    both = numa_nodes_of_machine(topology_of_machine(range(8), tmp_path), tmp_path)
    assert memory_of_machine(both, machine, tmp_path) == {
        0: {"memory": 4 << 30, "hugepages-2Mi": 2 << 20},
        1: {"memory": 4 << 30, "hugepages-2Mi": 4 << 20},
    }
    one = numa_nodes_of_machine(topology_of_machine({2}, tmp_path), tmp_path)
    assert memory_of_machine(one, machine, tmp_path) == {1: {"memory": 8 << 30}}
