"""From which NUMA nodes containers have memory, as the memory manager of a kubelet decides it; without any effect."""
