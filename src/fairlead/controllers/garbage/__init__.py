"""Garbage collection: what belongs to nobody any more is removed, and owners that wait for it are let go.

graph.py        who owns whom, over all kinds, kept current by every change
collector.py    what to do with one object of the graph
"""

from fairlead.controllers.garbage.collector import GarbageCollector

__all__ = ["GarbageCollector"]
