"""The node agent: pods as real containers on this machine."""
