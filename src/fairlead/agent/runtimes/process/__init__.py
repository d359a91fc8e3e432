"""Containers of a user without root: processes in namespaces of that user, each looked after by a small program."""
