"""Plugins about the other pods that would be near a pod."""
