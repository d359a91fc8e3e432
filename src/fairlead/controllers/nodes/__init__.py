"""Nodes that fall silent, and what becomes of the pods there.

lifecycle.py    what a node says of itself, or does not say, becomes conditions and taints
taints.py       which taints a node should have
lifetime.py     for how long their agents may use what they have read
zones.py        how fast nodes may be given up, so that a broken network does not empty a whole zone
eviction.py     pods leave a node whose taints they do not tolerate, at once or after a while
"""

from fairlead.controllers.nodes.eviction import TaintEviction
from fairlead.controllers.nodes.lifecycle import NodeLifecycle

__all__ = ["NodeLifecycle", "TaintEviction"]
