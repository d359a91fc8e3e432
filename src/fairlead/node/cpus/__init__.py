"""Which CPUs containers have to themselves, as the CPU manager of a kubelet decides it; without any effect."""
