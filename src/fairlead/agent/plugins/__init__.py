"""Plugins of a kubelet: drivers of volumes and of devices, which register at sockets in a folder of the node."""
