"""The CPUs of this machine, and which containers have some to themselves: `node/cpus/` decides that."""
