"""Machines whose CPUs are handed out: as those in the tests of a kubelet's CPU manager."""

from __future__ import annotations

from fairlead.node.cpus.topology import Location, Shape, Topology

SINGLE_SOCKET_HT = Shape(1, 1, 1, 2).topology(8)
#: Cores of both sockets take turns.
DUAL_SOCKET_HT = Topology({cpu: Location(cpu % 6, cpu % 2, cpu % 2) for cpu in range(12)})
DUAL_SOCKET_NO_HT = Shape(2, 2, 1, 1).topology(8)
MULTI_NUMA_HT = Shape(2, 4, 1, 2).topology(80)
MULTI_NUMA_LARGE_HT = Shape(2, 8, 1, 2).topology(256)
#: Two sockets in each NUMA node.
MULTI_SOCKET_HT = Shape(4, 2, 1, 2).topology(80)
UNCORE_SINGLE_SOCKET = Shape(1, 1, 4, 1).topology(16)
UNCORE_DUAL_SOCKET = Shape(2, 2, 4, 1).topology(16)
UNCORE_MULTI_NUMA = Shape(1, 2, 4, 1).topology(16)
UNCORE_SMT = Shape(1, 1, 2, 2).topology(16)
