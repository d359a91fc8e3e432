"""The cgroups of this machine: what `node/cgroups` reckons is written here, and what they use is measured."""
