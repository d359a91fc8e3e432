"""Containers by a container runtime that speaks CRI: containerd, CRI-O."""
