"""Containers without a daemon: conmon keeps each of them, crun or runc makes it, and the kernel does the rest."""
