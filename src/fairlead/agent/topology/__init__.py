"""The CPUs and NUMA nodes of this machine, and what of them is containers' own: `node/placement.py` decides that."""
