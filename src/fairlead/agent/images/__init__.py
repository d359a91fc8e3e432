"""Images of containers on this machine, for a runtime that has no containerd: loaded, pulled, shared, removed."""
