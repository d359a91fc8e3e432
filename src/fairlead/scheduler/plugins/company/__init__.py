"""Plugins about the other pods that a pod would have for company."""
