"""What this machine and its pods use: cgroups and file systems are read, the runtime is not asked."""
