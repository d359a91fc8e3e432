"""Clusters in virtual time, for programs and notebooks: `simulate` and `virtual_cluster` (docs/testing.md).

This is the Python API of what `fairlead simulate` does; the pytest plugin (`fairlead.testing`) hands out the same.
"""

from __future__ import annotations

from fairlead.runtime.loops import run_virtual
from fairlead.simulation.run import Simulation, simulate
from fairlead.simulation.virtual import VirtualCluster, virtual_cluster

__all__ = ["Simulation", "VirtualCluster", "run_virtual", "simulate", "virtual_cluster"]
