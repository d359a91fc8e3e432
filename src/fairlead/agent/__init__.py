"""The agent of a real node: pods as containers in real cgroups, by the decisions of `node/`."""
