"""Simulated nodes, and workloads to put on them."""
