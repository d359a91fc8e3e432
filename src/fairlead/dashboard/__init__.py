"""A page that shows a cluster as it lives, or a kept run: read-only, on loopback, for whoever has its link."""
