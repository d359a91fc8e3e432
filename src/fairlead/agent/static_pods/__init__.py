"""Pods that a node runs because a file of its own says so, and how the cluster is shown them."""
