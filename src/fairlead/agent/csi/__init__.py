"""Volumes of CSI drivers on a real node: drivers register by their sockets, and mount volumes for pods."""
