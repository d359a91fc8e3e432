"""Machines whose CPUs are handed out: as those in the tests of a kubelet's CPU manager, by rule instead of by list."""

from __future__ import annotations

from fairlead.node.cpus.topology import Location, Topology


def regular(cpus: int, cores: int, sockets: int, numas: int, uncores: int = 1) -> Topology:
    """Threads of a core are as far apart as there are cores; cores of a socket follow each other."""

    def location(core: int) -> Location:
        return Location(core, *(core * count // cores for count in (sockets, numas, uncores)))

    return Topology({cpu: location(cpu % cores) for cpu in range(cpus)})


SINGLE_SOCKET_HT = regular(8, 4, 1, 1)
#: Cores of both sockets take turns.
DUAL_SOCKET_HT = Topology({cpu: Location(cpu % 6, cpu % 2, cpu % 2) for cpu in range(12)})
DUAL_SOCKET_NO_HT = regular(8, 8, 2, 2)
MULTI_NUMA_HT = regular(80, 40, 2, 4)
MULTI_NUMA_LARGE_HT = regular(256, 128, 2, 8)
#: Two sockets in each NUMA node.
MULTI_SOCKET_HT = regular(80, 40, 4, 2)
UNCORE_SINGLE_SOCKET = regular(16, 16, 1, 1, 4)
UNCORE_DUAL_SOCKET = regular(16, 16, 2, 2, 4)
UNCORE_MULTI_NUMA = regular(16, 16, 1, 2, 4)
UNCORE_SMT = regular(16, 8, 1, 1, 2)
