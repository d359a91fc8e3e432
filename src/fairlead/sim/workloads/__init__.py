"""Workloads that arrive: read from tables of any trace by a mapping, or generated."""
