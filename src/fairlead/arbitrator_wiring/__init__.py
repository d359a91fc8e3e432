"""The arbitrator where it meets what knows nothing of it: a scheduler, and our own server's admission chain."""
